//! The name by which a driver knows a volume. A volume that two pods use is attached once.
//!
//! Only the parts of claims and volumes that counting needs are kept, because a component that holds tens of thousands
//! of whole objects runs out of memory.

use std::sync::Arc;

use berth_model::pod::Volume;

use crate::storage::{
    PersistentVolume, PersistentVolumeClaim, StorageClass, migrated_handle,
    migration::{self, Scope},
};

/// A CSI driver. A driver may have replaced an in-tree plugin. If the volumes of this plugin count only on nodes where
/// the plugin was migrated, they are kept separately.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Driver {
    pub(super) name: Arc<str>,
    /// The in-tree plugin that the driver replaced, if the volumes of this plugin are kept separately.
    pub(super) migrated: Option<&'static str>,
}

/// A volume that a CSI driver attaches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct VolumeId {
    pub(super) driver: Driver,
    pub(super) handle: Arc<str>,
}

/// The parts of a `PersistentVolume` that counting needs.
#[derive(Debug)]
pub(super) struct CountedVolume {
    /// The volume's id; `None` if no CSI driver attaches it.
    pub(super) id: Option<VolumeId>,
    pub(super) is_csi: bool,
}

/// The parts of a `PersistentVolumeClaim` that counting needs.
#[derive(Debug)]
pub(super) struct CountedClaim {
    /// The volume's name; empty until the claim is bound.
    pub(super) volume_name: Box<str>,
    /// The class; empty if the claim names no class.
    pub(super) class: Box<str>,
    /// The uid of the claim's controller.
    pub(super) owner: Option<Box<str>>,
}

impl From<&PersistentVolume> for CountedVolume {
    fn from(volume: &PersistentVolume) -> Self {
        Self { id: VolumeId::of_volume(volume), is_csi: volume.spec.csi.is_some() }
    }
}

impl From<&PersistentVolumeClaim> for CountedClaim {
    fn from(claim: &PersistentVolumeClaim) -> Self {
        let owner = claim.owner().map(Box::from);
        Self { volume_name: claim.spec.volume_name.as_str().into(), class: claim.class().into(), owner }
    }
}

impl Driver {
    pub(super) fn csi(name: &str) -> Self {
        Self { name: Arc::from(name), migrated: None }
    }

    fn of(migration: &migration::Migration) -> Self {
        let migrated = match migration.scope {
            Scope::AllNodes => None,
            Scope::NamedByCsiNode => Some(migration.plugin),
        };
        Self { name: Arc::from(migration.driver), migrated }
    }
}

impl VolumeId {
    /// The id of a volume; `None` if no CSI driver attaches the volume, or if the volume cannot be translated for its
    /// driver.
    fn of_volume(volume: &PersistentVolume) -> Option<Self> {
        if let Some(csi) = &volume.spec.csi {
            let is_complete = !csi.driver.is_empty() && !csi.volume_handle.is_empty();
            let driver = Driver::csi(&csi.driver);
            return is_complete.then(|| Self { driver, handle: Arc::from(csi.volume_handle.as_str()) });
        }
        let (migration, handle) = migrated_handle::of_volume(volume)?;
        Some(Self { driver: Driver::of(migration), handle: Arc::from(handle.ok()?) })
    }

    /// The id of a claim's volume that is not provisioned yet, or whose object is missing. The claim identifies the
    /// volume.
    pub(super) fn of_claim(namespace: &str, name: &str, class: &StorageClass) -> Option<Self> {
        // No handle from a driver contains a zero byte.
        let handle = format!("\0{namespace}/{name}");
        let driver = match migration::of_plugin(&class.provisioner) {
            Some(migration) => Driver::of(migration),
            None => Driver::csi(&class.provisioner),
        };
        (!class.provisioner.is_empty()).then(|| Self { driver, handle: Arc::from(handle) })
    }

    /// The id of a volume that is defined in a pod of this namespace itself.
    pub(super) fn of_inline(volume: &Volume, namespace: &str) -> Option<Self> {
        let (migration, handle) = migrated_handle::of_inline(volume, namespace)?;
        Some(Self { driver: Driver::of(migration), handle: Arc::from(handle) })
    }
}
