//! The parts of the documents of the OCI image format that a WebAssembly artifact needs.
//!
//! An artifact that holds a component has the layout of the CNCF's TAG Runtime
//! (<https://tag-runtime.cncf.io/wgs/wasm/deliverables/wasm-oci-artifact/>).

use std::collections::BTreeMap;

use berth_model::Digest;
use serde::{Deserialize, Serialize};

use crate::reference::parse_digest;

/// The media type of the manifest of one artifact.
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The media type of a list of manifests.
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// The media types that Docker's tools write instead of the two media types of OCI.
pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub(crate) const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// The media type of the description of a WebAssembly artifact.
pub(crate) const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// The media type of the layer that holds the component.
pub(crate) const WASM_LAYER: &str = "application/wasm";
/// The media type that tools wrote for this layer before the layout was agreed on.
pub(crate) const OLD_WASM_LAYER: &str = "application/vnd.wasm.content.layer.v1+wasm";

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    pub config: Descriptor,
    #[serde(default)]
    pub layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Index {
    #[serde(default)]
    pub manifests: Vec<Descriptor>,
}

/// A reference from one document to another.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub media_type: String,
    pub digest: String,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl Descriptor {
    pub(crate) fn new(media_type: &str, digest: Digest, size: usize) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: format!("sha256:{digest}"),
            size: size as u64,
            artifact_type: None,
            annotations: BTreeMap::new(),
        }
    }

    /// The digest; `None` for an algorithm other than SHA-256, or for an invalid digest.
    pub(crate) fn digest(&self) -> Option<Digest> {
        parse_digest(&self.digest)
    }
}
