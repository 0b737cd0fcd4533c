//! The way from Reserve to bound claims: assumptions, patches, waiting, and failures on the way.

use berth_framework::{ObjectRef, PatchType};

use super::*;

const TIMEOUT: &str = "binding volumes: context deadline exceeded";

fn effects(plugin: &mut VolumeBinding, cluster: &TestCluster, pod: &Pod) -> Result<Vec<Effect>, String> {
    plugin.pre_bind(&cluster.call(1, pod), NodeIdx(0)).map_err(|status| crate::testing::show(&status))
}

fn reserve(plugin: &mut VolumeBinding, cluster: &TestCluster, pod: &Pod) {
    let call = cluster.call(1, pod);
    plugin.pre_filter(&call).unwrap();
    assert!(plugin.reserve(&call, NodeIdx(0)).is_success());
}

fn waits_for(effect: &Effect) -> Vec<String> {
    let Effect::Wait { objects, timeout_ms, timeout_message } = effect else { panic!("{effect:?}") };
    assert_eq!((*timeout_ms, timeout_message.as_str()), (600_000, TIMEOUT));
    objects.iter().map(|ObjectRef { kind, namespace, name }| format!("{kind} {namespace}/{name}")).collect()
}

fn patch(effect: &Effect) -> (String, Value) {
    let Effect::Patch { kind, namespace, name, subresource: None, patch, patch_type: PatchType::Merge } = effect else {
        panic!("{effect:?}")
    };
    (format!("{kind} {namespace}/{name}"), serde_json::from_slice(patch).unwrap())
}

fn version(object: Value, version: &str) -> Value {
    merged(object, &json!({"metadata": {"resourceVersion": version}}))
}

#[test]
fn what_one_pod_takes_no_other_gets() {
    let mut cluster = cluster();
    cluster.set_object(&volume("pv", "local", "1Gi"));
    cluster.set_object(&claim("one", "local", "1Gi"));
    cluster.set_object(&claim("two", "local", "1Gi"));
    let (first, second) = (pod(&mut cluster, "first", &["one"]), pod(&mut cluster, "second", &["two"]));
    let mut plugin = plugin();
    let nothing = [rejected(&[UNSATISFIED]), rejected(&[UNSATISFIED])];
    reserve(&mut plugin, &cluster, &first);
    let next = cluster.call(2, &second);
    plugin.pre_filter(&next).unwrap();
    let mut nodes = cluster.table().nodes().clone();
    plugin.filter(&next, &mut nodes).unwrap();
    assert!(nodes.is_empty());
    plugin.unreserve(&cluster.call(1, &first), NodeIdx(0));
    assert_eq!(verdicts(&mut plugin, &cluster, &second), ["", ""], "unreserve gives it back");
    reserve(&mut plugin, &cluster, &first);
    assert_eq!(verdicts(&mut plugin, &cluster, &second), nothing);
    EndCycle::end_cycle(&mut plugin, CycleId(1));
    assert_eq!(verdicts(&mut plugin, &cluster, &second), ["", ""], "so does the end of the cycle");
    reserve(&mut plugin, &cluster, &first);
    cluster.set_object(&version(volume("pv", "local", "1Gi"), "1"));
    assert_eq!(
        verdicts(&mut plugin, &cluster, &second),
        nothing,
        "the version on which the assumption was made changes nothing"
    );
    cluster.set_object(&version(volume("pv", "local", "1Gi"), "2"));
    assert_eq!(verdicts(&mut plugin, &cluster, &second), ["", ""], "a newer version replaces the assumption");
    plugin.unreserve(&cluster.call(1, &first), NodeIdx(0));
    plugin.unreserve(&cluster.call(1, &first), NodeIdx(0));
    assert_eq!(verdicts(&mut plugin, &cluster, &second), ["", ""]);
}

#[test]
fn an_assumed_node_counts_for_other_pods_of_the_claim() {
    let mut cluster = cluster();
    cluster.set_object(&claim("data", "made", "1Gi"));
    let pod_of_claim = pod(&mut cluster, "pod", &["data"]);
    let mut plugin = plugin();
    reserve(&mut plugin, &cluster, &pod_of_claim);
    let other = pod(&mut cluster, "other", &["data"]);
    assert_eq!(verdicts(&mut plugin, &cluster, &other), [String::new(), rejected(&[UNSATISFIED])]);
    let newer = version(claim("data", "made", "1Gi"), "2");
    cluster.set_object(&newer);
    assert_eq!(verdicts(&mut plugin, &cluster, &other), ["", ""]);
}

