//! What a volume is called at its driver: two pods that use one volume need it attached once.
//!
//! Claims and volumes are cut down to what counting needs when they are decoded: there are tens of thousands of them.

use std::sync::Arc;

use serde::Deserialize;

use crate::storage::{PersistentVolume, PersistentVolumeClaim, StorageClass, migration};

/// A CSI driver. Volumes of an in-tree plugin that it took over are kept apart, since they count only where the plugin
/// was migrated.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Driver {
    pub(super) name: Arc<str>,
    pub(super) migrated: Option<&'static str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct VolumeId {
    pub(super) driver: Driver,
    pub(super) handle: Arc<str>,
}

/// What counting needs of a `PersistentVolume`.
#[derive(Debug, Deserialize)]
#[serde(from = "PersistentVolume")]
pub(super) struct CountedVolume {
    /// `None` if no CSI driver has to do with it.
    pub(super) id: Option<VolumeId>,
    pub(super) is_csi: bool,
}

/// What counting needs of a `PersistentVolumeClaim`.
#[derive(Debug, Deserialize)]
#[serde(from = "PersistentVolumeClaim")]
pub(super) struct CountedClaim {
    /// Empty until it is bound.
    pub(super) volume_name: Box<str>,
    /// Empty if it names none.
    pub(super) class: Box<str>,
    /// The uid of its controller.
    pub(super) owner: Option<Box<str>>,
}

impl From<PersistentVolume> for CountedVolume {
    fn from(volume: PersistentVolume) -> Self {
        Self { id: VolumeId::of_volume(&volume), is_csi: volume.spec.csi.is_some() }
    }
}

impl From<PersistentVolumeClaim> for CountedClaim {
    fn from(claim: PersistentVolumeClaim) -> Self {
        let class = claim.class().into();
        let owner = claim.owner().map(Box::from);
        Self { volume_name: claim.spec.volume_name.into(), class, owner }
    }
}

impl Driver {
    pub(super) fn csi(name: &str) -> Self {
        Self { name: Arc::from(name), migrated: None }
    }

    fn of(migration: &migration::Migration) -> Self {
        Self { name: Arc::from(migration.driver), migrated: Some(migration.plugin) }
    }
}

impl VolumeId {
    /// `None` if no CSI driver has to do with it.
    fn of_volume(volume: &PersistentVolume) -> Option<Self> {
        if let Some(csi) = &volume.spec.csi {
            let is_complete = !csi.driver.is_empty() && !csi.volume_handle.is_empty();
            let driver = Driver::csi(&csi.driver);
            return is_complete.then(|| Self { driver, handle: Arc::from(csi.volume_handle.as_str()) });
        }
        let (migration, id) = volume.spec.migration()?;
        Some(Self { driver: Driver::of(migration), handle: Arc::from(id) })
    }

    /// A volume that is still to be made, or whose object is gone, goes by the name of its claim.
    pub(super) fn of_claim(namespace: &str, name: &str, class: &StorageClass) -> Option<Self> {
        // No driver hands out a name with a zero byte in it.
        let handle = format!("\0{namespace}/{name}");
        let driver = match migration::of_plugin(&class.provisioner) {
            Some(migration) => Driver::of(migration),
            None => Driver::csi(&class.provisioner),
        };
        (!class.provisioner.is_empty()).then(|| Self { driver, handle: Arc::from(handle) })
    }

    /// A volume that stands in the pod itself.
    pub(super) fn of_inline(source: &berth_model::pod::VolumeSource) -> Option<Self> {
        let (migration, id) = migration::of_inline(source)?;
        Some(Self { driver: Driver::of(migration), handle: Arc::from(id) })
    }
}
