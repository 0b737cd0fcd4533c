//! The claims of a pod: bound claims, claims that will be bound for its node, and claims that make the pod
//! unschedulable.

use std::sync::Arc;

use berth_framework::{Call, Status};
use berth_model::{Catchup, ClusterTable, ObjectView};
use rustc_hash::FxHashMap;

use super::version::is_newer;
use crate::storage::{self, ClaimError, ClaimName, NoBindingMode, PersistentVolumeClaim, StorageClass, claim_name};

/// The annotation with the node for which a claim's volume is to be provisioned.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

type ClaimKey = (String, String);

/// All claims, some of them with a selected node that the API server does not show yet.
#[derive(Debug)]
pub(super) struct Claims {
    view: ObjectView<PersistentVolumeClaim>,
    assumed: FxHashMap<ClaimKey, Arc<PersistentVolumeClaim>>,
}

/// The claims of one pod.
#[derive(Clone, Debug, Default)]
pub(super) struct PodClaims {
    /// Names of the volumes to which the claims are bound.
    pub(super) bound: Vec<String>,
    /// The claims to be bound to a volume that can be used from the pod's node.
    pub(super) delayed: Vec<Arc<PersistentVolumeClaim>>,
}

/// The reason why a pod cannot be scheduled until a claim changes.
#[derive(Debug, thiserror::Error)]
enum NotReady {
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error("waiting for ephemeral volume controller to create the persistentvolumeclaim {0:?}")]
    NotCreated(String),
    #[error("persistentvolumeclaim {claim:?} bound to non-existent persistentvolume {volume:?}")]
    Lost { claim: String, volume: String },
    #[error("persistentvolumeclaim {0:?} is being deleted")]
    BeingDeleted(String),
}

impl Claims {
    pub(super) fn new() -> Self {
        Self { view: storage::CLAIM.view(), assumed: FxHashMap::default() }
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
    pub(super) fn observed(&self, namespace: &str, name: &str) -> Option<&Arc<PersistentVolumeClaim>> {
        self.view.get(namespace, name)
    }

    fn get(&self, namespace: &str, name: &str) -> Option<&Arc<PersistentVolumeClaim>> {
        let assumed =
            if self.assumed.is_empty() { None } else { self.assumed.get(&(namespace.to_owned(), name.to_owned())) };
        assumed.or_else(|| self.view.get(namespace, name))
    }

    /// Counts the claim as a claim for which `node` was selected, until a newer version of it arrives or
    /// [`Self::restore`].
    pub(super) fn assume_node(&mut self, claim: &PersistentVolumeClaim, node: &str) {
        let mut assumed = claim.clone();
        assumed.metadata.annotations.insert(SELECTED_NODE.to_owned(), node.to_owned());
        let key = (claim.metadata.namespace.clone(), claim.metadata.name.clone());
        self.assumed.insert(key, Arc::new(assumed));
    }

    /// Undoes [`Self::assume_node`]; does nothing if a newer version of the claim has arrived.
    pub(super) fn restore(&mut self, namespace: &str, name: &str) {
        self.assumed.remove(&(namespace.to_owned(), name.to_owned()));
    }

    /// Sorts the claims of the cycle's pod.
    ///
    /// # Errors
    /// `Skip` for a pod without claims, a rejection if a claim is not ready, or an error.
    pub(super) fn of_pod(&self, call: &Call<'_>, classes: &ObjectView<StorageClass>) -> Result<PodClaims, Status> {
        let namespace = storage::namespace(call.pod, &call.table.symbols);
        let names = || call.pod.volumes.iter().filter_map(|volume| claim_name(call.pod, volume));
        if names().next().is_none() {
            return Err(Status::skip());
        }
        for ClaimName { name, is_ephemeral } in names() {
            let checked = self.check(call, namespace, &name, is_ephemeral);
            checked.map_err(|error| Status::unresolvable(error.to_string()))?;
        }
        let mut claims = PodClaims::default();
        let mut has_immediate = false;
        for claim in names().filter_map(|it| self.get(namespace, &it.name)) {
            if claim.is_fully_bound() {
                claims.bound.push(claim.spec.volume_name.clone());
            } else if is_delayed(claim, classes).map_err(|error| Status::error(error.to_string()))? {
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

    fn check(&self, call: &Call<'_>, namespace: &str, name: &str, is_ephemeral: bool) -> Result<(), NotReady> {
        let Some(claim) = self.view.get(namespace, name) else {
            return Err(if is_ephemeral {
                NotReady::NotCreated(name.to_owned())
            } else {
                ClaimError::not_found(name).into()
            });
        };
        if claim.status.phase == "Lost" {
            return Err(NotReady::Lost { claim: name.to_owned(), volume: claim.spec.volume_name.clone() });
        }
        if claim.metadata.deletion_timestamp.is_some() {
            return Err(NotReady::BeingDeleted(name.to_owned()));
        }
        if is_ephemeral && !claim.is_owned_by(&call.pod.uid) {
            return Err(ClaimError::not_owned(namespace, name, &call.pod.name).into());
        }
        Ok(())
    }
}

/// Whether the claim is bound only when a pod needs it. A claim that names a volume or an unknown class is not delayed.
fn is_delayed(claim: &PersistentVolumeClaim, classes: &ObjectView<StorageClass>) -> Result<bool, NoBindingMode> {
    let name = claim.class();
    let Some(class) = classes.get("", name).filter(|_| !name.is_empty()) else { return Ok(false) };
    Ok(class.waits_for_consumer(name)? && claim.spec.volume_name.is_empty())
}
