//! The phases of volumes (available, bound, released), and the treatment of a volume after its claim was deleted.

use std::sync::Arc;

use serde_json::Value;

use super::annotations::{BOUND_BY_CONTROLLER, PROVISIONED_BY};
use super::matching::claim_key;
use crate::controllers::collections::{VOLUME_CLAIMS, VOLUMES};
use crate::controllers::controller::{Controller, Observed};
use crate::controllers::owners;
use crate::fields::json::{annotation, as_map, child_mut, remove_annotation, text};
use crate::objects::update::edit;
use crate::state::ClusterState;
use crate::status::ApiResult;
use crate::storage::Object;

/// Updates the phases of volumes. Its keys are the names of volumes.
pub(in crate::controllers) struct VolumePhaseController;

impl Controller for VolumePhaseController {
    fn affected(&self, state: &ClusterState, observed: &Observed<'_>) -> Vec<String> {
        match observed.collection {
            VOLUMES if !observed.gone => vec![observed.object.name().to_owned()],
            VOLUME_CLAIMS if observed.gone => {
                let claim = observed.key();
                let (volumes, _) = state.collection(VOLUMES).list("");
                let is_for_gone_claim = |volume: &&Arc<Object>| claim_key(&volume.value).as_ref() == Some(&claim);
                volumes.iter().filter(is_for_gone_claim).map(|volume| volume.name().to_owned()).collect()
            }
            VOLUME_CLAIMS => {
                let volume = text(&observed.object.value, "/spec/volumeName");
                if volume.is_empty() { Vec::new() } else { vec![volume.to_owned()] }
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(&self, state: &ClusterState, name: &str) -> ApiResult<()> {
        let volumes = state.collection(VOLUMES);
        let Some(volume) = volumes.get(name) else { return Ok(()) };
        let uid = text(&volume.value, "/spec/claimRef/uid");
        let Some(claim_key) = claim_key(&volume.value).filter(|_| !uid.is_empty()) else {
            set_phase(state, name, "Available");
            return Ok(());
        };
        let claim = state.collection(VOLUME_CLAIMS).get(&claim_key);
        match claim.filter(|claim| claim.uid() == uid) {
            None => release(state, &volume),
            Some(claim) => match text(&claim.value, "/spec/volumeName") {
                // The claim will be bound to this volume soon.
                "" => Ok(()),
                bound if bound == name => {
                    set_phase(state, name, "Bound");
                    Ok(())
                }
                _ => give_back(state, &volume),
            },
        }
    }
}

/// Releases a volume after its claim was deleted. The volume's reclaim policy decides whether the volume stays with its
/// data or is deleted.
fn release(state: &ClusterState, volume: &Object) -> ApiResult<()> {
    set_phase(state, volume.name(), "Released");
    if text(&volume.value, "/spec/persistentVolumeReclaimPolicy") == "Delete" {
        let kind = state.built_in_kind("", "persistentvolumes")?;
        return owners::remove(state, &kind, volume);
    }
    Ok(())
}

/// Frees a volume whose claim is bound to another volume. A volume that was created for the claim is released.
fn give_back(state: &ClusterState, volume: &Object) -> ApiResult<()> {
    if !annotation(&volume.value, PROVISIONED_BY).is_empty() {
        return release(state, volume);
    }
    let uid = text(&volume.value, "/spec/claimRef/uid");
    edit(&state.collection(VOLUMES), volume.name(), |value| {
        if text(value, "/spec/claimRef/uid") == uid {
            remove_claim_reference(value);
        }
    });
    Ok(())
}

/// Removes the reference to the claim if a controller has written the reference. Only the uid is removed from a manual
/// reservation.
fn remove_claim_reference(volume: &mut Value) {
    let is_by_controller = !annotation(volume, BOUND_BY_CONTROLLER).is_empty();
    let spec = child_mut(volume, "spec");
    if is_by_controller {
        spec.remove("claimRef");
        remove_annotation(volume, BOUND_BY_CONTROLLER);
    } else if let Some(reference) = spec.get_mut("claimRef") {
        as_map(reference).remove("uid");
    }
}

fn set_phase(state: &ClusterState, name: &str, phase: &str) {
    edit(&state.collection(VOLUMES), name, |volume| {
        child_mut(volume, "status").insert("phase".to_owned(), phase.into());
    });
}
