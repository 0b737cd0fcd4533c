//! What a pod took at Reserve: written to the API server in PreBind, then watched until the volume controller has bound
//! everything, or given back.

use berth_framework::{Effect, ObjectRef};
use berth_model::ClusterTable;
use serde_json::{Value, json};

use super::{
    claims::{Claims, SELECTED_NODE},
    matching::Choices,
    shelf::Shelf,
    version::is_newer,
};
use crate::storage::{
    ClaimRef, PersistentVolume, PersistentVolumeClaim,
    places::{Place, PlaceId},
};

/// The scheduler chose the volume, so it may be given back to others when the claim is deleted.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

#[derive(Debug)]
pub(super) struct Reservation {
    node: String,
    chosen: Vec<Chosen>,
    provisioned: Vec<Written>,
    /// PreBind has asked for the patches.
    is_written: bool,
}

/// An existing volume for a claim.
#[derive(Debug)]
struct Chosen {
    volume: Written,
    /// Namespace and name.
    claim: (String, String),
}

/// An object that PreBind writes.
#[derive(Debug)]
struct Written {
    namespace: String,
    name: String,
    /// The version that the patch is made for.
    base: String,
    /// Without its `metadata.resourceVersion`.
    patch: Value,
    /// Whether the patch changes anything: then only what comes after `base` tells about its effect.
    changes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Everything is bound.
    Done,
    Waiting,
}

impl Reservation {
    pub(super) fn take(node: &str, choices: Choices, shelf: &mut Shelf, claims: &mut Claims) -> Self {
        let mut chosen = Vec::new();
        for (claim, entry) in choices.chosen {
            let is_complete = entry.names_fully(&claim);
            let patch = volume_patch(&entry.volume, &claim);
            if !is_complete {
                shelf.assume(entry.name(), claim_ref(&claim));
            }
            let base = entry.volume.metadata.resource_version.clone();
            let volume =
                Written { namespace: String::new(), name: entry.name().to_owned(), base, patch, changes: !is_complete };
            chosen.push(Chosen { volume, claim: (claim.metadata.namespace.clone(), claim.metadata.name.clone()) });
        }
        let mut provisioned = Vec::new();
        for claim in choices.provisioned {
            let metadata = &claim.metadata;
            let changes = metadata.annotations.get(SELECTED_NODE).is_none_or(|selected| selected != node);
            if changes {
                claims.assume_node(&claim, node);
            }
            provisioned.push(Written {
                namespace: metadata.namespace.clone(),
                name: metadata.name.clone(),
                base: metadata.resource_version.clone(),
                patch: json!({ "metadata": { "annotations": { SELECTED_NODE: node } } }),
                changes,
            });
        }
        Self { node: node.to_owned(), chosen, provisioned, is_written: false }
    }

    pub(super) fn give_back(self, shelf: &mut Shelf, claims: &mut Claims) {
        self.chosen.iter().filter(|it| it.volume.changes).for_each(|it| shelf.restore(&it.volume.name));
        let provisioned = self.provisioned.iter().filter(|it| it.changes);
        provisioned.for_each(|it| claims.restore(&it.namespace, &it.name));
    }

    /// The patches, volumes first; nothing the second time.
    pub(super) fn take_patches(&mut self) -> Vec<Effect> {
        if std::mem::replace(&mut self.is_written, true) {
            return Vec::new();
        }
        let volumes = self.chosen.iter().map(|it| it.volume.effect("v1/PersistentVolume"));
        volumes.chain(self.provisioned.iter().map(|it| it.effect("v1/PersistentVolumeClaim"))).collect()
    }

    /// # Errors
    /// Why it will never be bound.
    pub(super) fn progress(
        &self,
        table: &ClusterTable,
        shelf: &mut Shelf,
        claims: &Claims,
    ) -> Result<Progress, String> {
        for chosen in &self.chosen {
            if self.progress_of_chosen(chosen, table, shelf, claims)? == Progress::Waiting {
                return Ok(Progress::Waiting);
            }
        }
        for written in &self.provisioned {
            if self.progress_of_provisioned(written, table, shelf, claims)? == Progress::Waiting {
                return Ok(Progress::Waiting);
            }
        }
        Ok(Progress::Done)
    }

    fn progress_of_chosen(
        &self,
        Chosen { volume: written, claim: (namespace, name) }: &Chosen,
        table: &ClusterTable,
        shelf: &mut Shelf,
        claims: &Claims,
    ) -> Result<Progress, String> {
        let volume = shelf
            .seen(&written.name)
            .cloned()
            .ok_or_else(|| format!("failed to check binding: could not find v1.PersistentVolume {:?}", written.name))?;
        let claim = claims.seen(namespace, name).ok_or_else(|| {
            format!("failed to check binding: could not find v1.PersistentVolumeClaim \"{namespace}/{name}\"")
        })?;
        if !written.shows_in(&volume.metadata.resource_version) {
            return Ok(Progress::Waiting);
        }
        self.check_reach(&volume, table, shelf)?;
        if volume.spec.claim_ref.as_ref().is_none_or(|claim_ref| claim_ref.uid.is_empty()) {
            return Err(format!("ClaimRef got reset for pv {:?}", written.name));
        }
        Ok(if claim.is_fully_bound() { Progress::Done } else { Progress::Waiting })
    }

