//! The claims of a pod: which are bound, which will be bound where the pod goes, and which keep it from going anywhere.

use std::sync::Arc;

use berth_framework::{Call, Status};
use berth_model::{Catchup, ClusterTable, ObjectView};
use rustc_hash::FxHashMap;

use super::version::is_newer;
use crate::storage::{self, ClaimName, PersistentVolumeClaim, StorageClass, claim_name};

/// The node that a claim's volume is to be provisioned for.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

type ClaimKey = (String, String);

/// All claims, some with a node that the API server does not know of yet.
#[derive(Debug)]
pub(super) struct Claims {
    view: ObjectView<PersistentVolumeClaim>,
    assumed: FxHashMap<ClaimKey, Arc<PersistentVolumeClaim>>,
}

/// The claims of one pod.
#[derive(Clone, Debug, Default)]
pub(super) struct PodClaims {
    /// Names of the volumes that they are bound to.
    pub(super) bound: Vec<String>,
    pub(super) delayed: Vec<Arc<PersistentVolumeClaim>>,
}

impl Claims {
    pub(super) fn new() -> Self {
        Self { view: storage::view(storage::CLAIM), assumed: FxHashMap::default() }
    }

    pub(super) fn follow(&mut self, table: &ClusterTable) {
        if self.view.catch_up(table.objects()) == Catchup::Nothing || self.assumed.is_empty() {
            return;
        }
        let view = &self.view;
        self.assumed.retain(|(namespace, name), assumed| {
            let base = &assumed.metadata.resource_version;
            view.get(namespace, name).is_some_and(|claim| !is_newer(&claim.metadata.resource_version, base))
        });
    }

    /// The claim as the API server last showed it.
    pub(super) fn seen(&self, namespace: &str, name: &str) -> Option<&Arc<PersistentVolumeClaim>> {
        self.view.get(namespace, name)
    }

    fn get(&self, namespace: &str, name: &str) -> Option<&Arc<PersistentVolumeClaim>> {
        let assumed =
            if self.assumed.is_empty() { None } else { self.assumed.get(&(namespace.to_owned(), name.to_owned())) };
        assumed.or_else(|| self.view.get(namespace, name))
    }

    pub(super) fn assume_node(&mut self, claim: &PersistentVolumeClaim, node: &str) {
        let mut assumed = claim.clone();
        assumed.metadata.annotations.insert(SELECTED_NODE.to_owned(), node.to_owned());
        let key = (claim.metadata.namespace.clone(), claim.metadata.name.clone());
        self.assumed.insert(key, Arc::new(assumed));
    }

    /// Takes an assumption back; one that has ended already stays so.
    pub(super) fn restore(&mut self, namespace: &str, name: &str) {
        self.assumed.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// # Errors
    /// `Skip` for a pod without claims, a rejection for one whose claims are not ready, or an error.
    pub(super) fn of_pod(&self, call: &Call<'_>, classes: &ObjectView<StorageClass>) -> Result<PodClaims, Status> {
        let namespace = storage::namespace(call.pod, &call.table.symbols);
        let names = || call.pod.volumes.iter().filter_map(|volume| claim_name(call.pod, volume));
        if names().next().is_none() {
            return Err(Status::skip());
        }
        for ClaimName { name, is_ephemeral } in names() {
            self.check(call, namespace, &name, is_ephemeral).map_err(Status::unresolvable)?;
        }
        let mut claims = PodClaims::default();
        let mut has_immediate = false;
        for claim in names().filter_map(|it| self.get(namespace, &it.name)) {
            if claim.is_fully_bound() {
                claims.bound.push(claim.spec.volume_name.clone());
            } else if is_delayed(claim, classes).map_err(Status::error)? {
                claims.delayed.push(Arc::clone(claim));
            } else {
                has_immediate = true;
            }
        }
        if has_immediate {
            return Err(Status::unresolvable("pod has unbound immediate PersistentVolumeClaims"));
        }
        Ok(claims)
    }

    fn check(&self, call: &Call<'_>, namespace: &str, name: &str, is_ephemeral: bool) -> Result<(), String> {
        let Some(claim) = self.view.get(namespace, name) else {
            return Err(if is_ephemeral {
                format!("waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}")
            } else {
                storage::claim_not_found(name)
            });
        };
        if claim.status.phase == "Lost" {
            let volume = &claim.spec.volume_name;
            return Err(format!("persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"));
        }
        if claim.metadata.deletion_timestamp.is_some() {
            return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
        }
        if is_ephemeral && !claim.is_owned_by(&call.pod.uid) {
            return Err(storage::claim_not_owned(namespace, name, &call.pod.name));
        }
        Ok(())
    }
}

/// Whether the claim waits for a pod. One that names its volume already, or a class that does not exist, does not.
fn is_delayed(claim: &PersistentVolumeClaim, classes: &ObjectView<StorageClass>) -> Result<bool, String> {
    let name = claim.class();
    let Some(class) = classes.get("", name).filter(|_| !name.is_empty()) else { return Ok(false) };
    if class.volume_binding_mode.is_none() {
        return Err(format!("VolumeBindingMode not set for StorageClass {name:?}"));
    }
    Ok(class.waits_for_consumer() && claim.spec.volume_name.is_empty())
}
