//! The phases of volumes: available, bound, released; and what becomes of a volume whose claim is gone.

use std::sync::Arc;

use serde_json::Value;

use super::owners;
use super::volume_claims::BOUND_BY_CONTROLLER;
use super::volume_match::claim_key;
use super::{Controller, Observed, VOLUME_CLAIMS, VOLUMES, annotation, change, kind, remove_annotation};
use crate::api::Api;
use crate::object::{Object, as_map, child_mut, text};
use crate::status::Answer;

/// On volumes that were made for a claim: by whom.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// Keeps the phases of volumes; its keys are volumes.
pub(super) struct VolumeKeeper;

impl Controller for VolumeKeeper {
    fn concerned(&self, api: &Api, observed: &Observed<'_>) -> Vec<String> {
        match observed.collection {
            VOLUMES if !observed.gone => vec![observed.object.name().to_owned()],
            VOLUME_CLAIMS if observed.gone => {
                let claim = observed.key();
                let (volumes, _) = api.store.collection(VOLUMES).list("");
                let is_its = |volume: &&Arc<Object>| claim_key(&volume.value).as_ref() == Some(&claim);
                volumes.iter().filter(is_its).map(|volume| volume.name().to_owned()).collect()
            }
            VOLUME_CLAIMS => {
                let volume = text(&observed.object.value, "/spec/volumeName");
                if volume.is_empty() { Vec::new() } else { vec![volume.to_owned()] }
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, api: &Api, name: &str) -> Answer<()> {
        let volumes = api.store.collection(VOLUMES);
        let Some(volume) = volumes.get(name) else { return Ok(()) };
        let uid = text(&volume.value, "/spec/claimRef/uid");
        let Some(claim_key) = claim_key(&volume.value).filter(|_| !uid.is_empty()) else {
            set_phase(api, name, "Available");
            return Ok(());
        };
        let claim = api.store.collection(VOLUME_CLAIMS).get(&claim_key);
        match claim.filter(|claim| text(&claim.value, "/metadata/uid") == uid) {
            None => release(api, &volume),
            Some(claim) => match text(&claim.value, "/spec/volumeName") {
                // The claim is about to be bound to this volume.
                "" => Ok(()),
                bound if bound == name => {
                    set_phase(api, name, "Bound");
                    Ok(())
                }
                _ => give_back(api, &volume),
            },
        }
    }
}

/// The claim is gone: the volume stays with its data, or goes too.
fn release(api: &Api, volume: &Object) -> Answer<()> {
    set_phase(api, volume.name(), "Released");
    if text(&volume.value, "/spec/persistentVolumeReclaimPolicy") == "Delete" {
        let kind = kind(api, "", "persistentvolumes")?;
        return owners::remove(api, &kind, volume);
    }
    Ok(())
}

/// The claim has found another volume: one that was made for it goes, others forget it.
fn give_back(api: &Api, volume: &Object) -> Answer<()> {
    if !annotation(&volume.value, PROVISIONED_BY).is_empty() {
        return release(api, volume);
    }
    let uid = text(&volume.value, "/spec/claimRef/uid");
    change(&api.store.collection(VOLUMES), volume.name(), |value| {
        if text(value, "/spec/claimRef/uid") == uid {
            forget_claim(value);
        }
    });
    Ok(())
}

/// Removes a reference that a controller has made; of a reservation by hand only the uid goes.
fn forget_claim(volume: &mut Value) {
    let is_by_controller = !annotation(volume, BOUND_BY_CONTROLLER).is_empty();
    let spec = child_mut(volume, "spec");
    if is_by_controller {
        spec.remove("claimRef");
        remove_annotation(volume, BOUND_BY_CONTROLLER);
    } else if let Some(reference) = spec.get_mut("claimRef") {
        as_map(reference).remove("uid");
    }
}

fn set_phase(api: &Api, name: &str, phase: &str) {
    change(&api.store.collection(VOLUMES), name, |volume| {
        child_mut(volume, "status").insert("phase".to_owned(), phase.into());
    });
}
