//! The plugin with feature gates at another value than the default, and its argument `filterTimeout`.

use berth_framework::Effect;
use berth_model::{Feature, Features, Release};
use serde_json::{Value, json};

use super::{NO_DEVICES, device_cluster::DeviceCluster, gpus};
use crate::dynamic_resources::objects;

/// A cluster whose plugin has the gate on or off.
fn with_gate(gate: &str, is_on: bool) -> DeviceCluster {
    DeviceCluster::with_args(&json!({"features": {gate: is_on}}).to_string())
}

/// KEP-4816: a claim that was stored with alternatives cannot be allocated without the gate.
#[test]
fn alternatives_need_their_gate() {
    let verdict = |is_on| {
        let mut cluster = with_gate("DRAPrioritizedList", is_on);
        cluster.slice(gpus(1));
        let alternative = json!({"name": "one", "deviceClassName": "gpu", "count": 1});
        cluster.claim("c", |claim| {
            claim["spec"]["devices"]["requests"] = json!([{"name": "r", "firstAvailable": [alternative]}]);
        });
        let pod = cluster.pod("p", &["c"], json!({}));
        cluster.pre_filter(1, &pod)
    };
    assert_eq!(verdict(true), "");
    let refused = "UnschedulableAndUnresolvable: resource claim default/c, request r: has subrequests, but the \
                   DRAPrioritizedList feature is disabled";
    assert_eq!(verdict(false), refused);
}

/// KEP-5007: only the status of devices says that a device is ready. With the gate off, binding therefore does not wait
/// for it.
#[test]
fn binding_waits_for_devices_only_if_their_status_is_known() {
    let waits = |is_on| {
        let mut cluster = with_gate("DRAResourceClaimDeviceStatus", is_on);
        cluster.slice(json!([{"name": "fabric", "bindingConditions": ["ready"]}]));
        cluster.claim("c", |_| {});
        let pod = cluster.pod("p", &["c"], json!({}));
        assert_eq!(cluster.verdicts(1, &pod), ["", NO_DEVICES]);
        assert_eq!(cluster.reserve(1, &pod, 0), "");
        let effects = cluster.pre_bind(1, &pod, 0).unwrap();
        effects.iter().any(|effect| matches!(effect, Effect::Wait { .. }))
    };
    assert_eq!([waits(true), waits(false)], [true, false]);
}

/// In 1.36 the rules are a beta feature, and 1.37 serves them as `v1`.
#[test]
fn each_release_reads_one_version_of_taint_rules() {
    let is_tainted = |release, version: &str| {
        let features = Features::of(release).with(Feature::DRADeviceTaintRules, true);
        let mut cluster = DeviceCluster::with_args(&json!({ "features": features }).to_string());
        cluster.slice(gpus(1));
        let spec =
            json!({"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "k", "effect": "NoSchedule"}});
        cluster.cluster.set_object(&json!({"apiVersion": version, "kind": "DeviceTaintRule",
            "metadata": {"name": "bad"}, "spec": spec}));
        cluster.claim("c", |_| {});
        let pod = cluster.pod("p", &["c"], json!({}));
        cluster.verdicts(1, &pod) == [NO_DEVICES, NO_DEVICES]
    };
    let read = |release| [objects::BETA_API_VERSION, objects::API_VERSION].map(|version| is_tainted(release, version));
    assert_eq!(Release::ALL.map(read), [[true, false], [false, true]]);
}

/// A part of the selector that is not set matches every device. So does a rule without a selector, in kube-scheduler of
/// both releases.
#[test]
fn a_taint_rule_taints_the_devices_that_it_selects() {
    let verdict = |selector: &Value, effect: &str| {
        Release::ALL.map(|release| {
            let features = Features::of(release).with(Feature::DRADeviceTaintRules, true);
            let is_v1 = features.has(Feature::DeviceTaintRulesAreV1);
            let version = if is_v1 { objects::API_VERSION } else { objects::BETA_API_VERSION };
            let mut cluster = DeviceCluster::with_args(&json!({ "features": features }).to_string());
            cluster.slice(gpus(1));
            let spec = json!({"deviceSelector": selector, "taint": {"key": "k", "effect": effect}});
            cluster.cluster.set_object(&json!({"apiVersion": version, "kind": "DeviceTaintRule",
                "metadata": {"name": "bad"}, "spec": spec}));
            cluster.claim("c", |_| {});
            let pod = cluster.pod("p", &["c"], json!({}));
            cluster.verdicts(1, &pod).swap_remove(0)
        })
    };
    for selector in [json!(null), json!({}), json!({"driver": "gpu.example.com"}), json!({"device": "gpu-0"})] {
        for effect in ["NoSchedule", "NoExecute"] {
            assert_eq!(verdict(&selector, effect), [NO_DEVICES; 2], "{selector} {effect}");
        }
        assert_eq!(verdict(&selector, "None"), ["", ""], "{selector}");
    }
    for selector in [json!({"pool": "node-2"}), json!({"driver": "gpu.example.com", "device": "gpu-1"})] {
        assert_eq!(verdict(&selector, "NoSchedule"), ["", ""], "{selector}");
    }
}

/// A millisecond stands for 1,000 checks of a device. A request for one device, and one that no device fits, take
/// about n² checks for n devices.
#[test]
fn the_filter_timeout_is_for_each_node() {
    let verdicts = |n_first: usize, n_second: usize| {
        let mut cluster = DeviceCluster::with_args(r#"{"filterTimeout":"1ms"}"#);
        cluster.slice_on("node-1", gpus(n_first));
        cluster.slice_on("node-2", gpus(n_second));
        cluster.claim("c", |claim| {
            let request = |name: &str| json!({"name": name, "exactly": {"deviceClassName": "gpu", "count": 1}});
            claim["spec"]["devices"] = json!({
                "requests": [request("x"), request("y")],
                "constraints": [{"matchAttribute": "gpu.example.com/nonsense", "requests": ["y"]}],
            });
        });
        let pod = cluster.pod("p", &["c"], json!({}));
        cluster.verdicts(1, &pod)
    };
    assert_eq!(verdicts(28, 28), [NO_DEVICES, NO_DEVICES], "both nodes together take more than 1,000 checks");
    let verdict = verdicts(28, 60).join(" ");
    assert!(verdict.contains("node node-2: timed out trying to allocate devices"), "{verdict}");
}
