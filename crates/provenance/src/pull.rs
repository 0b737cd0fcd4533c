//! Gets a component: from a mirror, from the registry, or from the cache if neither the mirror nor the registry
//! answers.

use std::{fmt, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use berth_model::Digest;
use tokio::time::timeout;
use tracing::debug;

use crate::{
    artifact::{ArtifactError, component_layer},
    cache::{Cache, CacheError, Known},
    manifest::{Descriptor, Index, Manifest},
    reference::{Reference, Version, parse_digest},
    registry::{Endpoint, Registries, RegistryError},
    signature::{
        BUNDLE, Keyless, MAX_SIGNATURE_BYTES, MAX_SIGNATURES, SIMPLE_CERTIFICATE, SIMPLE_CHAIN, SIMPLE_LOG_ENTRY,
        SIMPLE_SIGNATURE, SIMPLE_SIGNING, Signature, Signatures,
    },
};

/// The time limit for one attempt at one host, including all parts of the artifact: enough for 128 MiB on a slow line.
const PULL_TIME: Duration = Duration::from_secs(10 * 60);

/// Pulls components. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Puller {
    registries: Registries,
    cache: Option<Cache>,
}

/// A component that was pulled, with its signatures and digests.
#[derive(Clone, Debug)]
pub struct Pulled {
    pub component: Vec<u8>,
    /// The digest of the component.
    pub digest: Digest,
    /// The digest of the manifest that the reference named.
    pub manifest: Digest,
    pub signatures: Signatures,
    /// The host that answered; `None` for the cache.
    pub host: Option<String>,
}

/// The reason why there is no component. The text continues the reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PullError {
    #[error("cannot be pulled: {0}")]
    Registry(FailedHosts),
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
}

/// The error of each host that was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedHosts(Vec<(String, RegistryError)>);

impl fmt::Display for FailedHosts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (host, error)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(formatter, "{separator}{host} {error}")?;
        }
        Ok(())
    }
}

/// The reason why one host returned no component.
enum HostError {
    Registry(RegistryError),
    Artifact(ArtifactError),
}

impl From<RegistryError> for HostError {
    fn from(error: RegistryError) -> Self {
        Self::Registry(error)
    }
}

impl Puller {
    #[must_use]
    pub fn new(registries: Registries, cache: Option<Cache>) -> Self {
        Self { registries, cache }
    }

    #[must_use]
    pub fn registries(&self) -> &Registries {
        &self.registries
    }

    /// Asks the mirrors and then the registry, and stores the result in the cache. A component of more than `limit`
    /// bytes is not downloaded. `known` is a manifest that need not be downloaded again: if the reference still names
    /// this manifest, the result is `None`.
    ///
    /// # Errors
    /// The error says what each host answered, or why the artifact contains no component.
    pub async fn pull(
        &self,
        reference: &Reference,
        limit: u64,
        known: Option<Digest>,
    ) -> Result<Option<Pulled>, PullError> {
        let mut failed = Vec::new();
        for endpoint in self.registries.endpoints(reference) {
            let outcome = timeout(PULL_TIME, self.pull_from(&endpoint, reference, limit, known)).await;
            let timed_out =
                || Err(RegistryError::Unreachable(format!("timed out after {} s", PULL_TIME.as_secs())).into());
            match outcome.unwrap_or_else(|_| timed_out()) {
                Ok(pulled) => {
                    if let (Some(pulled), Some(cache)) = (&pulled, &self.cache) {
                        // The plugin was received. It can run even if the cache could not store it.
                        if let Err(error) = store(cache, reference, pulled) {
                            tracing::warn!(reference = %reference, "pulled, but not cached: {error}");
                        }
                    }
                    return Ok(pulled);
                }
                Err(HostError::Artifact(error)) => return Err(error.into()),
                Err(HostError::Registry(error)) => failed.push((endpoint.host, error)),
            }
        }
        Err(PullError::Registry(FailedHosts(failed)))
    }

    /// The target of the reference at the last pull; `None` if the cache does not have it.
    #[must_use]
    pub fn cached(&self, reference: &Reference, limit: u64) -> Option<Pulled> {
        let cache = self.cache.as_ref()?;
        let known = cache.known(reference)?;
        let (manifest, digest): (Digest, Digest) = (known.manifest.parse().ok()?, known.component.parse().ok()?);
        if matches!(reference.version(), Version::Digest(pinned) if pinned != manifest) {
            return None;
        }
        // The manifest decides which component is meant, not the cache.
        let layer = component_layer(&cache.blob(manifest, crate::registry::MAX_MANIFEST)?, limit).ok()?;
        if layer.digest != digest {
            return None;
        }
        let component = cache.blob(digest, limit)?;
        Some(Pulled { component, digest, manifest, signatures: known.signatures, host: None })
    }

