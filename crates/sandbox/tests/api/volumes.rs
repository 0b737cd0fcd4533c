//! Tests of volumes: claims find volumes or get new volumes, and volumes follow their claims.

use serde_json::{Value, json};

use crate::cluster::{Cluster, PODS, pod};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const NODES: &str = "/api/v1/nodes";

fn claim(name: &str, class: &str, size: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "storageClassName": class,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        },
    })
}

fn volume(name: &str, class: &str, size: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"name": name}},
        "spec": {
            "storageClassName": class,
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "hostPath": {"path": "/data"},
        },
    })
}

fn class(name: &str, mode: &str, extra: Value) -> Value {
    let mut class = json!({"metadata": {"name": name}, "provisioner": "csi.example.com", "volumeBindingMode": mode});
    class.as_object_mut().expect("members").extend(extra.as_object().expect("members").clone());
    class
}

fn is_bound(object: &Value) -> bool {
    object["status"]["phase"] == "Bound"
}

fn is_available(object: &Value) -> bool {
    object["status"]["phase"] == "Available"
}

/// Starts a cluster with available volumes.
async fn with_volumes(volumes: &[Value]) -> Cluster {
    let cluster = Cluster::start().await;
    for volume in volumes {
        let name =
            cluster.create(VOLUMES, volume.clone()).await["metadata"]["name"].as_str().expect("a name").to_owned();
        cluster.until(VOLUMES, &name, is_available).await;
    }
    cluster
}

