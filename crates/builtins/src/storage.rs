//! The common part of the four volume plugins: the storage objects of the API with the fields that scheduling reads,
//! and the errors of claims.
//!
//! The types only decode: unknown fields are skipped, and absent fields have their zero value. [`node_terms`] finds the
//! nodes from which a volume can be used, and [`migration`] lists the CSI drivers that replaced in-tree volume plugins.
//! [`migrated_handle`] and [`migrated_affinity`] translate volumes of these plugins.

pub(crate) mod migrated_affinity;
pub(crate) mod migrated_handle;
pub(crate) mod migration;
pub(crate) mod node_terms;
#[cfg(test)]
pub(crate) mod testing;

use berth_model::{
    Pod, Symbols,
    api::{LabelSelector, NodeSelector, ObjectMeta, ResourceList, null_as_default},
    pod::{Volume, VolumeSource},
    quantity::Quantity,
};
use serde::Deserialize;

use self::migration::InTreeSource;
use crate::built_in::StaticKind;

pub(crate) const CLAIM: StaticKind = StaticKind::new("v1", "PersistentVolumeClaim");
pub(crate) const VOLUME: StaticKind = StaticKind::new("v1", "PersistentVolume");
pub(crate) const CLASS: StaticKind = StaticKind::new(STORAGE, "StorageClass");
pub(crate) const CSI_NODE: StaticKind = StaticKind::new(STORAGE, "CSINode");
pub(crate) const CSI_DRIVER: StaticKind = StaticKind::new(STORAGE, "CSIDriver");
pub(crate) const CAPACITY: StaticKind = StaticKind::new(STORAGE, "CSIStorageCapacity");
pub(crate) const ATTACHMENT: StaticKind = StaticKind::new(STORAGE, "VolumeAttachment");
const STORAGE: &str = "storage.k8s.io/v1";

/// The annotation that named the class before `storageClassName` existed.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
/// The annotation that the PersistentVolume controller sets when it has bound the claim.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PersistentVolume {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: VolumeSpec,
    pub(crate) status: Phase,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct VolumeSpec {
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) capacity: ResourceList,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) access_modes: Vec<String>,
    pub(crate) claim_ref: Option<ClaimRef>,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) storage_class_name: String,
    pub(crate) volume_mode: Option<String>,
    pub(crate) volume_attributes_class_name: Option<String>,
    pub(crate) node_affinity: Option<VolumeNodeAffinity>,
    pub(crate) csi: Option<CsiSource>,
    aws_elastic_block_store: Option<InTreeSource>,
    gce_persistent_disk: Option<InTreeSource>,
    azure_disk: Option<InTreeSource>,
    azure_file: Option<InTreeSource>,
    cinder: Option<InTreeSource>,
    portworx_volume: Option<InTreeSource>,
}

