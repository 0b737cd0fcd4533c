//! What Unreserve writes, as `Unreserve` of kube-scheduler's plugin does
//! (`pkg/scheduler/framework/plugins/dynamicresources`).

use berth_framework::PatchType;

use super::*;

/// A claim, and a pod that has reserved devices for the claim in cycle 1.
fn reserved() -> (DeviceCluster, Pod) {
    let mut cluster = DeviceCluster::new();
    cluster.slice(gpus(1));
    cluster.claim("c", |_| {});
    let pod = cluster.pod("p", &["c"], json!({}));
    assert_eq!(cluster.verdicts(1, &pod), ["", NO_DEVICES]);
    assert_eq!(cluster.reserve(1, &pod, 0), "");
    (cluster, pod)
}

/// The cluster and the pod of [`reserved`], after the effects of PreBind were carried out.
fn written() -> (DeviceCluster, Pod) {
    let (mut cluster, pod) = reserved();
    for effect in cluster.pre_bind(1, &pod, 0).unwrap() {
        cluster.perform(&effect);
    }
    (cluster, pod)
}

fn release_of(pod: &str) -> Effect {
    let status = json!({"reservedFor": [{"$patch": "delete", "uid": format!("{pod}-uid")}]});
    Effect::Patch {
        kind: "resource.k8s.io/v1/ResourceClaim".to_owned(),
        namespace: "default".to_owned(),
        name: "c".to_owned(),
        subresource: Some("status".to_owned()),
        patch: json!({"metadata": {"uid": "c-uid"}, "status": status}).to_string().into_bytes(),
        patch_type: PatchType::StrategicMerge,
    }
}

/// The names of the pods that have reserved the claim.
fn users(cluster: &DeviceCluster) -> Vec<&str> {
    let users = cluster.object("ResourceClaim", "c")["status"]["reservedFor"].as_array().unwrap();
    users.iter().map(|user| user["name"].as_str().unwrap()).collect()
}

#[test]
fn a_reservation_that_was_not_written_needs_no_effect() {
    let (mut cluster, pod) = reserved();
    assert_eq!(cluster.unreserve(1, &pod), Vec::<Effect>::new());
}

#[test]
fn a_reservation_is_removed_and_the_allocation_stays() {
    let (mut cluster, pod) = written();
    assert_eq!(users(&cluster), ["p"]);
    let effects = cluster.unreserve(1, &pod);
    assert_eq!(effects, [release_of("p")]);
    cluster.perform(&effects[0]);
    assert_eq!(users(&cluster), [""; 0]);
    assert!(cluster.object("ResourceClaim", "c")["status"]["allocation"].is_object());
    cluster.plugin.end_cycle(CycleId(1));
    cluster.place(2, &pod);
    assert_eq!(users(&cluster), ["p"]);
}

#[test]
fn other_pods_keep_their_reservations() {
    let (mut cluster, first) = written();
    cluster.plugin.end_cycle(CycleId(1));
    let second = cluster.pod("q", &["c"], json!({}));
    assert_eq!(cluster.verdicts(2, &second)[0], "");
    assert_eq!(cluster.reserve(2, &second, 0), "");
    for effect in cluster.pre_bind(2, &second, 0).unwrap() {
        cluster.perform(&effect);
    }
    assert_eq!(users(&cluster), ["p", "q"]);
    let effects = cluster.unreserve(2, &second);
    assert_eq!(effects, [release_of("q")]);
    cluster.perform(&effects[0]);
    assert_eq!(users(&cluster), ["p"]);
    // A later attempt of the first pod fails before Reserve of this plugin.
    assert_eq!(cluster.unreserve(3, &first), [release_of("p")]);
}

