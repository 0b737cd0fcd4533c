//! What a pod needs besides its node's own resources: volumes, and devices through resource claims.

use std::sync::Arc;

use crate::symbols::Sym;

/// A volume whose source matters to scheduling; the others (`emptyDir`, `configMap`, ...) are left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Volume {
    /// The name within the pod.
    pub name: Arc<str>,
    /// What it is.
    pub source: VolumeSource,
}

/// `spec.volumes[]`, by what scheduling looks at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VolumeSource {
    /// `persistentVolumeClaim.claimName`.
    Claim(Arc<str>),
    /// A generic ephemeral volume: its claim is called `<pod>-<volume>`.
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
    /// An inline CSI volume, by driver.
    Csi {
        /// `driver`.
        driver: Arc<str>,
    },
    /// Another in-tree type that a CSI driver took over: the field's name (`azureDisk`, `cinder`, ...) and what names
    /// the volume there.
    InTree {
        /// The name of the field.
        field: Arc<str>,
        /// What names the volume there.
        id: Arc<str>,
    },
}

/// `spec.resourceClaims[]`, resolved through `status.resourceClaimStatuses`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodClaim {
    /// The name within the pod.
    pub name: Arc<str>,
    /// Made from a template for this pod; the claim must then be owned by it.
    pub from_template: bool,
    /// Which claim.
    pub claim: ClaimName,
}

/// The `ResourceClaim` behind a claim of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ClaimName {
    /// Its name.
    Known(Arc<str>),
    /// The claim was not generated yet.
    Pending,
    /// The status says that this pod needs no claim.
    NotNeeded,
}

/// A container's request of an extended resource, which devices may serve (KEP-5004).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtendedRequest {
    /// Position among init containers followed by containers.
    pub container_idx: u32,
    /// `spec.containers[].name`.
    pub container_name: Arc<str>,
    /// What kind of container.
    pub kind: ContainerKind,
    /// The resource.
    pub resource: Sym,
    /// Position of the resource among the container's request names in alphabetical order.
    pub request_idx: u32,
    /// How much is requested.
    pub amount: i64,
}

/// When a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerKind {
    /// Ends before the others start.
    Init,
    /// An init container with `restartPolicy: Always`.
    Sidecar,
    /// Runs after the init containers.
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
