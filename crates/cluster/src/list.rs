//! All objects of a kind, page by page, as JSON.

use std::time::Duration;

use berth_model::KindRef;
use http::Request;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{api_error::RequestFailure, object::version_path, request};

/// The number of objects in a page, as in client-go (`pager.New` in `k8s.io/client-go/tools/pager`).
const PAGE: usize = 500;
/// The maximum time for a page.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The reason why a kind could not be listed.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The user of the connection may not list the kind.
    #[error("{plural}: {message}")]
    Forbidden {
        plural: String,
        /// The message in the server's words.
        message: String,
    },
    /// The server does not serve the kind.
    #[error("{plural}: the API server does not serve this resource")]
    NotServed { plural: String },
    /// The request failed for another reason.
    #[error("{plural}: {message}")]
    Failed {
        plural: String,
        /// A description of the failure.
        message: String,
    },
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    items: Vec<Value>,
    #[serde(default)]
    metadata: PageMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMetadata {
    #[serde(rename = "continue")]
    token: String,
}

/// Lists a kind in all namespaces; each object has its `apiVersion` and `kind`.
///
/// # Errors
/// The kind may not be listed or is not served, or the server does not answer.
pub async fn list(client: &Client, kind: &KindRef) -> Result<Vec<Value>, ListError> {
    let plural = kind.likely_plural();
    let failed = |message: String| ListError::Failed { plural: plural.clone(), message };
    let version = version_path(&kind.group, &kind.version).map_err(|error| failed(error.to_string()))?;
    let (mut objects, mut token) = (Vec::new(), String::new());
    loop {
        let after = if token.is_empty() { String::new() } else { format!("&continue={}", encoded(&token)) };
        let path = format!("{version}/{plural}?limit={PAGE}{after}");
        let request = Request::get(path).body(Vec::new()).map_err(|error| failed(error.to_string()))?;
        let page: Page =
            request::retried_json(client, request, TIMEOUT).await.map_err(|error| refused(&plural, error))?;
        objects.extend(page.items.into_iter().map(|mut object| {
            (object["apiVersion"], object["kind"]) = (json!(kind.api_version()), json!(kind.kind));
            object
        }));
        if page.metadata.token.is_empty() {
            return Ok(objects);
        }
        token = page.metadata.token;
    }
}

fn refused(plural: &str, error: RequestFailure) -> ListError {
    let plural = plural.to_owned();
    match error {
        RequestFailure::Api(status) if status.code == 403 => {
            ListError::Forbidden { plural, message: status.message.clone() }
        }
        RequestFailure::Api(status) if status.code == 404 => ListError::NotServed { plural },
        error => ListError::Failed { plural, message: error.to_string() },
    }
}

/// The token, with every character that has a meaning in a query percent-encoded.
fn encoded(token: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    token
        .bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_server;

    #[tokio::test(start_paused = true)]
    async fn pages_follow_one_another_and_objects_say_their_kind() {
        let (client, mut server) = test_server::server();
        let listing = tokio::spawn(async move { list(&client, &KindRef::of_kind("v1", "Pod")).await });
        let call = server.next().await;
        assert_eq!((call.line().as_str(), call.query.as_str()), ("GET /api/v1/pods", "limit=500"));
        call.answer(200, &json!({"items": [{"metadata": {"name": "a"}}], "metadata": {"continue": "x=/"}}));
        let call = server.next().await;
        assert_eq!(call.query, "limit=500&continue=x%3D%2F");
        call.answer(200, &json!({"items": [{"metadata": {"name": "b"}}], "metadata": {}}));
        let objects = listing.await.unwrap().unwrap();
        assert_eq!(objects.len(), 2);
        assert_eq!((&objects[1]["kind"], &objects[1]["apiVersion"]), (&json!("Pod"), &json!("v1")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_may_not_be_listed_is_named() {
        let (client, mut server) = test_server::server();
        let listing = tokio::spawn(async move { list(&client, &KindRef::of_kind("v1", "Node")).await });
        let message = "nodes is forbidden";
        server.next().await.answer(403, &json!({"kind": "Status", "message": message, "code": 403}));
        let error = listing.await.unwrap().unwrap_err();
        assert!(
            matches!(error, ListError::Forbidden { .. }) && error.to_string() == "nodes: nodes is forbidden",
            "{error}"
        );
    }
}