#[test]
fn a_chosen_volume_is_written_and_waited_for() {
    let mut cluster = cluster();
    cluster.set_object(&volume("pv", "local", "1Gi"));
    cluster.set_object(&claim("data", "local", "1Gi"));
    let pod = pod(&mut cluster, "pod", &["data"]);
    let mut plugin = plugin();
    reserve(&mut plugin, &cluster, &pod);
    let first = effects(&mut plugin, &cluster, &pod).unwrap();
    assert_eq!(first.len(), 2);
    let claim_ref = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "data",
        "uid": "uid-of-data", "resourceVersion": "1"});
    let annotations = json!({"pv.kubernetes.io/bound-by-controller": "yes"});
    let expected =
        json!({"metadata": {"resourceVersion": "1", "annotations": annotations}, "spec": {"claimRef": claim_ref}});
    assert_eq!(patch(&first[0]), ("v1/PersistentVolume /pv".to_owned(), expected.clone()));
    let objects = ["v1/PersistentVolume /pv", "v1/PersistentVolumeClaim default/data"];
    assert_eq!(waits_for(&first[1]), objects);
    assert_eq!(waits_for(&effects(&mut plugin, &cluster, &pod).unwrap()[0]), objects, "the patch is not seen yet");
    let written = version(merged(volume("pv", "local", "1Gi"), &expected), "2");
    cluster.set_object(&written);
    assert_eq!(waits_for(&effects(&mut plugin, &cluster, &pod).unwrap()[0]), objects, "the claim is not bound yet");
    cluster.set_object(&version(bound(claim("data", "local", "1Gi"), "pv"), "3"));
    assert_eq!(effects(&mut plugin, &cluster, &pod), Ok(Vec::new()));
}

#[test]
fn a_volume_that_names_the_claim_already_is_not_changed() {
    let mut cluster = cluster();
    let claim_ref = json!({"namespace": "default", "name": "data", "uid": "uid-of-data"});
    cluster.set_object(&merged(volume("pv", "local", "1Gi"), &json!({"spec": {"claimRef": claim_ref}})));
    cluster.set_object(&claim("data", "local", "1Gi"));
    let pod = pod(&mut cluster, "pod", &["data"]);
    let mut plugin = plugin();
    reserve(&mut plugin, &cluster, &pod);
    let first = effects(&mut plugin, &cluster, &pod).unwrap();
    let patch = patch(&first[0]).1;
    assert_eq!(patch["metadata"], json!({"resourceVersion": "1"}));
    assert_eq!(patch["spec"]["claimRef"].get("resourceVersion"), None);
    cluster.set_object(&version(bound(claim("data", "local", "1Gi"), "pv"), "2"));
    assert_eq!(effects(&mut plugin, &cluster, &pod), Ok(Vec::new()), "no newer version has to come");
}

#[test]
fn a_volume_is_made_and_waited_for() {
    let mut cluster = cluster();
    cluster.set_object(&claim("data", "made", "1Gi"));
    let pod = pod(&mut cluster, "pod", &["data"]);
    let mut plugin = plugin();
    reserve(&mut plugin, &cluster, &pod);
    let first = effects(&mut plugin, &cluster, &pod).unwrap();
    let annotations = json!({"volume.kubernetes.io/selected-node": "n0"});
    let expected = json!({"metadata": {"resourceVersion": "1", "annotations": annotations}});
    assert_eq!(patch(&first[0]), ("v1/PersistentVolumeClaim default/data".to_owned(), expected.clone()));
    assert_eq!(waits_for(&first[1]), ["v1/PersistentVolumeClaim default/data"]);
    let selected = merged(claim("data", "made", "1Gi"), &expected);
    cluster.set_object(&version(bound(selected, "new"), "3"));
    let objects = ["v1/PersistentVolumeClaim default/data", "v1/PersistentVolume /new"];
    assert_eq!(waits_for(&effects(&mut plugin, &cluster, &pod).unwrap()[0]), objects);
    cluster.set_object(&volume("new", "made", "1Gi"));
    assert_eq!(effects(&mut plugin, &cluster, &pod), Ok(Vec::new()));
}

