//! What a pod needs besides its node's own resources: volumes, and devices through resource claims.

use std::sync::Arc;

use crate::symbols::Sym;

/// A volume whose source matters to scheduling; the others (`emptyDir`, `configMap`, ...) are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    pub name: Arc<str>,
    pub source: VolumeSource,
}

/// `spec.volumes[]`, by what scheduling looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeSource {
    /// `persistentVolumeClaim.claimName`.
    Claim(Arc<str>),
    /// A generic ephemeral volume: its claim is called `<pod>-<volume>`.
    Ephemeral,
    GcePersistentDisk {
        pd_name: Arc<str>,
        read_only: bool,
    },
    AwsElasticBlockStore {
        volume_id: Arc<str>,
    },
    Iscsi {
        iqn: Arc<str>,
        read_only: bool,
    },
    Rbd {
        monitors: Vec<Arc<str>>,
        pool: Arc<str>,
        image: Arc<str>,
        read_only: bool,
    },
    /// An inline CSI volume, by driver.
    Csi {
        driver: Arc<str>,
    },
    /// Another in-tree type that a CSI driver took over: the field's name (`azureDisk`, `cinder`, ...) and what names
    /// the volume there.
    InTree {
        field: Arc<str>,
        id: Arc<str>,
    },
}

/// `spec.resourceClaims[]`, resolved through `status.resourceClaimStatuses`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodClaim {
    /// The name within the pod.
    pub name: Arc<str>,
    /// Made from a template for this pod; the claim must then be owned by it.
    pub from_template: bool,
    pub claim: ClaimName,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimName {
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
    pub container_name: Arc<str>,
    pub kind: ContainerKind,
    pub resource: Sym,
    /// Position of the resource among the container's request names in alphabetical order.
    pub request_idx: u32,
    pub amount: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerKind {
    /// Ends before the others start.
    Init,
    /// An init container with `restartPolicy: Always`.
    Sidecar,
    Regular,
}

/// The controller that owns a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub api_version: Arc<str>,
    pub kind: Arc<str>,
    pub name: Arc<str>,
    pub uid: Arc<str>,
}