#[tokio::test]
async fn a_claim_gets_the_smallest_volume_that_suits() {
    let mut many = volume("small-but-shared", "slow", "2Gi");
    many["spec"]["accessModes"] = json!(["ReadWriteOnce", "ReadWriteMany"]);
    let mut raw = volume("raw", "slow", "2Gi");
    raw["spec"]["volumeMode"] = json!("Block");
    let mut once = volume("read-only", "slow", "2Gi");
    once["spec"]["accessModes"] = json!(["ReadOnlyMany"]);
    let mut reserved = volume("reserved", "slow", "2Gi");
    reserved["spec"]["claimRef"] = json!({"namespace": "default", "name": "other"});
    let volumes = [
        volume("large", "slow", "8Gi"),
        volume("right", "slow", "4Gi"),
        volume("too-small", "slow", "1Gi"),
        volume("of-another-class", "fast", "2Gi"),
        many,
        raw,
        once,
        reserved,
    ];
    let cluster = with_volumes(&volumes).await;
    cluster.create(CLAIMS, claim("data", "slow", "2Gi")).await;
    let bound = cluster.until(CLAIMS, "data", is_bound).await;
    assert_eq!(bound["spec"]["volumeName"], "right");
    assert_eq!(bound["status"]["capacity"], json!({"storage": "4Gi"}));
    assert_eq!(bound["status"]["accessModes"], json!(["ReadWriteOnce"]));
    let annotations = &bound["metadata"]["annotations"];
    assert_eq!(annotations["pv.kubernetes.io/bind-completed"], "yes");
    assert_eq!(annotations["pv.kubernetes.io/bound-by-controller"], "yes");
    let volume = cluster.until(VOLUMES, "right", is_bound).await;
    assert_eq!(volume["spec"]["claimRef"]["uid"], bound["metadata"]["uid"]);
    assert_eq!(volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"], "yes");

    let mut chosen = claim("chosen", "slow", "2Gi");
    chosen["spec"]["selector"] = json!({"matchLabels": {"name": "large"}});
    cluster.create(CLAIMS, chosen).await;
    assert_eq!(cluster.until(CLAIMS, "chosen", is_bound).await["spec"]["volumeName"], "large");
    cluster.create(CLAIMS, claim("other", "slow", "2Gi")).await;
    assert_eq!(cluster.until(CLAIMS, "other", is_bound).await["spec"]["volumeName"], "reserved");
    cluster.0.stop().await;
}

#[tokio::test]
async fn a_claim_waits_for_a_volume_that_suits() {
    let cluster = Cluster::start().await;
    cluster.create(CLAIMS, claim("early", "", "1Gi")).await;
    cluster.create(VOLUMES, volume("late", "", "1Gi")).await;
    cluster.until(CLAIMS, "early", is_bound).await;
    let mut named = claim("named", "", "1Gi");
    named["spec"]["volumeName"] = json!("by-name");
    cluster.create(CLAIMS, named).await;
    cluster.create(VOLUMES, volume("by-name", "", "1Gi")).await;
    let named = cluster.until(CLAIMS, "named", is_bound).await;
    assert_eq!(named["metadata"]["annotations"], json!({"pv.kubernetes.io/bind-completed": "yes"}));
    cluster.0.stop().await;
}

#[tokio::test]
async fn an_immediate_class_makes_a_volume_for_every_node() {
    let cluster = Cluster::start().await;
    cluster.create(CLASSES, class("fast", "Immediate", json!({}))).await;
    cluster.create(CLAIMS, claim("data", "fast", "3Gi")).await;
    let bound = cluster.until(CLAIMS, "data", is_bound).await;
    let name = bound["spec"]["volumeName"].as_str().expect("a volume");
    assert_eq!(name, format!("pvc-{}", bound["metadata"]["uid"].as_str().expect("a uid")));
    let volume = cluster.until(VOLUMES, name, is_bound).await;
    assert_eq!(volume["spec"]["capacity"], json!({"storage": "3Gi"}));
    assert_eq!(volume["spec"]["csi"]["driver"], "csi.example.com");
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Delete");
    assert_eq!(volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"], "csi.example.com");
    assert_eq!(volume["spec"]["nodeAffinity"], Value::Null);
    cluster.0.stop().await;
}

/// The labels that a node must have to reach the volume of a claim, after the scheduler has chosen `node`.
async fn reach_of(cluster: &Cluster, name: &str, node: &str) -> Value {
    let selected = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": node}}});
    cluster.merge(&format!("{CLAIMS}/{name}"), selected).await;
    let bound = cluster.until(CLAIMS, name, is_bound).await;
    let volume = bound["spec"]["volumeName"].as_str().expect("a volume");
    let volume = cluster.until(VOLUMES, volume, is_bound).await;
    volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"][0]["matchExpressions"].clone()
}

#[tokio::test]
async fn a_waiting_class_makes_a_volume_where_the_scheduler_chose() {
    let cluster = with_volumes(&[volume("free", "waiting", "5Gi")]).await;
    let zone = "topology.kubernetes.io/zone";
    let labels = json!({zone: "b", "kubernetes.io/hostname": "far", "rack": "r1"});
    cluster.create(NODES, json!({"metadata": {"name": "far", "labels": labels}})).await;
    cluster.create(NODES, json!({"metadata": {"name": "lone", "labels": {"kubernetes.io/hostname": "lone"}}})).await;
    cluster.create(CLASSES, class("waiting", "WaitForFirstConsumer", json!({}))).await;
    let racks = json!({"allowedTopologies": [{"matchLabelExpressions": [{"key": "rack", "values": ["r1", "r2"]}]}]});
    cluster.create(CLASSES, class("racks", "WaitForFirstConsumer", racks)).await;
    for (name, class) in [("a", "waiting"), ("b", "waiting"), ("c", "racks"), ("d", "racks")] {
        cluster.create(CLAIMS, claim(name, class, "1Gi")).await;
    }
    // Claims are handled in order, so the waiting claims have had their turn when claim `e` is bound.
    cluster.create(VOLUMES, volume("fence", "", "1Gi")).await;
    cluster.create(CLAIMS, claim("e", "", "1Gi")).await;
    cluster.until(CLAIMS, "e", is_bound).await;
    for name in ["a", "b", "c", "d"] {
        assert_eq!(cluster.get(&format!("{CLAIMS}/{name}")).await["status"]["phase"], "Pending", "{name}");
    }
    assert_eq!(reach_of(&cluster, "a", "far").await, json!([{"key": zone, "operator": "In", "values": ["b"]}]));
    let lone = json!([{"key": "kubernetes.io/hostname", "operator": "In", "values": ["lone"]}]);
    assert_eq!(reach_of(&cluster, "b", "lone").await, lone);
    assert_eq!(reach_of(&cluster, "c", "far").await, json!([{"key": "rack", "operator": "In", "values": ["r1"]}]));
    let selected = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "lone"}}});
    cluster.merge(&format!("{CLAIMS}/d"), selected).await;
    let refused = cluster.until(CLAIMS, "d", |claim| claim["metadata"]["annotations"].is_null()).await;
    assert_eq!(refused["status"]["phase"], "Pending");
    assert_eq!(cluster.get(&format!("{VOLUMES}/free")).await["status"]["phase"], "Available");
    cluster.0.stop().await;
}