#[test]
fn pods_without_unbound_claims_have_nothing_to_bind() {
    let mut cluster = cluster();
    cluster.set_object(&volume("pv", "", "1Gi"));
    cluster.set_object(&bound(claim("data", "", "1Gi"), "pv"));
    let pod = pod(&mut cluster, "pod", &["data"]);
    let mut plugin = plugin();
    assert_eq!(effects(&mut plugin, &cluster, &pod), Err("Skip: ".to_owned()));
    reserve(&mut plugin, &cluster, &pod);
    assert_eq!(effects(&mut plugin, &cluster, &pod), Err("Skip: ".to_owned()));
}

/// Each case changes something after the patches were made, and names the error of the binding.
#[test]
fn binding_fails_when_somebody_interferes() {
    let taken = |volume: Value| {
        let claim_ref = json!({"namespace": "default", "name": "data", "uid": "uid-of-data"});
        version(merged(volume, &json!({"spec": {"claimRef": claim_ref}})), "2")
    };
    let selected = |node: Option<&str>| {
        let annotations = json!({"volume.kubernetes.io/selected-node": node, "other": "x"});
        version(merged(claim("new", "made", "1Gi"), &json!({"metadata": {"annotations": annotations}})), "2")
    };
    let moved = |name: &str| on_hosts(volume(name, "local", "1Gi"), &["n1"]);
    let cases = [
        (vec![version(volume("pv", "local", "1Gi"), "2")], "ClaimRef got reset for pv \"pv\""),
        (vec![taken(moved("pv"))], "pv \"pv\" node affinity doesn't match node \"n0\": no matching NodeSelectorTerms"),
        (
            vec![taken(volume("pv", "local", "1Gi")), bound(claim("data", "local", "1Gi"), "pv"), selected(None)],
            "provisioning failed for PVC \"new\"",
        ),
        (
            vec![
                taken(volume("pv", "local", "1Gi")),
                bound(claim("data", "local", "1Gi"), "pv"),
                version(claim("new", "made", "1Gi"), "2"),
            ],
            "selectedNode annotation reset for PVC \"new\"",
        ),
        (
            vec![
                taken(volume("pv", "local", "1Gi")),
                bound(claim("data", "local", "1Gi"), "pv"),
                bound(selected(Some("n0")), "far"),
                moved("far"),
            ],
            "pv \"far\" node affinity doesn't match node \"n0\": no matching NodeSelectorTerms",
        ),
    ];
    for (events, expected) in cases {
        let mut cluster = cluster();
        cluster.set_object(&volume("pv", "local", "1Gi"));
        cluster.set_object(&claim("data", "local", "1Gi"));
        cluster.set_object(&claim("new", "made", "1Gi"));
        let pod = pod(&mut cluster, "pod", &["data", "new"]);
        let mut plugin = plugin();
        reserve(&mut plugin, &cluster, &pod);
        assert_eq!(effects(&mut plugin, &cluster, &pod).unwrap().len(), 3);
        events.iter().for_each(|event| cluster.set_object(event));
        let got = effects(&mut plugin, &cluster, &pod);
        assert_eq!(got, Err(format!("Error: binding volumes: {expected}")));
    }
}

#[test]
fn binding_fails_when_volume_claim_or_node_is_gone() {
    let volume_gone = "failed to check binding: could not find v1.PersistentVolume \"pv\"";
    let claim_gone = "failed to check binding: could not find v1.PersistentVolumeClaim \"default/data\"";
    let node_gone = "failed to get node \"n0\": node \"n0\" not found";
    for (index, expected) in [volume_gone, claim_gone, node_gone].into_iter().enumerate() {
        let mut cluster = cluster();
        let (pv, data) = (volume("pv", "local", "1Gi"), claim("data", "local", "1Gi"));
        cluster.set_object(&pv);
        cluster.set_object(&data);
        let pod = pod(&mut cluster, "pod", &["data"]);
        let mut plugin = plugin();
        reserve(&mut plugin, &cluster, &pod);
        effects(&mut plugin, &cluster, &pod).unwrap();
        cluster.set_object(&version(pv.clone(), "2"));
        match index {
            0 => cluster.remove_object(&pv),
            1 => cluster.remove_object(&data),
            _ => cluster.remove_node("n0"),
        };
        assert_eq!(effects(&mut plugin, &cluster, &pod), Err(format!("Error: binding volumes: {expected}")));
    }
}
