//! Volumes, claims, device requests and the owner of a pod.

use std::sync::Arc;

use serde_json::Value;
use thin_vec::ThinVec;

use crate::{
    api,
    pod::{ClaimName, ContainerKind, ExtendedRequest, Owner, PodClaim, Volume, VolumeSource},
    requests::is_extended_resource_name,
    symbols::Interning,
};

/// The prefix of resource names with which a pod asks for a device class directly (KEP-5004).
const DEVICE_CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// In-tree volume types that are migrated to a CSI driver, with the field that names the volume.
const MIGRATED: [(&str, &str); 5] = [
    ("azureDisk", "diskURI"),
    ("azureFile", "shareName"),
    ("cinder", "volumeID"),
    ("portworxVolume", "volumeID"),
    ("vsphereVolume", "volumePath"),
];

pub(super) fn volumes(spec: &api::PodSpec) -> ThinVec<Volume> {
    let sources = spec.volumes.iter().filter_map(|volume| Some((text(volume, "name"), source(volume)?)));
    sources.map(|(name, source)| Volume { name, source }).collect()
}

fn source(volume: &Value) -> Option<VolumeSource> {
    if let Some(claim) = volume.get("persistentVolumeClaim") {
        return Some(VolumeSource::Claim(text(claim, "claimName")));
    }
    if volume.get("ephemeral").is_some_and(|ephemeral| !ephemeral.is_null()) {
        return Some(VolumeSource::Ephemeral);
    }
    if let Some(disk) = volume.get("gcePersistentDisk") {
        return Some(VolumeSource::GcePersistentDisk { pd_name: text(disk, "pdName"), read_only: flag(disk) });
    }
    if let Some(store) = volume.get("awsElasticBlockStore") {
        return Some(VolumeSource::AwsElasticBlockStore { volume_id: text(store, "volumeID") });
    }
    if let Some(iscsi) = volume.get("iscsi") {
        return Some(VolumeSource::Iscsi { iqn: text(iscsi, "iqn"), read_only: flag(iscsi) });
    }
    if let Some(rbd) = volume.get("rbd") {
        return Some(rbd_source(rbd));
    }
    if let Some(csi) = volume.get("csi") {
        return Some(VolumeSource::Csi { driver: text(csi, "driver") });
    }
    let (field, id) = MIGRATED.into_iter().find(|(field, _)| volume.get(field).is_some())?;
    Some(VolumeSource::InTree { field: Arc::from(field), id: text(volume.get(field)?, id) })
}

fn rbd_source(rbd: &Value) -> VolumeSource {
    let monitors = rbd.get("monitors").and_then(Value::as_array).into_iter().flatten();
    // The API server fills in the pool. A manifest that never passed the API server gets the same default pool.
    let pool = rbd.get("pool").and_then(Value::as_str).unwrap_or("rbd");
    VolumeSource::Rbd {
        monitors: monitors.filter_map(Value::as_str).map(Arc::from).collect(),
        pool: Arc::from(pool),
        image: text(rbd, "image"),
        read_only: flag(rbd),
    }
}

fn text(object: &Value, field: &str) -> Arc<str> {
    Arc::from(object.get(field).and_then(Value::as_str).unwrap_or_default())
}

fn flag(source: &Value) -> bool {
    source.get("readOnly").and_then(Value::as_bool).unwrap_or(false)
}

pub(super) fn resource_claims(pod: &api::Pod) -> ThinVec<PodClaim> {
    pod.spec.resource_claims.iter().map(|claim| resource_claim(claim, &pod.status)).collect()
}

fn resource_claim(claim: &api::PodResourceClaim, status: &api::PodStatus) -> PodClaim {
    let name = Arc::from(claim.name.as_str());
    if let Some(known) = &claim.resource_claim_name {
        return PodClaim { name, from_template: false, claim: ClaimName::Known(Arc::from(known.as_str())) };
    }
    let entry = status.resource_claim_statuses.iter().find(|entry| entry.name == claim.name);
    let claim = match entry.map(|entry| entry.resource_claim_name.as_deref()) {
        None => ClaimName::Pending,
        Some(None) => ClaimName::NotNeeded,
        Some(Some(generated)) => ClaimName::Known(Arc::from(generated)),
    };
    PodClaim { name, from_template: true, claim }
}

pub(super) fn extended_requests(spec: &api::PodSpec, symbols: &mut Interning<'_>) -> ThinVec<ExtendedRequest> {
    let mut all = ThinVec::new();
    let init = spec.init_containers.iter().map(|container| {
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        (container, if is_sidecar { ContainerKind::Sidecar } else { ContainerKind::Init })
    });
    let regular = spec.containers.iter().map(|container| (container, ContainerKind::Regular));
    for (container_idx, (container, kind)) in (0u32..).zip(init.chain(regular)) {
        for (request_idx, (resource, amount)) in (0u32..).zip(&container.resources.requests) {
            if amount.is_zero() || !(is_extended_resource_name(resource) || resource.starts_with(DEVICE_CLASS_PREFIX)) {
                continue;
            }
            all.push(ExtendedRequest {
                container_idx,
                container_name: Arc::from(container.name.as_str()),
                kind,
                resource: symbols.intern(resource),
                request_idx,
                amount: amount.value(),
            });
        }
    }
    all
}

pub(super) fn owner(metadata: &api::ObjectMeta) -> Option<Owner> {
    let owner = metadata.owner_references.iter().find(|owner| owner.controller)?;
    Some(Owner {
        api_version: Arc::from(owner.api_version.as_str()),
        kind: Arc::from(owner.kind.as_str()),
        name: Arc::from(owner.name.as_str()),
        uid: Arc::from(owner.uid.as_str()),
    })
}
