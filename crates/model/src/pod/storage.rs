//! The storage and the devices that a pod needs: volumes, and devices through resource claims.

use std::sync::Arc;

use crate::symbols::Sym;

/// A volume whose source matters to scheduling. Other volumes (`emptyDir`, `configMap`, ...) are left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Volume {
    /// The name within the pod.
    pub name: Arc<str>,
    /// The source of the volume.
    pub source: VolumeSource,
}

/// The source in `spec.volumes[]`, as far as it matters to scheduling.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VolumeSource {
    /// `persistentVolumeClaim.claimName`.
    Claim(Arc<str>),
    /// A generic ephemeral volume. Its claim is called `<pod>-<volume>`.
    Ephemeral,
    /// `gcePersistentDisk`.
    GcePersistentDisk {
        /// `pdName`.
        pd_name: Arc<str>,
        /// `readOnly`.
        read_only: bool,
    },
    /// `awsElasticBlockStore`.
    AwsElasticBlockStore {
        /// `volumeID`.
        volume_id: Arc<str>,
    },
    /// `iscsi`.
    Iscsi {
        /// `iqn`.
        iqn: Arc<str>,
        /// `readOnly`.
        read_only: bool,
    },
    /// `rbd`.
    Rbd {
        /// `monitors`.
        monitors: Vec<Arc<str>>,
        /// `pool`.
        pool: Arc<str>,
        /// `image`.
        image: Arc<str>,
        /// `readOnly`.
        read_only: bool,
    },
    /// An inline CSI volume.
    Csi {
        /// `driver`.
        driver: Arc<str>,
    },
    /// A volume of another in-tree type that is migrated to a CSI driver (`azureDisk`, `cinder`, ...).
    InTree {
        /// The name of the field.
        field: Arc<str>,
        /// The text that identifies the volume in that field.
        id: Arc<str>,
    },
}

/// `spec.resourceClaims[]`, resolved through `status.resourceClaimStatuses`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodClaim {
    /// The name within the pod.
    pub name: Arc<str>,
    /// Whether the claim is made from a template for this pod. The pod must then own the claim.
    pub from_template: bool,
    /// The claim.
    pub claim: ClaimName,
}

/// The name of the `ResourceClaim` for a claim of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClaimName {
    /// The claim has this name.
    Known(Arc<str>),
    /// The claim was not generated yet.
    Pending,
    /// The status says that this pod needs no claim.
    NotNeeded,
}

/// A container's request of an extended resource, which devices may serve (KEP-5004).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtendedRequest {
    /// The position among init containers followed by containers.
    pub container_idx: u32,
    /// `spec.containers[].name`.
    pub container_name: Arc<str>,
    /// The kind of container.
    pub kind: ContainerKind,
    /// The resource.
    pub resource: Sym,
    /// The position of the resource among the container's request names in alphabetical order.
    pub request_idx: u32,
    /// The requested amount.
    pub amount: i64,
}

/// The kind of a container, which decides when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerKind {
    /// An init container, which ends before the other containers start.
    Init,
    /// A sidecar: an init container with `restartPolicy: Always`.
    Sidecar,
    /// A regular container, which runs after the init containers.
    Regular,
}

/// The controller that owns a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// `apiVersion`.
    pub api_version: Arc<str>,
    /// `kind`.
    pub kind: Arc<str>,
    /// `name`.
    pub name: Arc<str>,
    /// `uid`.
    pub uid: Arc<str>,
}
