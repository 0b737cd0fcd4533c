//! An API server that only reviews tokens and rights.

use std::{fs, net::SocketAddr, path::Path};

use axum::{Json, Router, routing::post};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// A server that listens until this value is dropped.
#[derive(Debug)]
pub(crate) struct Reviewer {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

/// Whether a user may do something. The rule gets the spec of the SubjectAccessReview.
pub(crate) type Rule = fn(user: &str, spec: &Value) -> bool;

impl Reviewer {
    /// Starts the server. The token `token-of-ada` belongs to the user ada, and so on; `rule` says what each user may
    /// do.
    pub(crate) async fn start(rule: Rule) -> Self {
        let tokens = async |Json(review): Json<Value>| {
            let user = review["spec"]["token"].as_str().and_then(|token| token.strip_prefix("token-of-"));
            let status = match user {
                Some(user) => json!({"authenticated": true, "user": {"username": user, "groups": ["people"]}}),
                None => json!({"authenticated": false}),
            };
            Json(json!({"metadata": {}, "spec": {"token": ""}, "status": status}))
        };
        let rights = async move |Json(review): Json<Value>| {
            let allowed = rule(review["spec"]["user"].as_str().unwrap_or_default(), &review["spec"]);
            Json(json!({"metadata": {}, "spec": {}, "status": {"allowed": allowed}}))
        };
        let routes = Router::new()
            .route("/apis/authentication.k8s.io/v1/tokenreviews", post(tokens))
            .route("/apis/authorization.k8s.io/v1/subjectaccessreviews", post(rights));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.expect("it serves") });
        Self { address, serving }
    }

    /// Writes a kubeconfig for this API server.
    pub(crate) fn write_kubeconfig(&self, path: &Path) {
        fs::write(path, kubeconfig(&format!("http://{}", self.address), "scheduler")).expect("a file");
    }
}

impl Drop for Reviewer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A kubeconfig with a user's token.
pub(crate) fn kubeconfig(server: &str, user: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": server}}],
        "users": [{"name": user, "user": {"token": format!("token-of-{user}")}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": user}}],
    })
    .to_string()
}
