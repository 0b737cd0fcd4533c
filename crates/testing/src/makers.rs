//! Nodes and pods as JSON, with one call for each field that matters to a test.

use berth_model::api;
use serde_json::{Value, json};

/// A node in the form of the API server.
#[derive(Clone, Debug)]
pub struct NodeMaker(Value);

/// A pod in the form of the API server.
#[derive(Clone, Debug)]
pub struct PodMaker(Value);

/// A node without labels, taints and resources, but with room for 110 pods.
#[must_use]
pub fn node(name: &str) -> NodeMaker {
    let status = json!({"allocatable": {"pods": "110"}});
    NodeMaker(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}))
}

/// A pod in the namespace `default` with its name as its uid. Its only container requests nothing.
#[must_use]
pub fn pod(name: &str) -> PodMaker {
    let metadata = json!({"name": name, "namespace": "default", "uid": name});
    let spec = json!({"containers": [{"name": "main"}]});
    PodMaker(json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
}

impl NodeMaker {
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][key] = json!(value);
        self
    }

    /// Sets an amount of `status.allocatable`.
    #[must_use]
    pub fn allocatable(mut self, resource: &str, amount: &str) -> Self {
        self.0["status"]["allocatable"][resource] = json!(amount);
        self
    }

    /// Cordons the node.
    #[must_use]
    pub fn unschedulable(mut self) -> Self {
        self.0["spec"]["unschedulable"] = json!(true);
        self
    }

    /// Adds a taint.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        push(&mut self.0["spec"]["taints"], json!({"key": key, "value": value, "effect": effect}));
        self
    }

    /// Adds an image that the node has pulled.
    #[must_use]
    pub fn image(mut self, name: &str, bytes: u64) -> Self {
        push(&mut self.0["status"]["images"], json!({"names": [name], "sizeBytes": bytes}));
        self
    }

    #[must_use]
    pub fn json(self) -> Value {
        self.0
    }

    #[must_use]
    pub fn build(self) -> api::Node {
        decode(self.0)
    }
}

impl PodMaker {
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        self.metadata("namespace", json!(namespace))
    }

    #[must_use]
    pub fn uid(self, uid: &str) -> Self {
        self.metadata("uid", json!(uid))
    }

    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][key] = json!(value);
        self
    }

    #[must_use]
    pub fn priority(self, priority: i32) -> Self {
        self.spec("priority", json!(priority))
    }

    /// Sets the node to which the pod is bound; empty for a pending pod.
    #[must_use]
    pub fn on(self, node: &str) -> Self {
        self.spec("nodeName", json!(node))
    }

    /// Sets the node to which the pod is nominated.
    #[must_use]
    pub fn nominated_to(self, node: &str) -> Self {
        self.status("nominatedNodeName", json!(node))
    }

    /// Sets a request of the pod's container.
    #[must_use]
    pub fn request(mut self, resource: &str, amount: &str) -> Self {
        self.0["spec"]["containers"][0]["resources"]["requests"][resource] = json!(amount);
        self
    }

    /// Sets a field of `spec`.
    #[must_use]
    pub fn spec(mut self, field: &str, value: Value) -> Self {
        self.0["spec"][field] = value;
        self
    }

    #[must_use]
    pub fn resource_version(self, version: &str) -> Self {
        self.metadata("resourceVersion", json!(version))
    }

    /// Marks the pod as deleted, but still present.
    #[must_use]
    pub fn terminating(self) -> Self {
        self.metadata("deletionTimestamp", json!("2026-11-21T03:12:04Z"))
    }

    /// Sets a field of `metadata`.
    #[must_use]
    pub fn metadata(mut self, field: &str, value: Value) -> Self {
        self.0["metadata"][field] = value;
        self
    }

    /// Sets a field of `status`.
    #[must_use]
    pub fn status(mut self, field: &str, value: Value) -> Self {
        self.0["status"][field] = value;
        self
    }

    #[must_use]
    pub fn json(self) -> Value {
        self.0
    }

    #[must_use]
    pub fn build(self) -> api::Pod {
        decode(self.0)
    }

    /// Builds the pod with its own JSON, which the scheduler keeps for plugins that read complete pods.
    #[must_use]
    pub fn build_with_json(self) -> api::Pod {
        let json = self.0.to_string().into_bytes();
        api::Pod { json: Some(json.into()), ..self.build() }
    }
}

/// Appends to `list`, which is an array or does not exist yet.
fn push(list: &mut Value, element: Value) {
    match list.as_array_mut() {
        Some(elements) => elements.push(element),
        None => *list = json!([element]),
    }
}

#[expect(clippy::panic, reason = "a test with an object that does not decode is wrong")]
fn decode<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap_or_else(|error| panic!("an object that does not decode: {error}"))
}