/// The scheduler carries out the effects of Unreserve after the effects of PreBind.
#[test]
fn a_write_that_is_not_seen_yet_is_undone() {
    let (mut cluster, pod) = reserved();
    let writes = cluster.pre_bind(1, &pod, 0).unwrap();
    let effects = cluster.unreserve(1, &pod);
    assert_eq!(effects, [release_of("p")]);
    writes.iter().chain(&effects).for_each(|effect| cluster.perform(effect));
    assert_eq!(users(&cluster), [""; 0]);
}

#[test]
fn a_claim_that_is_gone_needs_no_effect() {
    let (mut cluster, pod) = written();
    let [kind, namespace, name] = ["resource.k8s.io/v1/ResourceClaim", "default", "c"].map(str::to_owned);
    cluster.perform(&Effect::Delete { kind, namespace, name });
    assert_eq!(cluster.unreserve(1, &pod), Vec::<Effect>::new());
}

#[test]
fn an_instance_that_took_over_removes_the_reservation() {
    let (mut cluster, pod) = written();
    cluster.plugin = Box::new(DynamicResources::new("null").unwrap());
    assert_eq!(cluster.unreserve(1, &pod), [release_of("p")]);
}

/// The next attempt must not rely on a reservation that is being removed. The attempt's write fails until the
/// claim shows the removal.
#[test]
fn a_reservation_that_is_being_removed_does_not_count() {
    let (mut cluster, pod) = written();
    let removal = cluster.unreserve(1, &pod);
    cluster.plugin.end_cycle(CycleId(1));
    assert_eq!(cluster.verdicts(2, &pod)[0], "");
    assert_eq!(cluster.reserve(2, &pod, 0), "");
    let effects = cluster.pre_bind(2, &pod, 0).unwrap();
    let [Effect::Patch { patch, .. }] = &effects[..] else { panic!("{effects:?}") };
    let patch: Value = serde_json::from_slice(patch).unwrap();
    let version = cluster.object("ResourceClaim", "c")["metadata"]["resourceVersion"].clone();
    assert_eq!(patch["metadata"]["resourceVersion"], version);
    assert_eq!(patch["status"]["reservedFor"].as_array().unwrap().len(), 1);
    assert_eq!(cluster.unreserve(2, &pod), removal);
    cluster.plugin.end_cycle(CycleId(2));
    removal.iter().for_each(|effect| cluster.perform(effect));
    cluster.place(3, &pod);
    assert_eq!(users(&cluster), ["p"]);
}

/// The plugin may see each write of PreBind at a different time.
#[test]
fn a_removal_counts_until_the_watch_shows_it() {
    let (mut cluster, pod) = reserved();
    let writes = cluster.pre_bind(1, &pod, 0).unwrap();
    let [finalizer, reservation] = &writes[..] else { panic!("{writes:?}") };
    assert_eq!(cluster.unreserve(1, &pod), [release_of("p")]);
    cluster.plugin.end_cycle(CycleId(1));
    cluster.perform(finalizer);
    cluster.verdicts(2, &pod);
    cluster.plugin.end_cycle(CycleId(2));
    cluster.perform(reservation);
    assert_eq!(cluster.verdicts(3, &pod)[0], "");
    assert_eq!(cluster.reserve(3, &pod, 0), "");
    assert_eq!(cluster.pre_bind(3, &pod, 0).unwrap().len(), 1);
}

#[test]
fn an_instance_that_took_over_knows_which_reservations_are_being_removed() {
    let (mut cluster, pod) = written();
    cluster.unreserve(1, &pod);
    cluster.plugin.end_cycle(CycleId(1));
    let handover = cluster.plugin.state().unwrap().snapshot();
    cluster.plugin = Box::new(DynamicResources::new("null").unwrap());
    cluster.plugin.state().unwrap().restore(&handover).unwrap();
    assert_eq!(cluster.verdicts(2, &pod)[0], "");
    assert_eq!(cluster.reserve(2, &pod, 0), "");
    assert_eq!(cluster.pre_bind(2, &pod, 0).unwrap().len(), 1);
}
