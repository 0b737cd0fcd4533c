//! Pods are counted as kube-scheduler counts them.

use super::{
    PodRequests, Resizes, balanced_requests, is_extended_resource_name, is_scalar_resource_name, placed_non_zero,
    placed_requests, scoring_requests, spec_requests,
};
use crate::{Feature, Features, Release, api::Pod};

fn pod(spec: &str) -> Pod {
    serde_json::from_str(&format!(r#"{{"spec":{spec}}}"#)).unwrap()
}

#[test]
fn init_containers_run_beside_earlier_sidecars() {
    let pod = pod(r#"{
        "initContainers": [
            {"name": "i1", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}},
            {"name": "s1", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}},
            {"name": "i2", "resources": {"requests": {"cpu": "800m", "memory": "512Mi"}}}
        ],
        "containers": [
            {"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}}},
            {"name": "b", "resources": {"requests": {"cpu": "250m", "memory": "128Mi"}}}
        ],
        "overhead": {"cpu": "50m", "memory": "32Mi"}
    }"#);
    let requests = spec_requests(&pod);
    assert_eq!((requests.milli_cpu, requests.memory), (1050, 608 << 20));
}

#[test]
fn a_plain_pod_that_is_added_up_once_is_counted_as_any_other() {
    let requests = [
        "{}",
        r#"{"cpu": "1500u"}"#,
        r#"{"cpu": "0", "memory": "1.5"}"#,
        r#"{"memory": "0.5"}"#,
        r#"{"cpu": "2", "memory": "1Gi", "example.com/gpu": "1", "pods": "3"}"#,
        r#"{"cpu": "9223372036854775807", "memory": "8Ei"}"#,
    ];
    let container = |requests: &str| format!(r#"{{"name": "a", "resources": {{"requests": {requests}}}}}"#);
    let alone = requests.iter().map(|first| container(first));
    let pairs = requests
        .iter()
        .flat_map(|first| requests.iter().map(move |second| [container(first), container(second)].join(", ")));
    for containers in alone.chain(pairs).chain([String::new()]) {
        let plain = pod(&format!(r#"{{"containers": [{containers}]}}"#));
        assert_eq!(PodRequests::of(&plain, Features::of(Release::V1_37)), each_way(&plain), "{containers}");
    }
    for more in [
        r#""overhead": {"cpu": "10m"}"#,
        r#""resources": {"requests": {"cpu": "2"}}"#,
        r#""initContainers": [{"name": "i"}]"#,
    ] {
        let other = pod(&format!(r#"{{"containers": [{}], {more}}}"#, container("{}")));
        assert_eq!(PodRequests::of(&other, Features::of(Release::V1_37)), each_way(&other), "{more}");
    }
}

fn each_way(pod: &Pod) -> PodRequests {
    let [placed, also] = [Resizes::MaximumOfEachContainer, Resizes::MaximumOfTotals].map(|it| placed_requests(pod, it));
    assert_eq!(placed, also, "there is no resize");
    assert_eq!(placed, balanced_requests(pod, Resizes::MaximumOfTotals));
    let (placed_non_zero, scoring) = (placed_non_zero(pod, Resizes::MaximumOfTotals), scoring_requests(pod));
    PodRequests { spec: spec_requests(pod), placed, placed_non_zero, scoring }
}

/// The thousandths of a CPU that a resized pod takes, in 1.36 and in 1.37.
fn resized(spec: &str, status: &str) -> [i64; 2] {
    let pod: Pod = serde_json::from_str(&format!(r#"{{"spec": {spec}, "status": {status}}}"#)).unwrap();
    Release::ALL.map(|release| placed_requests(&pod, Resizes::of(Features::of(release))).milli_cpu)
}

fn of_containers(cpus: &[&str]) -> String {
    let container =
        |(at, cpu): (usize, &&str)| format!(r#"{{"name": "c{at}", "resources": {{"requests": {{"cpu": "{cpu}"}}}}}}"#);
    format!(r#"{{"containers": [{}]}}"#, cpus.iter().enumerate().map(container).collect::<Vec<_>>().join(","))
}

fn allocated_and_actual(cpus: &[&str]) -> String {
    let status = |(at, cpu): (usize, &&str)| {
        let cpu = format!(r#"{{"cpu": "{cpu}"}}"#);
        format!(r#"{{"name": "c{at}", "allocatedResources": {cpu}, "resources": {{"requests": {cpu}}}}}"#)
    };
    format!(r#"{{"containerStatuses": [{}]}}"#, cpus.iter().enumerate().map(status).collect::<Vec<_>>().join(","))
}

#[test]
fn a_resize_counts_by_container_or_by_totals() {
    assert_eq!(resized(&of_containers(&["1", "2"]), &allocated_and_actual(&["2", "1"])), [4000, 3000]);
    assert_eq!(resized(&of_containers(&["1", "1"]), &allocated_and_actual(&["2", "1"])), [3000, 3000]);
    let infeasible = r#"{"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
        "containerStatuses": [{"name": "c0", "allocatedResources": {"cpu": "2"}}]}"#;
    assert_eq!(resized(&of_containers(&["4"]), infeasible), [4000, 2000]);
}

#[test]
fn totals_take_the_status_of_the_whole_pod_and_of_every_init_container() {
    let spec = r#"{"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}], "resources": {"requests": {"cpu": "2"}}}"#;
    let status = r#"{"allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "4"}}}"#;
    assert_eq!(resized(spec, status), [4000, 4000]);
    let only_in_status = spec.replace(r#""resources": {"requests": {"cpu": "2"}}}"#, r#""resources": {}}"#);
    assert_eq!(resized(&only_in_status, status), [1000, 4000]);
    let init = r#"{"initContainers": [{"name": "c0", "resources": {"requests": {"cpu": "1"}}}]}"#;
    assert_eq!(resized(init, &allocated_and_actual(&["2"]).replace("containerS", "initContainerS")), [1000, 2000]);
}

/// A status without requests says nothing about them, so the allocated resources count instead. Without the allocated
/// resources of `c1`, the actual total would be 2 CPUs, and the largest total 3 CPUs.
#[test]
fn a_status_with_limits_only_does_not_count_as_actual_resources() {
    let status = r#"{"containerStatuses": [
        {"name": "c0", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "2"}}},
        {"name": "c1", "allocatedResources": {"cpu": "2"}, "resources": {"limits": {"cpu": "4"}}}]}"#;
    assert_eq!(resized(&of_containers(&["1", "1"]), status), [4000, 4000]);
    let of_pod = r#"{"allocatedResources": {"cpu": "9"}, "resources": {"limits": {"cpu": "9"}}}"#;
    assert_eq!(resized(&of_containers(&["1"]), of_pod), [1000, 1000]);
}

#[test]
fn the_status_of_a_pod_replaces_only_requests_of_the_whole_pod() {
    let container = r#""containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]"#;
    let status = r#"{"resources": {"requests": {"cpu": "4"}}}"#;
    let limited = format!(r#"{{{container}, "resources": {{"limits": {{"cpu": "8"}}}}}}"#);
    assert_eq!(resized(&limited, status), [1000, 1000]);
    // The spec of the whole pod is infeasible, and the status does not name the CPU. 1.36 counts 0, and 1.37 keeps the
    // sum of the containers.
    let requested = format!(r#"{{{container}, "resources": {{"requests": {{"cpu": "2"}}}}}}"#);
    let infeasible = r#"{"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
        "resources": {"requests": {"memory": "1Gi"}},
        "containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "1"}}]}"#;
    assert_eq!(resized(&requested, infeasible), [0, 1000]);
}

#[test]
fn pod_level_resources_and_their_resizes_need_their_gates() {
    let pod = r#"{"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}], "resources": {"requests": {"cpu": "2"}}},
        "status": {"allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "4"}}}}"#;
    let pod: Pod = serde_json::from_str(pod).unwrap();
    for release in Release::ALL {
        let without = |gate: Option<Feature>| {
            let features = Features::of(release);
            let features = gate.map_or(features, |gate| features.with(gate, false));
            let PodRequests { spec, placed, .. } = PodRequests::of(&pod, features);
            (spec.milli_cpu, placed.milli_cpu)
        };
        assert_eq!(without(None), (2000, 4000));
        assert_eq!(without(Some(Feature::InPlacePodLevelResourcesVerticalScaling)), (2000, 2000));
        assert_eq!(without(Some(Feature::PodLevelResources)), (1000, 1000));
    }
}

/// KEP-5517. Kubernetes 1.36 writes `resources`, and 1.37 writes `mapping` and `overhead`.
#[test]
fn what_devices_take_of_the_node_counts_with_its_gate_once_the_pod_has_a_node() {
    let spec = r#""containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}, {"name": "b"}]"#;
    let old = r#"{"resourceClaimName": "c", "containers": ["a"], "resources": {"cpu": "2", "hugepages-2Mi": "4Mi"}}"#;
    let new = r#"{"resourceClaimName": "c", "containers": ["a", "b"], "mapping": [{"name": "cpu", "quantity": "1500m"}],
        "overhead": [{"name": "cpu", "perPod": "100m", "perContainer": "200m"}]}"#;
    let placed = |more: &str, status: &str, is_on| {
        let text = format!(
            r#"{{"spec": {{{spec}{more}}},
            "status": {{"nodeAllocatableResourceClaimStatuses": [{status}]}}}}"#
        );
        let features = Features::of(Release::V1_37).with(Feature::DRANodeAllocatableResources, is_on);
        let PodRequests { spec, placed, placed_non_zero, .. } =
            PodRequests::of(&serde_json::from_str(&text).unwrap(), features);
        assert_eq!(spec.milli_cpu, if more.contains("resources") { 5000 } else { 1000 });
        (placed.milli_cpu, placed_non_zero.milli_cpu, placed.get("hugepages-2Mi"))
    };
    let on_node = r#", "nodeName": "n""#;
    assert_eq!(placed(on_node, old, true), (3000, 3100, 4 << 20));
    assert_eq!(placed(on_node, new, true), (3000, 3100, 0));
    assert_eq!(placed(on_node, old, false), (1000, 1100, 0));
    assert_eq!(placed("", old, true), (1000, 1100, 0), "the status is from an earlier attempt");
    let whole = r#", "nodeName": "n", "resources": {"requests": {"cpu": "5"}}"#;
    assert_eq!(placed(whole, old, true), (5000, 5000, 4 << 20), "the requests of the whole pod include its devices");
}

#[test]
fn sums_stop_at_the_largest_number() {
    for more in ["8Ei", "9223372036854775807", "16Mi"] {
        let huge = r#"{"cpu": "9223372036854775807", "memory": "8Ei"}"#;
        let containers =
            format!(r#"[{{"resources": {{"requests": {huge}}}}}, {{"resources": {{"requests": {huge}}}}}]"#);
        let overhead = format!(r#"{{"cpu": "10m", "memory": "{more}"}}"#);
        let requests = spec_requests(&pod(&format!(r#"{{"containers": {containers}, "overhead": {overhead}}}"#)));
        assert_eq!((requests.milli_cpu, requests.memory), (i64::MAX, i64::MAX), "{more}");
    }
}

#[test]
fn fit_scores_without_pod_level_resources() {
    let pod = pod(r#"{"resources": {"requests": {"cpu": "2"}}, "containers": [{"name": "a"}]}"#);
    assert_eq!(spec_requests(&pod).milli_cpu, 2000);
    assert_eq!(scoring_requests(&pod).milli_cpu, 100);
    let non_zero = placed_non_zero(&pod, Resizes::MaximumOfEachContainer);
    assert_eq!((non_zero.milli_cpu, non_zero.memory), (2000, 200 << 20));
}

#[test]
fn resource_names_are_told_apart() {
    assert!(is_extended_resource_name("nvidia.com/gpu"));
    assert!(!is_extended_resource_name("requests.example.com/gpu"));
    assert!(!is_extended_resource_name("example.com/bad name"));
    assert!(!is_extended_resource_name("gpu"));
    for name in ["nvidia.com/gpu", "hugepages-2Mi", "kubernetes.io/batch", "attachable-volumes-ebs"] {
        assert!(is_scalar_resource_name(name), "{name}");
    }
    assert!(!is_scalar_resource_name("pods"));
}
