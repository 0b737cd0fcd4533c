//! Creates objects of any kind that the server has, from manifests.

use std::collections::HashMap;

use kube::{
    Api, Client,
    api::PostParams,
    core::{DynamicObject, GroupVersionKind, TypeMeta},
    discovery::{self, ApiCapabilities, ApiResource, Scope},
};
use serde_json::Value;

/// The reason why an object was not created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("not an object with apiVersion, kind and metadata: {0}")]
    Malformed(#[source] serde_json::Error),
    #[error("no matches for kind {kind} in version {api_version}: check both for typing errors")]
    UnknownKind { api_version: String, kind: String },
    /// The server refused the object. `message` is in the server's own words.
    #[error("{name}: {message}")]
    Refused { name: String, message: String },
    #[error("the API server cannot be reached")]
    Unreachable(#[source] Box<kube::Error>),
}

/// Creates objects one by one, and keeps the server's answers about their kinds.
#[derive(Clone)]
pub struct Creator {
    client: Client,
    kinds: HashMap<GroupVersionKind, (ApiResource, ApiCapabilities)>,
}

impl std::fmt::Debug for Creator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Creator").field("n_kinds", &self.kinds.len()).finish_non_exhaustive()
    }
}

impl Creator {
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, kinds: HashMap::new() }
    }

    /// Creates `manifest` and returns the object as the server stored it. The namespace is `default` if the kind needs
    /// a namespace and the manifest has none.
    ///
    /// # Errors
    /// The manifest is not an object, its kind is unknown, or the server refused it.
    pub async fn create(&mut self, manifest: &Value) -> Result<Value, CreateError> {
        let object: DynamicObject = serde_json::from_value(manifest.clone()).map_err(CreateError::Malformed)?;
        let types = object.types.clone().unwrap_or_default();
        let (resource, capabilities) = self.kind(&types).await?;
        let api: Api<DynamicObject> = if capabilities.scope == Scope::Cluster {
            Api::all_with(self.client.clone(), &resource)
        } else {
            let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        };
        let created = api.create(&PostParams::default(), &object).await.map_err(|error| match error {
            kube::Error::Api(status) => CreateError::Refused {
                name: object.metadata.name.clone().unwrap_or_default(),
                message: status.message.clone(),
            },
            error => CreateError::Unreachable(Box::new(error)),
        })?;
        serde_json::to_value(created).map_err(CreateError::Malformed)
    }

    async fn kind(&mut self, types: &TypeMeta) -> Result<(ApiResource, ApiCapabilities), CreateError> {
        let unknown = || CreateError::UnknownKind { api_version: types.api_version.clone(), kind: types.kind.clone() };
        let gvk = GroupVersionKind::try_from(types).map_err(|_| unknown())?;
        if let Some(known) = self.kinds.get(&gvk) {
            return Ok(known.clone());
        }
        let found = discovery::pinned_kind(&self.client, &gvk).await.map_err(|error| match error {
            kube::Error::Api(_) | kube::Error::Discovery(_) => unknown(),
            error => CreateError::Unreachable(Box::new(error)),
        })?;
        self.kinds.insert(gvk, found.clone());
        Ok(found)
    }
}
