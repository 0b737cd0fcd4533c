//! The API paths of kinds. If some names of a kind are not known, the server's discovery supplies them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use berth_model::KindRef;
use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;

use crate::{api_error::RequestFailure, object::version_path, request, write::WriteError};

/// The maximum time that a server may take to list the kinds of a group.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// Asks the server about kinds, and keeps its answers. The value is cheap to clone.
#[derive(Clone)]
pub struct Kinds {
    client: Client,
    known: Arc<Mutex<HashMap<KindRef, KindRef>>>,
}

impl std::fmt::Debug for Kinds {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Kinds").finish_non_exhaustive()
    }
}

impl Kinds {
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, known: Arc::default() }
    }

    /// Fills in the fields that `wanted` lacks.
    ///
    /// # Errors
    /// The server does not serve the kind, or does not answer.
    pub async fn resolve(&self, wanted: &KindRef) -> Result<KindRef, WriteError> {
        if wanted.is_complete() {
            return Ok(wanted.clone());
        }
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(wanted) {
            return Ok(known.clone());
        }
        let api_version = wanted.api_version();
        let request = Request::get(version_path(&wanted.group, &wanted.version)?).body(Vec::new());
        let request = request.map_err(|error| RequestFailure::from(kube::Error::HttpError(error)))?;
        let listed: APIResourceList = request::json(&self.client, request, DISCOVERY_TIMEOUT).await?;
        let resources = listed.resources;
        // Subresources have a slash in their names.
        let mut resources = resources.iter().filter(|resource| !resource.name.contains('/'));
        let found = resources.find(|it| it.kind == wanted.kind || it.name == wanted.plural).ok_or_else(|| {
            let name = if wanted.kind.is_empty() { &wanted.plural } else { &wanted.kind };
            WriteError::NotFound { message: format!("the server does not serve {name} of {api_version}") }
        })?;
        let found = KindRef { kind: found.kind.clone(), plural: found.name.clone(), ..wanted.clone() };
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(wanted.clone(), found.clone());
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_server;

    #[tokio::test(start_paused = true)]
    async fn the_server_knows_the_rest_and_is_asked_once() {
        let (client, mut server) = test_server::server();
        let wanted = KindRef::of_kind("example.com/v1", "Ox");
        let outcome = tokio::spawn(async move {
            let kinds = Kinds::new(client);
            (
                kinds.resolve(&wanted).await,
                kinds.resolve(&wanted).await,
                kinds.resolve(&KindRef::of_kind("v1", "Pd")).await,
            )
        });
        let call = server.next().await;
        assert_eq!(call.line(), "GET /apis/example.com/v1");
        let resource =
            |name, kind| json!({"name": name, "kind": kind, "namespaced": true, "singularName": "", "verbs": []});
        let oxen = [resource("oxen/status", "Ox"), resource("oxen", "Ox")];
        call.answer(200, &json!({"kind": "APIResourceList", "groupVersion": "example.com/v1", "resources": oxen}));
        let call = server.next().await;
        assert_eq!(call.line(), "GET /api/v1");
        call.answer(200, &json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": []}));
        let (first, second, unknown) = outcome.await.unwrap();
        assert_eq!(first.as_ref().map(|kind| kind.plural.as_str()), Ok("oxen"));
        assert_eq!(first, second);
        let message = "the server does not serve Pd of v1".to_owned();
        assert_eq!(unknown, Err(WriteError::NotFound { message }));
    }
}
