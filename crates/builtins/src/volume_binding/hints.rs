//! Queueing hints: the events that may help to bind a pod's claims
//! (`pkg/scheduler/framework/plugins/volumebinding/volume_binding.go` in kube-scheduler).

use berth_framework::{EventSubject, HintCall};
use berth_model::{Pod, pod::VolumeSource, quantity::Quantity};

use crate::{
    hints::{decoded, uses_claim},
    storage::{CsiDriver, CsiNode, CsiStorageCapacity, StorageClass},
};

pub(super) fn may_help(call: &HintCall<'_>) -> bool {
    let EventSubject::Object { key, old, new } = call.subject else { return true };
    match key.kind.as_str() {
        "StorageClass" => {
            let [old, new] = [old, new].map(decoded::<StorageClass>);
            old.zip(new).is_none_or(|(old, new)| old.allowed_topologies != new.allowed_topologies)
        }
        "PersistentVolumeClaim" => uses_claim(call.pod, key, &call.table.symbols),
        "CSINode" => {
            let [old, new] = [old, new].map(decoded::<CsiNode>);
            old.zip(new).is_none_or(|(old, new)| !old.migrated_plugins().eq(new.migrated_plugins()))
        }
        "CSIDriver" => {
            let [old, new] = [old, new].map(decoded::<CsiDriver>);
            old.zip(new).is_none_or(|(old, new)| has_inline_volume(call.pod, &key.name) && no_longer_counts(&old, &new))
        }
        "CSIStorageCapacity" => {
            let [old, new] = [old, new].map(decoded::<CsiStorageCapacity>);
            old.zip(new).is_none_or(|(old, new)| has_grown(&old, &new))
        }
        _ => true,
    }
}

fn has_inline_volume(pod: &Pod, of_driver: &str) -> bool {
    let mut sources = pod.volumes.iter().map(|volume| &volume.source);
    sources.any(|source| matches!(source, VolumeSource::Csi { driver } if **driver == *of_driver))
}

/// Whether the scheduler no longer takes the driver's capacity into account.
fn no_longer_counts(old: &CsiDriver, new: &CsiDriver) -> bool {
    old.spec.storage_capacity == Some(true) && new.spec.storage_capacity != Some(true)
}

fn has_grown(old: &CsiStorageCapacity, new: &CsiStorageCapacity) -> bool {
    let limit = |it: &CsiStorageCapacity| it.maximum_volume_size.as_ref().or(it.capacity.as_ref()).map(Quantity::value);
    limit(new).is_some_and(|new| limit(old).is_none_or(|old| new > old))
}
