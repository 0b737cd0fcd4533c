//! Devices through claims (Kubernetes documentation: Dynamic Resource Allocation; KEP-4381). A pod with a claim from a
//! template gets the node with the device, and the claim's status names the device and the pod.

use std::{ops::ControlFlow, pin::pin};

use futures::TryStreamExt as _;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams, WatchEvent, WatchParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    cluster::{Cluster, pod},
    process::DEADLINE,
};

/// Creates an object of the API's kind.
async fn create<K>(api: &Api<K>, object: Value)
where
    K: Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let object = serde_json::from_value(object).expect("an object of its kind");
    api.create(&PostParams::default(), &object).await.expect("the sandbox takes it");
}

/// One node has two devices, of which one is large.
async fn offer_devices(cluster: &Cluster) {
    let client = cluster.pods.clone().into_client();
    let class = json!({
        "metadata": {"name": "gpu.example.com"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}
    });
    create(&Api::<DeviceClass>::all(client.clone()), class).await;
    let device = |name: &str, memory: &str| json!({"name": name, "capacity": {"memory": {"value": memory}}});
    let slice = json!({
        "metadata": {"name": "gpus"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "node-00001",
            "pool": {"name": "node-00001", "generation": 1, "resourceSliceCount": 1},
            "devices": [device("small", "16Gi"), device("large", "80Gi")]
        }
    });
    create(&Api::<ResourceSlice>::all(client.clone()), slice).await;
    let large = "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0";
    let request = json!({
        "name": "gpu",
        "exactly": {"deviceClassName": "gpu.example.com", "selectors": [{"cel": {"expression": large}}]}
    });
    let template = json!({
        "metadata": {"name": "large-gpu"},
        "spec": {"spec": {"devices": {"requests": [request]}}}
    });
    create(&Api::<ResourceClaimTemplate>::default_namespaced(client), template).await;
}

fn consumer(name: &str) -> Value {
    let mut consumer = pod(name, "1", "1Gi");
    consumer["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimTemplateName": "large-gpu"}]);
    consumer["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "gpu"}]);
    consumer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_gets_the_node_with_its_device() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "3"]).await;
    let _scheduler = cluster.scheduler(&[]).await;
    offer_devices(&cluster).await;
    cluster.create(&consumer("first")).await;
    assert_eq!(cluster.node_of("first").await, "node-00001");

    let claims: Api<ResourceClaim> = Api::default_namespaced(cluster.pods.clone().into_client());
    let listed = claims.list(&ListParams::default()).await.expect("the claims").items;
    let [claim] = listed.as_slice() else { panic!("{listed:?}") };
    let status = serde_json::to_value(&claim.status).expect("a status");
    let result = &status["allocation"]["devices"]["results"][0];
    assert_eq!([&result["device"], &result["pool"]], ["large", "node-00001"]);
    assert_eq!(status["reservedFor"][0]["name"], "first");

    // The device is taken. The next pod waits, and gets the device when the first pod is gone.
    cluster.create(&consumer("second")).await;
    cluster.pods.delete("first", &DeleteParams::default()).await.expect("the first goes");
    assert_eq!(cluster.node_of("second").await, "node-00001");
}

/// Refuses all bindings from now on.
async fn refuse_bindings(cluster: &Cluster) {
    let rule = json!({
        "match": {"resources": ["pods/binding"], "userAgent": "berth/"},
        "fault": {"type": "Status", "code": 403}
    });
    let post = http::Request::post("/faults").body(rule.to_string().into_bytes()).expect("a request");
    cluster.pods.clone().into_client().request_text(post).await.expect("the rule is added");
}

/// Creates a pod, and passes each later state of a claim to `look`, with `true` if the claim was deleted. Ends when `look`
/// returns `Break`.
async fn watch_claims_of(cluster: &Cluster, pod: &Value, mut look: impl FnMut(Value, bool) -> ControlFlow<()>) {
    let claims: Api<ResourceClaim> = Api::default_namespaced(cluster.pods.clone().into_client());
    let listed = claims.list(&ListParams::default()).await.expect("the claims");
    let version = listed.metadata.resource_version.expect("a version");
    cluster.create(pod).await;
    let watching = async {
        let mut events = pin!(claims.watch(&WatchParams::default(), &version).await.expect("a watch"));
        while let Some(event) = events.try_next().await.expect("the watch goes on") {
            let (claim, is_gone) = match event {
                WatchEvent::Added(claim) | WatchEvent::Modified(claim) => (claim, false),
                WatchEvent::Deleted(claim) => (claim, true),
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(error) => panic!("the watch fails: {error:?}"),
            };
            if look(serde_json::to_value(claim).expect("JSON"), is_gone).is_break() {
                return;
            }
        }
        panic!("the watch ended");
    };
    timeout(DEADLINE, watching).await.expect("the state of the claim that the test waits for");
}

/// kube-scheduler's Unreserve does the same: the claim keeps its device, but no pod has reserved the claim.
#[tokio::test(flavor = "multi_thread")]
async fn a_binding_that_fails_leaves_no_reservation() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "3"]).await;
    refuse_bindings(&cluster).await;
    let _scheduler = cluster.scheduler(&[]).await;
    offer_devices(&cluster).await;

    let mut was_reserved = false;
    watch_claims_of(&cluster, &consumer("first"), |claim, _| {
        let is_reserved = claim["status"]["reservedFor"].as_array().is_some_and(|users| !users.is_empty());
        let is_left = was_reserved && !is_reserved && claim["status"]["allocation"].is_object();
        was_reserved |= is_reserved;
        if is_left { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .await;
}

/// KEP-5004: the scheduler makes a claim for devices that stand for an extended resource, and deletes it if the pod is
/// not bound.
#[tokio::test(flavor = "multi_thread")]
async fn a_binding_that_fails_leaves_no_claim_for_extended_resources() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "3"]).await;
    refuse_bindings(&cluster).await;
    let _scheduler = cluster.scheduler(&[]).await;
    offer_devices(&cluster).await;
    let client = cluster.pods.clone().into_client();
    let class = json!({
        "metadata": {"name": "extended.example.com"},
        "spec": {
            "extendedResourceName": "example.com/gpu",
            "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]
        }
    });
    create(&Api::<DeviceClass>::all(client), class).await;
    let mut asking = pod("first", "1", "1Gi");
    for field in ["requests", "limits"] {
        asking["spec"]["containers"][0]["resources"][field]["example.com/gpu"] = json!("1");
    }

    let mut was_reserved = false;
    watch_claims_of(&cluster, &asking, |claim, is_gone| {
        was_reserved |= claim["status"]["reservedFor"].as_array().is_some_and(|users| !users.is_empty());
        if was_reserved && is_gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .await;
}