    async fn pull_from(
        &self,
        at: &Endpoint,
        reference: &Reference,
        limit: u64,
        known: Option<Digest>,
    ) -> Result<Option<Pulled>, HostError> {
        let version = match reference.version() {
            Version::Tag(tag) => tag,
            Version::Digest(digest) => format!("sha256:{digest}"),
        };
        let (document, manifest) = self.registries.manifest(at, &version).await?;
        if known == Some(manifest) {
            return Ok(None);
        }
        let layer = component_layer(&document, limit).map_err(HostError::Artifact)?;
        let cached = self.cache.as_ref().and_then(|cache| cache.blob(layer.digest, limit));
        let component = match cached {
            Some(component) => component,
            // The size in the manifest is a further limit.
            None => self.registries.blob(at, layer.digest, layer.size.min(limit)).await?,
        };
        if let Some(cache) = &self.cache
            && let Err(error) = cache.store_blob(manifest, &document)
        {
            tracing::warn!(reference = %reference, "pulled, but not cached: {error}");
        }
        let signatures = self.signatures(at, manifest).await?;
        Ok(Some(Pulled { component, digest: layer.digest, manifest, signatures, host: Some(at.host.clone()) }))
    }

    /// All signatures of a manifest. A registry without signatures is not an error, but a registry that fails is an
    /// error.
    async fn signatures(&self, at: &Endpoint, manifest: Digest) -> Result<Signatures, RegistryError> {
        let mut found = Vec::new();
        if let Some(document) = found_or_none(self.registries.manifest(at, &format!("sha256-{manifest}.sig")).await)? {
            for layer in layers(&document.0) {
                if found.len() < MAX_SIGNATURES && layer.media_type == SIMPLE_SIGNING {
                    found.extend(self.simple_signature(at, &layer).await?);
                }
            }
        }
        for bundle in self.bundles(at, manifest).await? {
            if found.len() < MAX_SIGNATURES {
                found.extend(self.bundle(at, &bundle).await?);
            }
        }
        Ok(Signatures::new(found))
    }

    async fn simple_signature(&self, at: &Endpoint, layer: &Descriptor) -> Result<Option<Signature>, RegistryError> {
        let annotation = |name: &str| layer.annotations.get(name).cloned();
        let signature = annotation(SIMPLE_SIGNATURE).and_then(|text| BASE64_STANDARD.decode(text.trim()).ok());
        let (Some(signature), Some(digest)) = (signature, layer.digest()) else { return Ok(None) };
        let payload = self.registries.blob(at, digest, MAX_SIGNATURE_BYTES).await?;
        let keyless = annotation(SIMPLE_CERTIFICATE).map(|certificate| Keyless {
            certificate,
            chain: annotation(SIMPLE_CHAIN).unwrap_or_default(),
            log_entry: annotation(SIMPLE_LOG_ENTRY).unwrap_or_default(),
        });
        Ok(Some(Signature::Simple { payload, signature, keyless }))
    }

    /// The manifests of bundles that refer to this manifest. A registry without the referrers API has these manifests
    /// under a tag.
    async fn bundles(&self, at: &Endpoint, manifest: Digest) -> Result<Vec<Digest>, RegistryError> {
        let index = match found_or_none(self.registries.referrers(at, manifest).await) {
            Ok(Some(index)) => Some(index),
            Ok(None) => found_or_none(self.registries.manifest(at, &format!("sha256-{manifest}")).await)?
                .map(|(index, _)| index),
            // Registries without this path answer in several ways.
            Err(error @ RegistryError::Status { .. }) => {
                debug!(host = at.host, "no referrers: {error}");
                None
            }
            Err(error) => return Err(error),
        };
        let index: Option<Index> = index.and_then(|index| serde_json::from_slice(&index).ok());
        let entries = index.into_iter().flat_map(|index| index.manifests);
        let is_bundle = |entry: &Descriptor| entry.artifact_type.as_deref().is_some_and(|it| it.starts_with(BUNDLE));
        Ok(entries.filter(is_bundle).filter_map(|entry| entry.digest()).collect())
    }

    async fn bundle(&self, at: &Endpoint, manifest: &Digest) -> Result<Option<Signature>, RegistryError> {
        let (document, _) = self.registries.manifest(at, &format!("sha256:{manifest}")).await?;
        let layer = layers(&document).into_iter().find(|layer| layer.media_type.starts_with(BUNDLE));
        let Some(digest) = layer.and_then(|layer| parse_digest(&layer.digest)) else { return Ok(None) };
        let bundle = self.registries.blob(at, digest, MAX_SIGNATURE_BYTES).await?;
        Ok(String::from_utf8(bundle).ok().map(Signature::Bundle))
    }
}

/// The layers of a manifest; empty if the document is not a manifest.
fn layers(document: &[u8]) -> Vec<Descriptor> {
    serde_json::from_slice::<Manifest>(document).map(|manifest| manifest.layers).unwrap_or_default()
}

fn found_or_none<T>(answer: Result<T, RegistryError>) -> Result<Option<T>, RegistryError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(RegistryError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn store(cache: &Cache, reference: &Reference, pulled: &Pulled) -> Result<(), CacheError> {
    cache.store_blob(pulled.digest, &pulled.component)?;
    let known = Known {
        reference: reference.to_string(),
        manifest: pulled.manifest.to_string(),
        component: pulled.digest.to_string(),
        signatures: pulled.signatures.clone(),
    };
    cache.store_known(reference, &known)
}
