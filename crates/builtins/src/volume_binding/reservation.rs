//! The volumes that Reserve chose for a pod. PreBind writes the choice to the API server and waits until the
//! PersistentVolume controller has bound every claim; Unreserve undoes it.

use berth_framework::{Effect, ObjectRef, PatchType};
use berth_model::ClusterTable;
use serde_json::{Value, json};

use super::{
    claims::{Claims, SELECTED_NODE},
    matching::PodVolumes,
    version::is_newer,
    volumes::Volumes,
};
use crate::storage::{
    ClaimRef, PersistentVolume, PersistentVolumeClaim, migrated_affinity, migrated_handle::TranslationError,
    node_terms::NodeTerms,
};

/// The annotation of a volume that no user reserved. A volume with the annotation becomes available again without its
/// claim.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

#[derive(Debug)]
pub(super) struct VolumeReservation {
    node: String,
    chosen: Vec<StaticBinding>,
    provisioned: Vec<ObjectPatch>,
    /// Whether PreBind has returned the patches.
    is_written: bool,
}

/// An existing volume for a claim.
#[derive(Debug)]
struct StaticBinding {
    volume: ObjectPatch,
    /// Namespace and name.
    claim: (String, String),
}

/// A patch that PreBind returns.
#[derive(Debug)]
struct ObjectPatch {
    namespace: String,
    name: String,
    /// The resource version of the object that the patch was made for.
    base: String,
    /// The patch without its `metadata.resourceVersion`.
    patch: Value,
    /// Whether the patch changes the object. Only versions after `base` then show the effect of the patch.
    changes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BindingProgress {
    /// All claims are bound.
    Done,
    Waiting,
}

/// The reason why the volumes of a pod cannot be bound.
#[derive(Debug, thiserror::Error)]
pub(super) enum BindingError {
    #[error(transparent)]
    Translation(#[from] TranslationError),
    #[error("failed to check binding: could not find v1.PersistentVolume {0:?}")]
    VolumeNotFound(String),
    #[error("failed to check binding: could not find v1.PersistentVolumeClaim \"{0}\"")]
    ClaimNotFound(String),
    #[error("failed to check provisioning pvc: could not find v1.PersistentVolumeClaim \"{0}\"")]
    ProvisionedClaimNotFound(String),
    #[error("ClaimRef got reset for pv {0:?}")]
    ClaimRefReset(String),
    #[error("selectedNode annotation reset for PVC {0:?}")]
    SelectedNodeReset(String),
    #[error("provisioning failed for PVC {0:?}")]
    ProvisioningFailed(String),
    #[error("failed to get node {0:?}: node {0:?} not found")]
    NodeNotFound(String),
    #[error("pv {volume:?} node affinity doesn't match node {node:?}: no matching NodeSelectorTerms")]
    NodeAffinity { volume: String, node: String },
}

impl VolumeReservation {
    pub(super) fn take(node: &str, pod_volumes: PodVolumes, volumes: &mut Volumes, claims: &mut Claims) -> Self {
        let mut chosen = Vec::new();
        for (claim, entry) in pod_volumes.static_bindings {
            let has_uid = entry.has_claim_uid(&claim);
            let patch = volume_patch(&entry.volume, &claim);
            if !has_uid {
                volumes.assume(entry.name(), claim_ref(&claim));
            }
            let base = entry.volume.metadata.resource_version.clone();
            let volume =
                ObjectPatch { namespace: String::new(), name: entry.name().to_owned(), base, patch, changes: !has_uid };
            chosen
                .push(StaticBinding { volume, claim: (claim.metadata.namespace.clone(), claim.metadata.name.clone()) });
        }
        let mut provisioned = Vec::new();
        for claim in pod_volumes.dynamic_provisions {
            let metadata = &claim.metadata;
            let changes = metadata.annotations.get(SELECTED_NODE).is_none_or(|selected| selected != node);
            if changes {
                claims.assume_node(&claim, node);
            }
            provisioned.push(ObjectPatch {
                namespace: metadata.namespace.clone(),
                name: metadata.name.clone(),
                base: metadata.resource_version.clone(),
                patch: json!({ "metadata": { "annotations": { SELECTED_NODE: node } } }),
                changes,
            });
        }
        Self { node: node.to_owned(), chosen, provisioned, is_written: false }
    }

