//! Uploads a component, and signatures of it, to a registry.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use berth_model::Digest;
use serde_json::json;

use crate::{
    artifact::{Artifact, ComponentDescription, digest_of},
    manifest::{Descriptor, MANIFEST, Manifest},
    reference::{Reference, Version},
    registry::{Registries, RegistryError},
    signature::{SIMPLE_SIGNATURE, SIMPLE_SIGNING},
};

/// The configuration of the empty image in which cosign keeps signatures.
const IMAGE_CONFIG: &str = "application/vnd.oci.image.config.v1+json";

/// The reason why an upload failed. The text continues the reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    #[error("cannot be pushed: {host} {source}")]
    Registry { host: String, source: RegistryError },
    #[error("names a digest: push to a tag instead")]
    Pinned,
    #[error("has signatures that cannot be read: {0}")]
    Signatures(String),
}

/// Pushes a component under a tag. Returns the digest of the manifest.
///
/// # Errors
/// The reference is not a tag, or the registry refuses.
pub async fn push(
    registries: &Registries,
    reference: &Reference,
    component: &[u8],
    description: &ComponentDescription,
) -> Result<Digest, PushError> {
    let Version::Tag(tag) = reference.version() else { return Err(PushError::Pinned) };
    let at = registries.origin(reference);
    let failed = |source| PushError::Registry { host: at.host.clone(), source };
    let Artifact { config, manifest } = Artifact::of_component(component, description);
    for blob in [component, &config] {
        registries.push_blob(&at, blob).await.map_err(failed)?;
    }
    registries.push_manifest(&at, &tag, &manifest).await.map_err(failed)?;
    Ok(digest_of(&manifest))
}

/// Adds a signature of `payload`, which names `manifest`, to the registry's signatures, in the place where `cosign
/// verify` looks for them.
///
/// # Errors
/// The registry refuses, or has something else in that place.
pub async fn attach_signature(
    registries: &Registries,
    reference: &Reference,
    manifest: Digest,
    payload: &[u8],
    signature: &[u8],
) -> Result<(), PushError> {
    let at = registries.origin(reference);
    let failed = |source| PushError::Registry { host: at.host.clone(), source };
    let tag = format!("sha256-{manifest}.sig");
    let mut layers = match registries.manifest(&at, &tag).await {
        Ok((document, _)) => {
            let present: Result<Manifest, _> = serde_json::from_slice(&document);
            present.map_err(|error| PushError::Signatures(error.to_string()))?.layers
        }
        Err(RegistryError::NotFound(_)) => Vec::new(),
        Err(error) => return Err(failed(error)),
    };
    let digest = registries.push_blob(&at, payload).await.map_err(failed)?;
    let mut layer = Descriptor::new(SIMPLE_SIGNING, digest, payload.len());
    layer.annotations.insert(SIMPLE_SIGNATURE.to_owned(), BASE64_STANDARD.encode(signature));
    layers.push(layer);
    let digests: Vec<&str> = layers.iter().map(|layer| layer.digest.as_str()).collect();
    let config = json!({
        "architecture": "",
        "created": "0001-01-01T00:00:00Z",
        "history": vec![json!({ "created": "0001-01-01T00:00:00Z" }); layers.len()],
        "os": "",
        "rootfs": { "type": "layers", "diff_ids": digests },
        "config": {},
    });
    let config = config.to_string().into_bytes();
    let config_digest = registries.push_blob(&at, &config).await.map_err(failed)?;
    let document = Manifest {
        schema_version: 2,
        media_type: Some(MANIFEST.to_owned()),
        artifact_type: None,
        config: Descriptor::new(IMAGE_CONFIG, config_digest, config.len()),
        layers,
        subject: None,
        annotations: std::collections::BTreeMap::new(),
    };
    registries.push_manifest(&at, &tag, json!(document).to_string().as_bytes()).await.map_err(failed)
}
