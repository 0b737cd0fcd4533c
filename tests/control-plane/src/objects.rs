//! Objects of any kind as JSON, under their paths in the API, which a test creates and reads.

use anyhow::{Context as _, Result};
use http::{Method, Request, header::CONTENT_TYPE};
use kube::Client;
use serde_json::{Value, json};

/// Requests as one user. A path names a collection, `/api/v1/nodes`, or an object,
/// `/api/v1/namespaces/default/pods/a/status`. Errors contain the server's words.
#[derive(Clone)]
pub struct Objects {
    client: Client,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Objects").finish_non_exhaustive()
    }
}

impl Objects {
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Creates an object in a collection, and returns it as the server stored it.
    pub async fn create(&self, collection: &str, object: &Value) -> Result<Value> {
        self.ask(Method::POST, collection, Some(("application/json", object))).await
    }

    /// Reads an object; `None` if the object does not exist.
    pub async fn get(&self, path: &str) -> Result<Option<Value>> {
        match self.ask(Method::GET, path, None).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if is_not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All objects of a collection.
    pub async fn list(&self, collection: &str) -> Result<Vec<Value>> {
        let mut list = self.ask(Method::GET, collection, None).await?;
        let items = list["items"].take();
        serde_json::from_value(items).with_context(|| format!("{collection} is not a list"))
    }

    /// Changes fields of an object (RFC 7386).
    pub async fn merge(&self, path: &str, patch: &Value) -> Result<Value> {
        self.ask(Method::PATCH, path, Some(("application/merge-patch+json", patch))).await
    }

    /// Deletes an object. A pod gets no grace period. A missing object is not an error.
    pub async fn delete(&self, path: &str) -> Result<()> {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        match self.ask(Method::DELETE, path, Some(("application/json", &options))).await {
            Err(error) if !is_not_found(&error) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    async fn ask(&self, method: Method, path: &str, body: Option<(&str, &Value)>) -> Result<Value> {
        let mut request = Request::builder().method(method.clone()).uri(path);
        let mut bytes = Vec::new();
        if let Some((content_type, body)) = body {
            request = request.header(CONTENT_TYPE, content_type);
            bytes = serde_json::to_vec(body)?;
        }
        self.client.request(request.body(bytes)?).await.with_context(|| format!("{method} {path}"))
    }
}

/// Whether the server refused a request, with a status code of 4xx.
#[must_use]
pub fn is_refused(error: &anyhow::Error) -> bool {
    code(error).is_some_and(|code| (400..500).contains(&code))
}

fn is_not_found(error: &anyhow::Error) -> bool {
    code(error) == Some(404)
}

fn code(error: &anyhow::Error) -> Option<u16> {
    match error.downcast_ref::<kube::Error>()? {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}