    pub(super) fn undo(self, volumes: &mut Volumes, claims: &mut Claims) {
        self.chosen.iter().filter(|it| it.volume.changes).for_each(|it| volumes.restore(&it.volume.name));
        let provisioned = self.provisioned.iter().filter(|it| it.changes);
        provisioned.for_each(|it| claims.restore(&it.namespace, &it.name));
    }

    /// The patches, volumes first. The second call returns no patches.
    pub(super) fn take_patches(&mut self) -> Vec<Effect> {
        if std::mem::replace(&mut self.is_written, true) {
            return Vec::new();
        }
        let volumes = self.chosen.iter().map(|it| it.volume.effect("v1/PersistentVolume"));
        volumes.chain(self.provisioned.iter().map(|it| it.effect("v1/PersistentVolumeClaim"))).collect()
    }

    /// Whether all claims are bound.
    ///
    /// # Errors
    /// An object was changed so that a claim can no longer be bound.
    pub(super) fn progress(
        &self,
        table: &ClusterTable,
        volumes: &mut Volumes,
        claims: &Claims,
    ) -> Result<BindingProgress, BindingError> {
        for chosen in &self.chosen {
            if self.progress_of_static(chosen, table, volumes, claims)? == BindingProgress::Waiting {
                return Ok(BindingProgress::Waiting);
            }
        }
        for written in &self.provisioned {
            if self.progress_of_provisioned(written, table, volumes, claims)? == BindingProgress::Waiting {
                return Ok(BindingProgress::Waiting);
            }
        }
        Ok(BindingProgress::Done)
    }

    fn progress_of_static(
        &self,
        StaticBinding { volume: written, claim: (namespace, name) }: &StaticBinding,
        table: &ClusterTable,
        volumes: &mut Volumes,
        claims: &Claims,
    ) -> Result<BindingProgress, BindingError> {
        let volume = volumes
            .observed(&written.name)
            .cloned()
            .ok_or_else(|| BindingError::VolumeNotFound(written.name.clone()))?;
        let claim = claims.observed(namespace, name);
        let claim = claim.ok_or_else(|| BindingError::ClaimNotFound(format!("{namespace}/{name}")))?;
        if !written.is_visible_in(&volume.metadata.resource_version) {
            return Ok(BindingProgress::Waiting);
        }
        self.check_node_affinity(&volume, table, volumes)?;
        if volume.spec.claim_ref.as_ref().is_none_or(|claim_ref| claim_ref.uid.is_empty()) {
            return Err(BindingError::ClaimRefReset(written.name.clone()));
        }
        Ok(if claim.is_fully_bound() { BindingProgress::Done } else { BindingProgress::Waiting })
    }

    fn progress_of_provisioned(
        &self,
        written: &ObjectPatch,
        table: &ClusterTable,
        volumes: &mut Volumes,
        claims: &Claims,
    ) -> Result<BindingProgress, BindingError> {
        let name = &written.name;
        let claim = claims.observed(&written.namespace, name);
        let claim =
            claim.ok_or_else(|| BindingError::ProvisionedClaimNotFound(format!("{}/{name}", written.namespace)))?;
        if !written.is_visible_in(&claim.metadata.resource_version) {
            return Ok(BindingProgress::Waiting);
        }
        if claim.metadata.annotations.is_empty() {
            return Err(BindingError::SelectedNodeReset(name.clone()));
        }
        if claim.metadata.annotations.get(SELECTED_NODE) != Some(&self.node) {
            return Err(BindingError::ProvisioningFailed(name.clone()));
        }
        if !claim.spec.volume_name.is_empty() {
            // The watch may show the claim before it shows the volume.
            let Some(volume) = volumes.observed(&claim.spec.volume_name).cloned() else {
                return Ok(BindingProgress::Waiting);
            };
            self.check_node_affinity(&volume, table, volumes)?;
        }
        Ok(if claim.is_fully_bound() { BindingProgress::Done } else { BindingProgress::Waiting })
    }

