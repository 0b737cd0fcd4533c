//! The queueing hints of the plugin.

use berth_framework::EventSubject;
use berth_model::{
    ObjectKey,
    pod::{ClaimName, PodClaim},
};
use serde_json::{Value, json};

use super::device_cluster::DeviceCluster;
use crate::dynamic_resources::*;

/// `isSchedulableAfterClaimChange` and `isSchedulableAfterPodChange` in
/// `pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go`.
#[test]
fn events_wake_pods_that_they_may_help() {
    let mut cluster = DeviceCluster::new();
    cluster.claim("c", |_| {});
    let pod = cluster.pod("p", &["c"], json!({}));
    let claim = |namespace: &str, name: &str, status: Value| {
        let key = claim_key(namespace, name);
        (key, json!({"metadata": {"namespace": namespace, "name": name}, "status": status}).to_string().into_bytes())
    };
    let mut ask = |old: Option<Value>, (key, new): (ObjectKey, Vec<u8>)| {
        let old = old.map(|status| claim(&key.namespace, &key.name, status).1);
        let subject = EventSubject::Object { key: &key, old: old.as_deref(), new: Some(&new) };
        cluster.hint(&pod, subject)
    };
    let allocated = || json!({"allocation": {}});
    let free = || json!({});
    assert!(ask(Some(allocated()), claim("default", "other", free())));
    assert!(!ask(Some(free()), claim("default", "other", allocated())));
    assert!(ask(None, claim("default", "c", free())));
    assert!(!ask(None, claim("default", "other", free())));
    assert!(!ask(None, claim("elsewhere", "c", free())), "a claim of another namespace");
    assert!(!ask(Some(allocated()), claim("default", "c", allocated())));
    assert!(ask(Some(free()), claim("default", "c", allocated())));
    assert!(ask(None, (claim_key("default", "c"), b"broken".to_vec())));
    assert!(ask(None, (ObjectKey { kind: "ResourceSlice".to_owned(), ..claim_key("", "s") }, b"{}".to_vec())));
    let waiting = cluster.pod("waiting", &["c", "missing"], json!({}));
    let (key, new) = claim("default", "c", free());
    let made = EventSubject::Object { key: &key, old: None, new: Some(&new) };
    assert!(!cluster.hint(&waiting, made), "another claim is still missing");
    cluster.claim("missing", |_| {});
    assert!(cluster.hint(&waiting, made));
}

#[test]
fn a_pod_is_tried_again_once_all_its_claims_are_generated() {
    let mut cluster = DeviceCluster::new();
    let owner = json!({"kind": "Pod", "name": "p", "uid": "p-uid", "controller": true});
    cluster.claim("x", |claim| claim["metadata"]["ownerReferences"] = json!([owner]));
    let pod = cluster.pod("p", &["c"], json!({}));
    let with = |claims: &[ClaimName]| {
        let claim = |name: &ClaimName| PodClaim { name: "c".into(), from_template: true, claim: name.clone() };
        Pod { resource_claims: claims.iter().map(claim).collect(), ..pod.clone() }
    };
    let mut ask = |new: &Pod| cluster.hint(&pod, EventSubject::Pod { old: None, new: Some(new) });
    let generated = with(&[ClaimName::Known("x".into()), ClaimName::NotNeeded]);
    assert!(ask(&generated));
    assert!(!ask(&with(&[ClaimName::Known("x".into()), ClaimName::Pending])));
    assert!(!ask(&Pod { uid: "another".into(), ..generated }));
}

fn claim_key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey {
        api_version: "resource.k8s.io/v1".to_owned(),
        kind: "ResourceClaim".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}
