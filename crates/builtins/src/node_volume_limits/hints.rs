//! Queueing hints: the events that may make room for a pod's volumes
//! (`pkg/scheduler/framework/plugins/nodevolumelimits/csi.go` in kube-scheduler).

use berth_framework::{EventSubject, HintCall};
use berth_model::{
    Pod,
    pod::{Volume, VolumeSource},
};

use crate::{
    hints::{decoded, has_place, uses_claim},
    storage::{self, CsiNode, VolumeAttachment, migration},
};

pub(super) fn may_help(call: &HintCall<'_>) -> bool {
    match call.subject {
        EventSubject::Pod { old: Some(old), new: None } => {
            has_place(old) && old.volumes.iter().any(|volume| may_be_attached(old, volume))
        }
        EventSubject::Object { key, old, new } => match key.kind.as_str() {
            "CSINode" => {
                let [old, new] = [old, new].map(decoded::<CsiNode>);
                old.zip(new).is_none_or(|(old, new)| has_higher_limit(&old, &new))
            }
            "PersistentVolumeClaim" => uses_claim(call.pod, key, &call.table.symbols),
            "VolumeAttachment" => {
                let attachment: Option<VolumeAttachment> = decoded(old);
                attachment.is_none_or(|attachment| is_of_driver(call.pod, &attachment.spec.attacher))
            }
            _ => true,
        },
        EventSubject::Pod { .. } | EventSubject::Node { .. } | EventSubject::Hidden => true,
    }
}

/// Whether the volume is a claim, or an in-tree volume that a CSI driver took over.
fn may_be_attached(pod: &Pod, volume: &Volume) -> bool {
    storage::claim_name(pod, volume).is_some() || migration::may_be_migrated(&volume.source)
}

/// Whether a driver's limit has grown. In hints, a driver without a count has a limit of 0, although the node holds any
/// number of its volumes.
fn has_higher_limit(old: &CsiNode, new: &CsiNode) -> bool {
    let limit = |node: &CsiNode, driver: &str| {
        let mut drivers = node.spec.drivers.iter();
        drivers.find(|it| it.name == driver).and_then(|it| it.allocatable.as_ref()?.count).unwrap_or(0)
    };
    new.spec.drivers.iter().any(|driver| limit(new, &driver.name) > limit(old, &driver.name))
}

/// Whether the driver may have attached one of the pod's volumes. The driver of a claim is not looked up.
fn is_of_driver(pod: &Pod, driver: &str) -> bool {
    let takes_over = |volume: &Volume| migration::driver_of_inline(&volume.source) == Some(driver);
    pod.volumes.iter().any(|volume| matches!(volume.source, VolumeSource::Claim(_)) || takes_over(volume))
}