    fn check_node_affinity(
        &self,
        volume: &PersistentVolume,
        table: &ClusterTable,
        volumes: &mut Volumes,
    ) -> Result<(), BindingError> {
        let node = table.symbols.lookup(&self.node).and_then(|name| table.find(name));
        let node = node.ok_or_else(|| BindingError::NodeNotFound(self.node.clone()))?;
        let migrated = migrated_affinity::translate(volume).filter(|(migration, _)| {
            volumes.migrated_nodes.of(migration.plugin).is_some_and(|nodes| nodes.contains(node))
        });
        let migrated = migrated.map(|(_, affinity)| affinity).transpose()?.flatten();
        let required = volume.spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
        let required = migrated.as_ref().or(required);
        let node_terms = volumes.node_terms.intern(NodeTerms::of_volume(required));
        if volumes.node_terms.matching(node_terms, table).contains(node) {
            return Ok(());
        }
        Err(BindingError::NodeAffinity { volume: volume.metadata.name.clone(), node: self.node.clone() })
    }

    /// An effect that asks for another PreBind call when an object of [`Self::progress`] has changed.
    pub(super) fn wait(&self, timeout_ms: u64, claims: &Claims) -> Effect {
        let volume = |name: &str| object("v1/PersistentVolume", "", name);
        let claim = |namespace: &str, name: &str| object("v1/PersistentVolumeClaim", namespace, name);
        let mut objects = Vec::new();
        for StaticBinding { volume: written, claim: (namespace, name) } in &self.chosen {
            objects.extend([volume(&written.name), claim(namespace, name)]);
        }
        for ObjectPatch { namespace, name, .. } in &self.provisioned {
            objects.push(claim(namespace, name));
            let volume_name = claims.observed(namespace, name).map(|claim| &claim.spec.volume_name);
            objects.extend(volume_name.filter(|name| !name.is_empty()).map(|name| volume(name)));
        }
        let timeout_message = "binding volumes: context deadline exceeded".to_owned();
        Effect::Wait { objects, timeout_ms, timeout_message }
    }
}

impl ObjectPatch {
    fn effect(&self, kind: &str) -> Effect {
        let mut patch = self.patch.clone();
        if let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut)
            && !self.base.is_empty()
        {
            metadata.insert("resourceVersion".to_owned(), self.base.clone().into());
        }
        Effect::Patch {
            kind: kind.to_owned(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            subresource: None,
            patch: patch.to_string().into_bytes(),
            patch_type: PatchType::Merge,
        }
    }

    /// Whether this version of the object includes the patch.
    fn is_visible_in(&self, version: &str) -> bool {
        !self.changes || is_newer(version, &self.base)
    }
}

fn object(kind: &str, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

fn claim_ref(claim: &PersistentVolumeClaim) -> ClaimRef {
    let metadata = &claim.metadata;
    ClaimRef { namespace: metadata.namespace.clone(), name: metadata.name.clone(), uid: metadata.uid.clone() }
}

/// Reserves the volume for the claim. A volume that a user reserved is not marked as the controller's choice.
fn volume_patch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Value {
    let metadata = &claim.metadata;
    let mut claim_ref = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata.namespace,
        "name": metadata.name,
        "uid": metadata.uid,
    });
    let known = volume.spec.claim_ref.as_ref();
    let has_uid = known.is_some_and(|known| known.is_to(claim) && known.uid == metadata.uid);
    if !has_uid && let Some(fields) = claim_ref.as_object_mut() {
        fields.insert("resourceVersion".to_owned(), metadata.resource_version.clone().into());
    }
    let is_reserved = known.is_some_and(|known| known.is_to(claim));
    let annotations = &volume.metadata.annotations;
    let metadata = if is_reserved || annotations.contains_key(BOUND_BY_CONTROLLER) {
        json!({})
    } else {
        json!({ "annotations": { BOUND_BY_CONTROLLER: "yes" } })
    };
    json!({ "metadata": metadata, "spec": { "claimRef": claim_ref } })
}
