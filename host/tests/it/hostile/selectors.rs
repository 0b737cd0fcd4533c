//! Claims with selectors that are made to be slow: each is as long as the API server allows, and no two have anything
//! in common.

use berth_test_guests::{At, harmless};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use kube::{Api, api::PostParams};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::bench::{Bench, Guest};
use crate::cluster::{Cluster, Seen, pod};

/// The limits of Kubernetes' API reference: selectors in a request, and bytes in a selector.
const SELECTORS: usize = 32;
const BYTES: usize = 10 << 10;

/// The number of patterns that fit into one selector.
const PATTERNS: usize = 245;

/// Pods that take the whole time of a search, in each attempt.
const HOSTILE: usize = 10;

const DEVICES: usize = 100;

/// Creates an object of the API's kind.
async fn create<K>(api: &Api<K>, object: Value)
where
    K: Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let object = serde_json::from_value(object).expect("an object of its kind");
    api.create(&PostParams::default(), &object).await.expect("the sandbox takes it");
}

/// A selector that is true of every device after all its patterns have been compiled and tried. The last selector of a
/// claim is true of no device.
fn selector(claim: usize, number: usize) -> String {
    let pattern = |index: usize| format!("!device.driver.matches('^{claim:x}-{number:x}-{index:x}$')");
    let mut all: Vec<String> = (0..PATTERNS).map(pattern).collect();
    if number == SELECTORS - 1 {
        all[PATTERNS - 1] = "false".to_owned();
    }
    let text = all.join("&&");
    assert!(text.len() <= BYTES, "{}", text.len());
    text
}

async fn claim(claims: &Api<ResourceClaim>, number: usize) {
    let selectors: Vec<Value> =
        (0..SELECTORS).map(|index| json!({"cel": {"expression": selector(number, index)}})).collect();
    let exactly = json!({"deviceClassName": "gpu.example.com", "selectors": selectors});
    let claim = json!({
        "metadata": {"name": format!("slow-{number}")},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    });
    create(claims, claim).await;
}

fn consumer(number: usize) -> Value {
    let mut consumer = pod(&format!("consumer-{number}"), "10m", "1Mi");
    consumer["spec"]["schedulerName"] = json!("selects");
    consumer["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": format!("slow-{number}")}]);
    consumer["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "gpu"}]);
    consumer
}

/// A pod for each claim.
pub(crate) fn consumers() -> impl Iterator<Item = Value> {
    (0..HOSTILE).map(consumer)
}

/// Starts a scheduler and a cluster with devices and with claims that have these selectors.
pub(crate) async fn start() -> Bench {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "5"]).await;
    let client = cluster.pods.clone().into_client();
    let class = json!({"metadata": {"name": "gpu.example.com"}, "spec": {}});
    create(&Api::<DeviceClass>::all(client.clone()), class).await;
    let devices: Vec<Value> = (0..DEVICES).map(|number| json!({"name": format!("gpu-{number}")})).collect();
    let slice = json!({
        "metadata": {"name": "gpus"},
        "spec": {
            "driver": "gpu.example.com",
            "allNodes": true,
            "pool": {"name": "gpus", "generation": 1, "resourceSliceCount": 1},
            "devices": devices
        }
    });
    create(&Api::<ResourceSlice>::all(client.clone()), slice).await;
    let claims = Api::<ResourceClaim>::default_namespaced(client);
    for number in 0..HOSTILE {
        claim(&claims, number).await;
    }
    let selects = harmless("Selects", At::Filter).expect("a component");
    Bench::start(cluster, vec![Guest::new("Selects", At::Filter, selects)], "").await
}

/// The programs of each claim displace the programs of the other claims from the cache. The healthy pods are in the
/// same namespace.
#[tokio::test(flavor = "multi_thread")]
async fn selectors_that_have_nothing_in_common_hold_up_nobody() {
    let bench = start().await;
    bench.cluster.create_all(consumers()).await;
    let n_told = |seen: &Seen| seen.messages.keys().filter(|name| name.starts_with("consumer")).count();
    bench.cluster.until("a search that ended", |seen| n_told(seen) > 0).await;
    bench.binds_healthy_in_time(0..20).await;
    let seen = bench.cluster.until("all searches ended", |seen| n_told(seen) == HOSTILE).await;
    // The message names the claim, or says that the search was brief.
    let says = "timed out trying to allocate devices";
    let messages = seen.messages.iter().filter(|(name, _)| name.starts_with("consumer"));
    messages.for_each(|(name, message)| assert!(message.contains(says), "{name}: {message}"));
}