#[tokio::test]
async fn a_volume_reserved_by_the_scheduler_is_bound() {
    let cluster = with_volumes(&[volume("local", "waiting", "5Gi")]).await;
    let none = json!({"provisioner": "kubernetes.io/no-provisioner"});
    cluster.create(CLASSES, class("waiting", "WaitForFirstConsumer", none)).await;
    let claim = cluster.create(CLAIMS, claim("data", "waiting", "1Gi")).await;
    let reference = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "data",
        "uid": claim["metadata"]["uid"],
    });
    let reservation = json!({
        "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
        "spec": {"claimRef": reference},
    });
    cluster.merge(&format!("{VOLUMES}/local"), reservation).await;
    let bound = cluster.until(CLAIMS, "data", is_bound).await;
    assert_eq!(bound["spec"]["volumeName"], "local");
    assert_eq!(bound["status"]["capacity"], json!({"storage": "5Gi"}));
    assert_eq!(cluster.until(VOLUMES, "local", is_bound).await["spec"]["claimRef"], reference);
    cluster.0.stop().await;
}

#[tokio::test]
async fn a_volume_outlives_its_claim_if_it_is_retained() {
    let cluster = with_volumes(&[volume("kept", "", "1Gi")]).await;
    cluster.create(CLASSES, class("fast", "Immediate", json!({}))).await;
    cluster.create(CLAIMS, claim("a", "", "1Gi")).await;
    cluster.create(CLAIMS, claim("b", "fast", "1Gi")).await;
    cluster.until(CLAIMS, "a", is_bound).await;
    let made = cluster.until(CLAIMS, "b", is_bound).await["spec"]["volumeName"].as_str().expect("a volume").to_owned();
    let version = cluster.version(VOLUMES).await;
    cluster.delete(&format!("{CLAIMS}/a")).await;
    cluster.delete(&format!("{CLAIMS}/b")).await;
    cluster.until(VOLUMES, "kept", |volume| volume["status"]["phase"] == "Released").await;
    cluster.until_gone(VOLUMES, &made, &version).await;
    cluster.merge(&format!("{VOLUMES}/kept"), json!({"spec": {"claimRef": null}})).await;
    cluster.until(VOLUMES, "kept", is_available).await;
    cluster.0.stop().await;
}

#[tokio::test]
async fn a_claim_without_its_volume_is_lost() {
    let cluster = with_volumes(&[volume("v", "", "1Gi")]).await;
    cluster.create(CLAIMS, claim("a", "", "1Gi")).await;
    cluster.until(CLAIMS, "a", is_bound).await;
    cluster.delete(&format!("{VOLUMES}/v")).await;
    cluster.until(CLAIMS, "a", |claim| claim["status"]["phase"] == "Lost").await;
    cluster.0.stop().await;
}

#[tokio::test]
async fn claims_without_a_class_get_the_default_one() {
    let cluster = Cluster::start().await;
    let unclassed = |name: &str| {
        let mut claim = claim(name, "", "1Gi");
        claim["spec"].as_object_mut().expect("a spec").remove("storageClassName");
        claim
    };
    cluster.create(CLAIMS, unclassed("early")).await;
    let mut default = class("usual", "Immediate", json!({}));
    default["metadata"]["annotations"] = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    cluster.create(CLASSES, default).await;
    assert_eq!(cluster.create(CLAIMS, unclassed("late")).await["spec"]["storageClassName"], "usual");
    assert_eq!(cluster.create(CLAIMS, claim("none", "", "1Gi")).await["spec"]["storageClassName"], "");
    assert_eq!(cluster.until(CLAIMS, "early", is_bound).await["spec"]["storageClassName"], "usual");
    cluster.0.stop().await;
}

#[tokio::test]
async fn an_ephemeral_volume_has_a_claim_that_goes_with_the_pod() {
    let cluster = Cluster::start().await;
    cluster.create(CLASSES, class("fast", "Immediate", json!({}))).await;
    let template = json!({"metadata": {"labels": {"kind": "scratch"}}, "spec": claim("", "fast", "1Gi")["spec"]});
    let volumes = json!({"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]});
    let created = cluster.create(PODS, pod("web", volumes)).await;
    let bound = cluster.until(CLAIMS, "web-scratch", is_bound).await;
    assert_eq!(bound["metadata"]["labels"], json!({"kind": "scratch"}));
    let owner = &bound["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["controller"]), (&json!("Pod"), &json!(true)));
    assert_eq!(owner["uid"], created["metadata"]["uid"]);
    let version = cluster.version(CLAIMS).await;
    cluster.delete(&format!("{CLAIMS}/web-scratch")).await;
    cluster.until_gone(CLAIMS, "web-scratch", &version).await;
    let again = cluster.until(CLAIMS, "web-scratch", is_bound).await;
    assert_ne!(again["metadata"]["uid"], bound["metadata"]["uid"]);
    let version = cluster.version(CLAIMS).await;
    cluster.delete(&format!("{PODS}/web")).await;
    cluster.until_gone(CLAIMS, "web-scratch", &version).await;
    cluster.0.stop().await;
}
