//! The allocations in flight that the instances of all profiles share.

use berth_framework::{CycleId, Plugin};
use berth_model::{Features, NodeIdx, Pod};
use serde_json::json;

use super::{NO_DEVICES, device_cluster::DeviceCluster, gpus};
use crate::{
    BuiltIn,
    dynamic_resources::{ClassDevices, DynamicResources},
};

/// A cluster with `n_gpus` devices on `node-1` and the claims `c` and `d`, and pods that name them.
fn two_claims(n_gpus: usize) -> (DeviceCluster, Pod, Pod) {
    let mut cluster = DeviceCluster::new();
    cluster.slice(gpus(n_gpus));
    cluster.claim("c", |_| {});
    cluster.claim("d", |_| {});
    let (first, second) = (cluster.pod("first", &["c"], json!({})), cluster.pod("second", &["d"], json!({})));
    (cluster, first, second)
}

fn instance() -> Box<dyn Plugin> {
    Box::new(DynamicResources::new("null").unwrap())
}

/// Enters what the serving instance shares, as the scheduler does.
fn share(cluster: &mut DeviceCluster) {
    for fact in cluster.plugin.take_facts() {
        cluster.cluster.cache_mut().set_object(fact.key("DynamicResources"), fact.json);
    }
}

fn unreserve(cluster: &mut DeviceCluster, cycle: u64, pod: &Pod) {
    cluster.call(cycle, pod, |plugin, call| plugin.reserve().unwrap().unreserve(call, NodeIdx(0)));
    share(cluster);
}

/// kube-scheduler's profiles share one `SharedDRAManager` (`pkg/scheduler/framework/plugins/dynamicresources`).
#[test]
fn profiles_know_each_others_allocations_in_flight() {
    let (mut cluster, first, second) = two_claims(1);
    let third = cluster.pod("third", &["c"], json!({}));
    assert_eq!(cluster.verdicts(1, &first), ["", NO_DEVICES]);
    assert_eq!(cluster.reserve(1, &first, 0), "");
    share(&mut cluster);
    let mut other = instance();
    std::mem::swap(&mut cluster.plugin, &mut other);
    assert_eq!(cluster.verdicts(2, &second), [NO_DEVICES, NO_DEVICES]);
    assert_eq!(
        cluster.verdicts(3, &third),
        ["UnschedulableAndUnresolvable: resource claim default/c is in the process of being allocated"]
    );
    std::mem::swap(&mut cluster.plugin, &mut other);
    unreserve(&mut cluster, 1, &first);
    std::mem::swap(&mut cluster.plugin, &mut other);
    assert_eq!(cluster.verdicts(4, &second), ["", NO_DEVICES]);
    assert_eq!(cluster.verdicts(5, &third), ["", NO_DEVICES]);
}

#[test]
fn a_fact_about_an_allocation_that_was_written_holds_no_devices() {
    let (mut cluster, first, second) = two_claims(1);
    assert_eq!(cluster.verdicts(1, &first), ["", NO_DEVICES]);
    assert_eq!(cluster.reserve(1, &first, 0), "");
    let effects = cluster.pre_bind(1, &first, 0).unwrap();
    share(&mut cluster);
    effects.iter().for_each(|effect| cluster.perform(effect));
    cluster.plugin.end_cycle(CycleId(1));
    // An instance that begins now gets the fact and the claim at once.
    cluster.plugin = instance();
    assert_eq!(cluster.verdicts(2, &second), [NO_DEVICES, NO_DEVICES]);
    // A new claim has the same name and no allocation.
    cluster.claim("c", |_| {});
    assert_eq!(cluster.verdicts(3, &second), ["", NO_DEVICES]);
}

#[test]
fn the_next_instance_gives_back_what_a_lost_one_reserved() {
    let (mut cluster, first, second) = two_claims(1);
    assert_eq!(cluster.verdicts(1, &first), ["", NO_DEVICES]);
    assert_eq!(cluster.reserve(1, &first, 0), "");
    share(&mut cluster);
    cluster.plugin = instance();
    assert_eq!(cluster.pre_bind(1, &first, 0), Err("Error: claim allocation not found for node".to_owned()));
    assert_eq!(cluster.verdicts(2, &second), [NO_DEVICES, NO_DEVICES]);
    unreserve(&mut cluster, 1, &first);
    assert_eq!(cluster.verdicts(3, &second), ["", NO_DEVICES]);
}

/// kube-scheduler counts them by the state of its DRA manager (`calculateDRAResourceTotals` in
/// `pkg/scheduler/framework/plugins/noderesources`).
#[test]
fn scores_count_devices_of_allocations_in_flight() {
    let (mut cluster, first, _) = two_claims(2);
    let class = json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}});
    cluster.put("DeviceClass", class);
    let resource = cluster.cluster.sym("example.com/gpu");
    let mut devices = ClassDevices::new(Features::default());
    let mut used = |cluster: &mut DeviceCluster| {
        cluster.call(2, &first, |_, call| devices.columns(call, resource, call.table.nodes()).unwrap().used)
    };
    assert_eq!(cluster.verdicts(1, &first), ["", NO_DEVICES]);
    assert_eq!(cluster.reserve(1, &first, 0), "");
    assert_eq!(used(&mut cluster), [0, 0]);
    share(&mut cluster);
    assert_eq!(used(&mut cluster), [1, 0]);
    unreserve(&mut cluster, 1, &first);
    assert_eq!(used(&mut cluster), [0, 0]);
}
