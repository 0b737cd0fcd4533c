//! Extended resources that devices serve: the plugin makes a claim for the pod (KEP-5004).

use super::*;

fn asking(containers: &[(&str, Value)], init: &[(&str, Value)]) -> Value {
    let container = |(name, amount): &(&str, Value)| match amount.as_i64() {
        Some(amount) => json!({"name": name, "resources": {"requests": {"example.com/gpu": amount.to_string()}}}),
        None => json!({"name": name, "restartPolicy": "Always",
            "resources": {"requests": {"example.com/gpu": amount[0].to_string()}}}),
    };
    json!({"containers": containers.iter().map(container).collect::<Value>(),
        "initContainers": init.iter().map(container).collect::<Value>()})
}

fn extended_world() -> DeviceCluster {
    let mut cluster = DeviceCluster::new();
    cluster
        .put("DeviceClass", json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}));
    cluster.slice(gpus(3));
    let resource = cluster.cluster.sym("example.com/gpu");
    cluster.cluster.edit_node("node-3", |node| node.allocatable.scalars.push((resource, 4)));
    cluster
}

/// KEP-5004: a claim for devices is made for the pod on nodes where no device plugin serves the resource.
#[test]
fn extended_resources_become_a_claim() {
    let mut cluster = extended_world();
    let pod = cluster.pod("p", &[], asking(&[("main", json!(2))], &[]));
    assert_eq!(cluster.verdicts(1, &pod), ["", NO_DEVICES, ""]);
    // The device plugin's node needs no claim.
    assert_eq!(cluster.reserve(1, &pod, 2), "");
    assert_eq!(cluster.pre_bind(1, &pod, 2), Ok(Vec::new()));
    cluster.plugin.end_cycle(CycleId(1));
    assert_eq!(cluster.verdicts(2, &pod), ["", NO_DEVICES, ""]);
    assert_eq!(cluster.reserve(2, &pod, 0), "");
    let effects = cluster.pre_bind(2, &pod, 0).unwrap();
    let [Effect::Create { .. }, Effect::Patch { .. }, Effect::Patch { kind, patch, .. }] = effects.as_slice() else {
        panic!("{effects:?}")
    };
    let name = "p-extended-resources-puid";
    let mapping =
        json!({"containerName": "main", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"});
    let of_pod: Value = serde_json::from_slice(patch).unwrap();
    assert_eq!(kind, "v1/Pod");
    assert_eq!(
        of_pod["status"]["extendedResourceClaimStatus"],
        json!({"resourceClaimName": name, "requestMappings": [mapping]})
    );
    effects.iter().for_each(|effect| cluster.perform(effect));
    cluster.plugin.end_cycle(CycleId(2));
    let claim = cluster.object("ResourceClaim", name);
    assert_eq!(claim["status"]["allocation"]["devices"]["results"].as_array().unwrap().len(), 2);
    let rival = cluster.pod("rival", &[], asking(&[("main", json!(2))], &[]));
    assert_eq!(cluster.verdicts(3, &rival), [NO_DEVICES, NO_DEVICES, ""]);
    // The pod itself continues with its claim.
    assert_eq!(cluster.verdicts(4, &pod), ["", NOT_HERE, NOT_HERE]);
}

#[test]
fn resources_that_nothing_serves_do_not_fit() {
    let mut cluster = extended_world();
    let spec = json!({"containers": [{"name": "c", "resources": {"requests":
        {"example.com/gpu": "1", "example.com/nothing": "1"}}}]});
    let pod = cluster.pod("p", &[], spec);
    let no_fit = "UnschedulableAndUnresolvable: cannot fit resource";
    assert_eq!(cluster.verdicts(1, &pod), [no_fit, no_fit, no_fit]);
    let spec = json!({"containers": [{"name": "c", "resources": {"requests":
        {"deviceclass.resource.kubernetes.io/gpu": "1"}}}]});
    let pod = cluster.pod("p", &[], spec);
    assert_eq!(cluster.verdicts(2, &pod), ["", NO_DEVICES, NO_DEVICES]);
    let foreign = json!({"containers": [{"name": "c", "resources": {"requests": {"example.com/nothing": "1"}}}]});
    let pod = cluster.pod("p", &[], foreign);
    assert_eq!(cluster.verdicts(3, &pod), ["Skip: "]);
}

/// KEP-5004: a claim of an earlier attempt without an allocation is deleted.
#[test]
fn a_claim_that_was_made_in_vain_is_deleted() {
    let mut cluster = extended_world();
    let owner = json!({"kind": "Pod", "name": "p", "uid": "p-uid", "controller": true});
    cluster.claim("made", |claim| {
        claim["metadata"]["annotations"] = json!({"resource.kubernetes.io/extended-resource-claim": "true"});
        claim["metadata"]["ownerReferences"] = json!([owner]);
        claim["metadata"]["finalizers"] = json!(["resource.kubernetes.io/delete-protection"]);
    });
    let pod = cluster.pod("p", &[], asking(&[("main", json!(1))], &[]));
    let stuck = "UnschedulableAndUnresolvable: cannot schedule extended resource claim";
    assert_eq!(cluster.verdicts(1, &pod), [stuck, stuck, stuck]);
    let (answer, effects) = cluster.post_filter(1, &pod);
    assert_eq!(answer, "Unschedulable: deletion of ResourceClaim completed");
    effects.iter().for_each(|effect| cluster.perform(effect));
    assert_eq!(cluster.verdicts(2, &pod), ["", NO_DEVICES, ""]);
}

/// kube-scheduler deletes the claim in Unreserve.
#[test]
fn the_claim_of_a_failed_binding_is_deleted() {
    let mut cluster = extended_world();
    let pod = cluster.pod("p", &[], asking(&[("main", json!(2))], &[]));
    for is_seen in [false, true] {
        let cycle = 1 + u64::from(is_seen);
        assert_eq!(cluster.verdicts(cycle, &pod), ["", NO_DEVICES, ""]);
        assert_eq!(cluster.reserve(cycle, &pod, 0), "");
        for effect in cluster.pre_bind(cycle, &pod, 0).unwrap().iter().filter(|_| is_seen) {
            cluster.perform(effect);
        }
        let effects = cluster.unreserve(cycle, &pod);
        assert_eq!(effects.len(), if is_seen { 2 } else { 0 }, "{effects:?}");
        effects.iter().for_each(|effect| cluster.perform(effect));
        cluster.plugin.end_cycle(CycleId(cycle));
    }
    assert_eq!(cluster.verdicts(3, &pod), ["", NO_DEVICES, ""]);
}

/// KEP-5004, "init containers": they use the devices of containers that start later.
#[test]
fn init_containers_reuse_devices() {
    let mut cluster = extended_world();
    let spec = asking(
        &[("main", json!(1))],
        &[("first", json!(2)), ("sidecar", json!([1])), ("second", json!(2)), ("small", json!(1))],
    );
    let pod = cluster.pod("p", &[], spec);
    assert_eq!(cluster.verdicts(1, &pod), ["", NO_DEVICES, ""]);
    assert_eq!(cluster.reserve(1, &pod, 0), "");
    let effects = cluster.pre_bind(1, &pod, 0).unwrap();
    let Some(Effect::Create { body, .. }) = effects.first() else { panic!() };
    let body: Value = serde_json::from_slice(body).unwrap();
    let requests = body["spec"]["devices"]["requests"].as_array().unwrap();
    let shown: Vec<String> = requests.iter().map(|it| format!("{} {}", it["name"], it["exactly"]["count"])).collect();
    // `first` needs only the devices of sidecar and main; `second` needs the devices of main and one more device.
    assert_eq!(shown, [r#""container-1-request-0" 1"#, r#""container-2-request-0" 1"#, r#""container-4-request-0" 1"#]);
    let Some(Effect::Patch { patch, .. }) = effects.last() else { panic!() };
    let patch: Value = serde_json::from_slice(patch).unwrap();
    let mappings = patch["status"]["extendedResourceClaimStatus"]["requestMappings"].as_array().unwrap();
    let of = |container: &str| -> Vec<&str> {
        let own = mappings.iter().filter(|it| it["containerName"] == container);
        own.map(|it| it["requestName"].as_str().unwrap()).collect()
    };
    assert_eq!(of("main"), ["container-4-request-0"]);
    assert_eq!(of("sidecar"), ["container-1-request-0"]);
    assert_eq!(of("first"), ["container-1-request-0", "container-4-request-0"]);
    assert_eq!(of("second"), ["container-4-request-0", "container-2-request-0"]);
    assert_eq!(of("small"), ["container-4-request-0"]);
}