    fn progress_of_provisioned(
        &self,
        written: &Written,
        table: &ClusterTable,
        shelf: &mut Shelf,
        claims: &Claims,
    ) -> Result<Progress, String> {
        let name = &written.name;
        let claim = claims.seen(&written.namespace, name).ok_or_else(|| {
            let namespace = &written.namespace;
            format!("failed to check provisioning pvc: could not find v1.PersistentVolumeClaim \"{namespace}/{name}\"")
        })?;
        if !written.shows_in(&claim.metadata.resource_version) {
            return Ok(Progress::Waiting);
        }
        if claim.metadata.annotations.is_empty() {
            return Err(format!("selectedNode annotation reset for PVC {name:?}"));
        }
        if claim.metadata.annotations.get(SELECTED_NODE) != Some(&self.node) {
            return Err(format!("provisioning failed for PVC {name:?}"));
        }
        if !claim.spec.volume_name.is_empty() {
            // The volume's own event may still be under way.
            let Some(volume) = shelf.seen(&claim.spec.volume_name).cloned() else { return Ok(Progress::Waiting) };
            self.check_reach(&volume, table, shelf)?;
        }
        Ok(if claim.is_fully_bound() { Progress::Done } else { Progress::Waiting })
    }

    fn check_reach(&self, volume: &PersistentVolume, table: &ClusterTable, shelf: &mut Shelf) -> Result<(), String> {
        let node = table.symbols.lookup(&self.node).and_then(|name| table.find(name));
        let Some(node) = node else {
            return Err(format!("failed to get node {:?}: node {:?} not found", self.node, self.node));
        };
        let required = volume.spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
        let place: PlaceId = shelf.places.intern(Place::of_volume(required));
        if shelf.places.reach(place, table).contains(node) {
            return Ok(());
        }
        let volume = &volume.metadata.name;
        Err(format!("pv {volume:?} node affinity doesn't match node {:?}: no matching NodeSelectorTerms", self.node))
    }

    /// Asks to be called again when something has changed that [`Self::progress`] looks at.
    pub(super) fn wait(&self, timeout_ms: u64, claims: &Claims) -> Effect {
        let volume = |name: &str| object("v1/PersistentVolume", "", name);
        let claim = |namespace: &str, name: &str| object("v1/PersistentVolumeClaim", namespace, name);
        let mut objects = Vec::new();
        for Chosen { volume: written, claim: (namespace, name) } in &self.chosen {
            objects.extend([volume(&written.name), claim(namespace, name)]);
        }
        for Written { namespace, name, .. } in &self.provisioned {
            objects.push(claim(namespace, name));
            let seen = claims.seen(namespace, name).map(|claim| &claim.spec.volume_name);
            objects.extend(seen.filter(|name| !name.is_empty()).map(|name| volume(name)));
        }
        let timeout_message = "binding volumes: context deadline exceeded".to_owned();
        Effect::Wait { objects, timeout_ms, timeout_message }
    }
}

impl Written {
    fn effect(&self, kind: &str) -> Effect {
        let mut patch = self.patch.clone();
        if let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut)
            && !self.base.is_empty()
        {
            metadata.insert("resourceVersion".to_owned(), self.base.clone().into());
        }
        Effect::Patch {
            kind: kind.to_owned(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            subresource: None,
            patch: patch.to_string().into_bytes(),
        }
    }

    /// Whether the object in this version has been patched.
    fn shows_in(&self, version: &str) -> bool {
        !self.changes || is_newer(version, &self.base)
    }
}

fn object(kind: &str, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

fn claim_ref(claim: &PersistentVolumeClaim) -> ClaimRef {
    let metadata = &claim.metadata;
    ClaimRef { namespace: metadata.namespace.clone(), name: metadata.name.clone(), uid: metadata.uid.clone() }
}

/// Makes the volume the claim's. One that was meant for the claim already is marked as nobody's doing but the user's.
fn volume_patch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Value {
    let metadata = &claim.metadata;
    let mut claim_ref = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": metadata.namespace,
        "name": metadata.name,
        "uid": metadata.uid,
    });
    let known = volume.spec.claim_ref.as_ref();
    let is_complete = known.is_some_and(|known| known.is_to(claim) && known.uid == metadata.uid);
    if !is_complete && let Some(fields) = claim_ref.as_object_mut() {
        fields.insert("resourceVersion".to_owned(), metadata.resource_version.clone().into());
    }
    let is_meant = known.is_some_and(|known| known.is_to(claim));
    let annotations = &volume.metadata.annotations;
    let metadata = if is_meant || annotations.contains_key(BOUND_BY_CONTROLLER) {
        json!({})
    } else {
        json!({ "annotations": { BOUND_BY_CONTROLLER: "yes" } })
    };
    json!({ "metadata": metadata, "spec": { "claimRef": claim_ref } })
}
