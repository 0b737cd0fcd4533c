//! A sandbox with the few requests that the tests of controllers need.

use std::time::Duration;

use berth_sandbox::{Options, Sandbox};
use serde_json::{Value, json};

use crate::http::{Answer, send, wait_until};

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// A sandbox in which pods start and stop immediately.
pub(crate) struct Cluster(pub(crate) Sandbox);

impl Cluster {
    pub(crate) async fn start() -> Self {
        Self::with(true).await
    }

    /// A sandbox in which only the test creates pods.
    pub(crate) async fn without_workloads() -> Self {
        Self::with(false).await
    }

    async fn with(workloads: bool) -> Self {
        let (pod_start_delay, pod_stop_delay) = (Duration::ZERO, Duration::ZERO);
        let options = Options { pod_start_delay, pod_stop_delay, workloads, ..Options::default() };
        Self(Sandbox::start(options).await.expect("the sandbox starts"))
    }

    /// Creates an object that must be accepted.
    pub(crate) async fn create(&self, collection: &str, body: Value) -> Value {
        let answer = send(self.0.address(), "POST", collection, &[], &body.to_string()).await;
        assert_eq!(answer.status, 201, "{collection}: {}", answer.body);
        answer.json()
    }

    pub(crate) async fn get(&self, target: &str) -> Value {
        send(self.0.address(), "GET", target, &[], "").await.json()
    }

    /// The names of all objects of a collection.
    pub(crate) async fn names(&self, collection: &str) -> Vec<String> {
        let list = self.get(collection).await;
        let items = list["items"].as_array().expect("a list").iter();
        items.map(|object| object["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
    }

    pub(crate) async fn merge(&self, target: &str, patch: Value) -> Value {
        self.patch("application/merge-patch+json", target, patch).await
    }

    pub(crate) async fn patch(&self, content_type: &str, target: &str, patch: Value) -> Value {
        let headers = [("content-type", content_type)];
        let answer = send(self.0.address(), "PATCH", target, &headers, &patch.to_string()).await;
        assert_eq!(answer.status, 200, "{target}: {}", answer.body);
        answer.json()
    }

    pub(crate) async fn delete(&self, target: &str) {
        let answer = send(self.0.address(), "DELETE", target, &[], "").await;
        assert_eq!(answer.status, 200, "{target}: {}", answer.body);
    }

    /// Waits until an object satisfies a condition.
    pub(crate) async fn until(&self, collection: &str, name: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let is_wanted = |kind: &str, object: &Value| kind != "DELETED" && is_wanted(object);
        wait_until(self.0.address(), collection, name, "", is_wanted).await
    }

    /// The version of a collection; see [`Cluster::until_gone`].
    pub(crate) async fn version(&self, collection: &str) -> String {
        self.get(collection).await["metadata"]["resourceVersion"].as_str().expect("a version").to_owned()
    }

    /// Waits until an object that existed at this version is removed.
    pub(crate) async fn until_gone(&self, collection: &str, name: &str, since: &str) {
        wait_until(self.0.address(), collection, name, since, |kind, _| kind == "DELETED").await;
    }

    pub(crate) async fn bind(&self, pod: &str) {
        let binding = json!({"target": {"kind": "Node", "name": "n"}});
        self.create(&format!("{PODS}/{pod}/binding"), binding).await;
    }

    pub(crate) async fn evict(&self, pod: &str) -> Answer {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
        send(self.0.address(), "POST", &format!("{PODS}/{pod}/eviction"), &[], &eviction.to_string()).await
    }
}

/// A pod with these additions to its spec.
pub(crate) fn pod(name: &str, extra: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i:1"}]},
    });
    let spec = pod["spec"].as_object_mut().expect("a spec");
    spec.extend(extra.as_object().expect("members").clone());
    pod
}
