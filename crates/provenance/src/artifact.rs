//! The component in a manifest: the layer that contains it, and the description of a component for a registry.

use berth_model::Digest;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::manifest::{DOCKER_LIST, Descriptor, INDEX, MANIFEST, Manifest, OLD_WASM_LAYER, WASM_CONFIG, WASM_LAYER};

/// The reason why a manifest contains no usable component. The text continues the reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactError {
    #[error("has a manifest that cannot be read: {0}")]
    Unreadable(String),
    #[error("is a list of manifests (an index), not one artifact: name one of its manifests by digest")]
    Index,
    #[error("has {found} layers of type {expected}, but a WebAssembly artifact has exactly one; its layers: {layers}",
        expected = WASM_LAYER)]
    Layers { found: usize, layers: String },
    #[error("has an invalid digest {0:?} for its component: expected SHA-256")]
    Digest(String),
    #[error("has a component of {size} bytes, more than the {limit} that a plugin may have (files.maxSize)")]
    TooLarge { size: u64, limit: u64 },
}

/// The place of an artifact's component.
#[derive(Clone, Debug)]
pub(crate) struct ComponentLayer {
    pub digest: Digest,
    pub size: u64,
}

/// Reads a manifest. `limit` is the maximum size of the component.
pub(crate) fn component_layer(manifest: &[u8], limit: u64) -> Result<ComponentLayer, ArtifactError> {
    let unreadable = |error: serde_json::Error| ArtifactError::Unreadable(error.to_string());
    let document: serde_json::Value = serde_json::from_slice(manifest).map_err(unreadable)?;
    let media_type = document.get("mediaType").and_then(serde_json::Value::as_str);
    if media_type.is_some_and(|it| it == INDEX || it == DOCKER_LIST) || document.get("manifests").is_some() {
        return Err(ArtifactError::Index);
    }
    let manifest: Manifest = serde_json::from_value(document).map_err(unreadable)?;
    let is_component = |layer: &&Descriptor| layer.media_type == WASM_LAYER || layer.media_type == OLD_WASM_LAYER;
    let components: Vec<&Descriptor> = manifest.layers.iter().filter(is_component).collect();
    let [layer] = components.as_slice() else {
        let types = manifest.layers.iter().map(|layer| layer.media_type.as_str()).collect::<Vec<_>>().join(", ");
        let layers = if types.is_empty() { "none".to_owned() } else { types };
        return Err(ArtifactError::Layers { found: components.len(), layers });
    };
    if layer.size > limit {
        return Err(ArtifactError::TooLarge { size: layer.size, limit });
    }
    let digest = layer.digest().ok_or_else(|| ArtifactError::Digest(layer.digest.clone()))?;
    Ok(ComponentLayer { digest, size: layer.size })
}

/// The description that a registry gets of a component.
#[derive(Clone, Debug, Default)]
pub struct ComponentDescription {
    /// A time as in RFC 3339.
    pub created: String,
    /// The names of the interfaces.
    pub imports: Vec<String>,
    pub exports: Vec<String>,
}

/// A description and a manifest for a component, in the form of registries.
pub(crate) struct Artifact {
    pub config: Vec<u8>,
    pub manifest: Vec<u8>,
}

impl Artifact {
    pub(crate) fn of_component(component: &[u8], description: &ComponentDescription) -> Self {
        let ComponentDescription { created, imports, exports } = description;
        let layer = digest_of(component);
        let config = json!({
            "created": created,
            "architecture": "wasm",
            "os": "wasip2",
            "layerDigests": [format!("sha256:{layer}")],
            "component": { "exports": exports, "imports": imports },
        });
        let config = config.to_string().into_bytes();
        let manifest = Manifest {
            schema_version: 2,
            media_type: Some(MANIFEST.to_owned()),
            artifact_type: None,
            config: Descriptor::new(WASM_CONFIG, digest_of(&config), config.len()),
            layers: vec![Descriptor::new(WASM_LAYER, layer, component.len())],
            subject: None,
            annotations: [("org.opencontainers.image.created".to_owned(), created.clone())].into(),
        };
        Self { config, manifest: json!(manifest).to_string().into_bytes() }
    }
}

pub(crate) fn digest_of(bytes: &[u8]) -> Digest {
    Digest::new(Sha256::digest(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_made_here_is_read_here() {
        let artifact = Artifact::of_component(b"\0asm", &ComponentDescription::default());
        let layer = component_layer(&artifact.manifest, 4).unwrap();
        assert_eq!((layer.digest, layer.size), (digest_of(b"\0asm"), 4));
        let error = component_layer(&artifact.manifest, 3).unwrap_err();
        assert_eq!(error, ArtifactError::TooLarge { size: 4, limit: 3 });
    }

    #[test]
    fn other_manifests_are_refused() {
        let digest = digest_of(b"");
        let config = json!({ "mediaType": "application/vnd.oci.image.config.v1+json", "digest": format!("sha256:{digest}"), "size": 0 });
        let layer = |media_type: &str, digest: &str| json!({ "mediaType": media_type, "digest": digest, "size": 0 });
        for (document, words) in [
            (json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [] }), "an index"),
            (json!({ "schemaVersion": 2, "config": config, "layers": [] }), "its layers: none"),
            (
                json!({ "schemaVersion": 2, "config": config, "layers": [layer("application/gzip", "sha256:1")] }),
                "has 0 layers of type application/wasm",
            ),
            (json!({ "schemaVersion": 2, "config": config, "layers": [layer(WASM_LAYER, "sha512:1")] }), "sha512:1"),
            (json!([]), "cannot be read"),
        ] {
            let error = component_layer(document.to_string().as_bytes(), 10).unwrap_err().to_string();
            assert!(error.contains(words), "{document}: {error}");
        }
    }
}