/// `spec.claimRef` of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ClaimRef {
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) namespace: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) name: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) uid: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VolumeNodeAffinity {
    pub(crate) required: Option<NodeSelector>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CsiSource {
    pub(crate) driver: String,
    pub(crate) volume_handle: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Phase {
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) phase: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PersistentVolumeClaim {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: ClaimSpec,
    pub(crate) status: Phase,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ClaimSpec {
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) access_modes: Vec<String>,
    pub(crate) selector: Option<LabelSelector>,
    pub(crate) resources: ClaimResources,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) volume_name: String,
    pub(crate) storage_class_name: Option<String>,
    pub(crate) volume_mode: Option<String>,
    pub(crate) volume_attributes_class_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClaimResources {
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) requests: ResourceList,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct StorageClass {
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) provisioner: String,
    pub(crate) volume_binding_mode: Option<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) allowed_topologies: Vec<TopologyTerm>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct TopologyTerm {
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) match_label_expressions: Vec<TopologyRequirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct TopologyRequirement {
    pub(crate) key: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) values: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CsiNode {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: CsiNodeSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CsiNodeSpec {
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) drivers: Vec<CsiNodeDriver>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CsiNodeDriver {
    pub(crate) name: String,
    pub(crate) allocatable: Option<DriverLimit>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DriverLimit {
    /// The number of the driver's volumes that the node can hold; absent if the number is not limited.
    pub(crate) count: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CsiDriver {
    pub(crate) spec: CsiDriverSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CsiDriverSpec {
    /// Whether a node must have the driver before pods with the driver's volumes are placed on it.
    pub(crate) prevent_pod_scheduling_if_missing: Option<bool>,
    /// Whether the driver publishes `CSIStorageCapacity` objects, which the scheduler must then take into account.
    pub(crate) storage_capacity: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CsiStorageCapacity {
    pub(crate) storage_class_name: String,
    pub(crate) node_topology: Option<LabelSelector>,
    pub(crate) capacity: Option<Quantity>,
    pub(crate) maximum_volume_size: Option<Quantity>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VolumeAttachment {
    pub(crate) spec: AttachmentSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct AttachmentSpec {
    pub(crate) attacher: String,
    pub(crate) node_name: String,
    pub(crate) source: AttachmentSource,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct AttachmentSource {
    pub(crate) persistent_volume_name: Option<String>,
}

impl PersistentVolumeClaim {
    /// The name of the claim's StorageClass; empty if the claim names no class.
    pub(crate) fn class(&self) -> &str {
        let class = self.metadata.annotations.get(CLASS_ANNOTATION).or(self.spec.storage_class_name.as_ref());
        class.map_or("", |class| class)
    }

    /// Whether the claim has a volume and the PersistentVolume controller has finished binding it.
    pub(crate) fn is_fully_bound(&self) -> bool {
        !self.spec.volume_name.is_empty() && self.metadata.annotations.contains_key(BIND_COMPLETED)
    }

    /// The requested storage.
    pub(crate) fn request(&self) -> Option<&Quantity> {
        self.spec.resources.requests.get("storage")
    }

    /// The uid of the claim's controller.
    pub(crate) fn owner(&self) -> Option<&str> {
        self.metadata.owner_references.iter().find(|owner| owner.controller).map(|owner| owner.uid.as_str())
    }

    /// Whether the claim of a generic ephemeral volume belongs to this pod.
    pub(crate) fn is_owned_by(&self, pod_uid: &str) -> bool {
        self.owner() == Some(pod_uid)
    }
}

impl PersistentVolume {
    pub(crate) fn class(&self) -> &str {
        self.metadata.annotations.get(CLASS_ANNOTATION).unwrap_or(&self.spec.storage_class_name)
    }

    pub(crate) fn capacity(&self) -> Quantity {
        self.spec.capacity.get("storage").cloned().unwrap_or_default()
    }
}

impl ClaimRef {
    /// Whether the reference is to this claim. A reference without a uid was written before the claim existed.
    pub(crate) fn is_to(&self, claim: &PersistentVolumeClaim) -> bool {
        self.name == claim.metadata.name
            && self.namespace == claim.metadata.namespace
            && (self.uid.is_empty() || self.uid == claim.metadata.uid)
    }
}

impl StorageClass {
    /// Whether claims of the class are bound only when a pod needs them. `name` is the name of the class.
    pub(crate) fn waits_for_consumer(&self, name: &str) -> Result<bool, NoBindingMode> {
        let mode = self.volume_binding_mode.as_deref().ok_or_else(|| NoBindingMode(name.to_owned()))?;
        Ok(mode == "WaitForFirstConsumer")
    }
}

/// The claim behind a volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimName<'a> {
    pub(crate) name: std::borrow::Cow<'a, str>,
    pub(crate) is_ephemeral: bool,
}

/// The claim of a volume; `None` if the volume has no claim.
pub(crate) fn claim_name<'a>(pod: &Pod, volume: &'a Volume) -> Option<ClaimName<'a>> {
    match &volume.source {
        VolumeSource::Claim(name) => Some(ClaimName { name: (&**name).into(), is_ephemeral: false }),
        VolumeSource::Ephemeral => {
            Some(ClaimName { name: format!("{}-{}", pod.name, volume.name).into(), is_ephemeral: true })
        }
        VolumeSource::GcePersistentDisk { .. }
        | VolumeSource::AwsElasticBlockStore { .. }
        | VolumeSource::Iscsi { .. }
        | VolumeSource::Rbd { .. }
        | VolumeSource::Csi { .. }
        | VolumeSource::InTree { .. } => None,
    }
}

/// The claims that the pod names directly, in the order of its volumes.
pub(crate) fn named_claims(pod: &Pod) -> impl Iterator<Item = &str> {
    pod.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::Claim(name) => Some(&**name),
        VolumeSource::Ephemeral
        | VolumeSource::GcePersistentDisk { .. }
        | VolumeSource::AwsElasticBlockStore { .. }
        | VolumeSource::Iscsi { .. }
        | VolumeSource::Rbd { .. }
        | VolumeSource::Csi { .. }
        | VolumeSource::InTree { .. } => None,
    })
}

/// The reason why a pod cannot use a claim, in kube-scheduler's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClaimError {
    #[error("PersistentVolumeClaim had no name")]
    NoName,
    #[error("persistentvolumeclaim {0:?} not found")]
    NotFound(String),
    /// The claim of an ephemeral volume exists, but was made for another pod.
    #[error("PVC {namespace}/{claim} was not created for pod {namespace}/{pod} (pod is not owner)")]
    NotOwned { namespace: String, claim: String, pod: String },
}

impl ClaimError {
    pub(crate) fn not_found(name: &str) -> Self {
        Self::NotFound(name.to_owned())
    }

    pub(crate) fn not_owned(namespace: &str, claim: &str, pod: &str) -> Self {
        Self::NotOwned { namespace: namespace.to_owned(), claim: claim.to_owned(), pod: pod.to_owned() }
    }
}

/// A StorageClass without `volumeBindingMode`. The API server sets a default, so such an object is broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("VolumeBindingMode not set for StorageClass {0:?}")]
pub(crate) struct NoBindingMode(pub(crate) String);

pub(crate) fn namespace<'a>(pod: &Pod, symbols: &'a Symbols) -> &'a str {
    symbols.text(pod.namespace)
}
