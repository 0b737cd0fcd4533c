//! All volumes, and the volumes that are already assumed to belong to a claim.
//!
//! When Reserve chooses a volume for a claim, the volume is assumed to be the claim's before the API server shows it.
//! The assumption ends when the reservation is undone, or when a newer version of the volume arrives.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_model::{Catchup, ClusterTable, ObjectView, quantity::Quantity};
use rustc_hash::FxHashMap;

use super::version::is_newer;
use crate::storage::{
    self, ClaimRef, PersistentVolume, PersistentVolumeClaim,
    migrated_affinity::{self, MigratedNodes},
    migrated_handle::TranslationError,
    node_terms::{NodeTerms, NodeTermsId, NodeTermsTable},
};

/// A volume, with the facts that matching needs.
#[derive(Debug)]
pub(super) struct VolumeEntry {
    pub(super) volume: Arc<PersistentVolume>,
    /// The claim that the volume belongs to, or is assumed to belong to.
    claim_ref: Option<ClaimRef>,
    pub(super) capacity: Quantity,
    pub(super) node_terms: NodeTermsId,
    /// The terms of a volume of an in-tree plugin.
    pub(super) migrated: Option<MigratedTerms>,
}

/// The terms that replace a volume's node terms where its in-tree plugin is migrated.
#[derive(Debug)]
pub(super) struct MigratedTerms {
    pub(super) plugin: &'static str,
    pub(super) node_terms: Result<NodeTermsId, TranslationError>,
}

/// Volumes ordered by size, then name.
type BySize = BTreeMap<(Quantity, String), Arc<VolumeEntry>>;

/// All volumes, kept up to date by the watch.
#[derive(Debug)]
pub(super) struct Volumes {
    view: ObjectView<PersistentVolume>,
    assumed: FxHashMap<String, Assumed>,
    pub(super) index: VolumeIndex,
    pub(super) node_terms: NodeTermsTable,
    pub(super) migrated_nodes: MigratedNodes,
}

/// All volumes, and indices to find a volume for a claim.
#[derive(Debug, Default)]
pub(super) struct VolumeIndex {
    entries: FxHashMap<String, Arc<VolumeEntry>>,
    /// The available volumes by storage class.
    available: FxHashMap<String, BySize>,
    /// Names of reserved volumes, by namespace and name of the claim.
    reserved: FxHashMap<(String, String), BTreeSet<String>>,
}

#[derive(Debug)]
struct Assumed {
    claim_ref: ClaimRef,
    /// The resource version of the volume at the time of the assumption.
    base: String,
}

impl VolumeEntry {
    /// Whether the volume is reserved for this claim, or for a claim of its name that did not exist at that time.
    pub(super) fn is_for(&self, claim: &PersistentVolumeClaim) -> bool {
        self.claim_ref.as_ref().is_some_and(|claim_ref| claim_ref.is_to(claim))
    }

    pub(super) fn is_being_deleted(&self) -> bool {
        self.volume.metadata.deletion_timestamp.is_some()
    }

    /// Whether the volume's `claimRef` in the API server is complete: it refers to the claim by its uid.
    pub(super) fn has_claim_uid(&self, claim: &PersistentVolumeClaim) -> bool {
        let claim_ref = self.volume.spec.claim_ref.as_ref();
        claim_ref.is_some_and(|claim_ref| claim_ref.is_to(claim) && claim_ref.uid == claim.metadata.uid)
    }

    pub(super) fn name(&self) -> &str {
        &self.volume.metadata.name
    }

    fn is_available(&self) -> bool {
        self.claim_ref.is_none() && self.volume.status.phase == "Available" && !self.is_being_deleted()
    }
}

impl Volumes {
    pub(super) fn new() -> Self {
        Self {
            view: storage::VOLUME.view(),
            assumed: FxHashMap::default(),
            index: VolumeIndex::default(),
            node_terms: NodeTermsTable::default(),
            migrated_nodes: MigratedNodes::new(),
        }
    }

    pub(super) fn follow(&mut self, table: &ClusterTable) {
        self.migrated_nodes.follow(table);
        match self.view.catch_up(table.objects()) {
            Catchup::Nothing => {}
            Catchup::Some(changed) => {
                for (_, name) in changed {
                    self.end_outdated_assumption(&name);
                    self.put(&name);
                }
            }
            Catchup::Everything => {
                let assumed: Vec<String> = self.assumed.keys().cloned().collect();
                assumed.iter().for_each(|name| self.end_outdated_assumption(name));
                self.rebuild();
            }
        }
        if self.node_terms.len() > 2 * self.index.entries.len() + 1024 {
            self.rebuild();
        }
        self.node_terms.refresh(table);
    }

    fn rebuild(&mut self) {
        self.index = VolumeIndex::default();
        self.node_terms = NodeTermsTable::default();
        let names: Vec<String> = self.view.iter().map(|(_, name, _)| name.to_owned()).collect();
        names.iter().for_each(|name| self.put(name));
    }

    /// Ends an assumption if the volume no longer exists or is newer than the assumption.
    fn end_outdated_assumption(&mut self, name: &str) {
        let Some(assumed) = self.assumed.get(name) else { return };
        let volume = self.view.get("", name);
        if volume.is_none_or(|volume| is_newer(&volume.metadata.resource_version, &assumed.base)) {
            self.assumed.remove(name);
        }
    }

    /// Brings the index up to date with one volume.
    fn put(&mut self, name: &str) {
        self.index.remove(name);
        let Some(volume) = self.view.get("", name).map(Arc::clone) else { return };
        let required = volume.spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
        let node_terms = self.node_terms.intern(NodeTerms::of_volume(required));
        let migrated = migrated_affinity::translate(&volume).map(|(migration, affinity)| MigratedTerms {
            plugin: migration.plugin,
            node_terms: affinity.map(|affinity| self.node_terms.intern(NodeTerms::of_volume(affinity.as_ref()))),
        });
        let assumed = self.assumed.get(name).map(|assumed| assumed.claim_ref.clone());
        let claim_ref = assumed.or_else(|| volume.spec.claim_ref.clone());
        let capacity = volume.capacity();
        self.index.put(name, Arc::new(VolumeEntry { volume, claim_ref, capacity, node_terms, migrated }));
    }

    /// The volume as the API server last showed it, without assumptions.
    pub(super) fn observed(&self, name: &str) -> Option<&Arc<PersistentVolume>> {
        self.view.get("", name)
    }

    /// Counts the volume as the claim's until a newer version of it arrives or [`Self::restore`].
    pub(super) fn assume(&mut self, name: &str, claim_ref: ClaimRef) {
        let Some(entry) = self.index.get(name) else { return debug_assert!(false, "{name} was just chosen") };
        let base = entry.volume.metadata.resource_version.clone();
        self.assumed.insert(name.to_owned(), Assumed { claim_ref, base });
        self.put(name);
    }

    /// Undoes [`Self::assume`]; does nothing if the assumption has ended.
    pub(super) fn restore(&mut self, name: &str) {
        if self.assumed.remove(name).is_some() {
            self.put(name);
        }
    }
}

impl VolumeIndex {
    fn put(&mut self, name: &str, entry: Arc<VolumeEntry>) {
        if entry.is_available() {
            let key = (entry.capacity.clone(), name.to_owned());
            self.available.entry(entry.volume.class().to_owned()).or_default().insert(key, Arc::clone(&entry));
        }
        if let Some(ClaimRef { namespace, name: claim, .. }) = &entry.claim_ref {
            let key = (namespace.clone(), claim.clone());
            self.reserved.entry(key).or_default().insert(name.to_owned());
        }
        self.entries.insert(name.to_owned(), entry);
    }

    fn remove(&mut self, name: &str) {
        let Some(old) = self.entries.remove(name) else { return };
        let name = name.to_owned();
        if let Some(ClaimRef { namespace, name: claim, .. }) = &old.claim_ref {
            let key = (namespace.clone(), claim.clone());
            if let Some(names) = self.reserved.get_mut(&key) {
                names.remove(&name);
                if names.is_empty() {
                    self.reserved.remove(&key);
                }
            }
        }
        let class = old.volume.class();
        if let Some(by_size) = self.available.get_mut(class) {
            by_size.remove(&(old.capacity.clone(), name));
            if by_size.is_empty() {
                self.available.remove(class);
            }
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<VolumeEntry>> {
        self.entries.get(name)
    }

    /// Volumes of the claim's class that are reserved for it, ordered by name.
    pub(super) fn reserved_for(&self, claim: &PersistentVolumeClaim) -> Vec<Arc<VolumeEntry>> {
        let key = (claim.metadata.namespace.clone(), claim.metadata.name.clone());
        let names = self.reserved.get(&key).into_iter().flatten();
        let entries = names.filter_map(|name| self.entries.get(name)).filter(|entry| entry.is_for(claim));
        entries.filter(|entry| entry.volume.class() == claim.class()).cloned().collect()
    }

    /// Available volumes of a class with at least `size`: smallest first, then by name.
    pub(super) fn available(&self, class: &str, size: &Quantity) -> impl Iterator<Item = &Arc<VolumeEntry>> {
        let by_size = self.available.get(class).into_iter();
        by_size.flat_map(|by_size| by_size.range((size.clone(), String::new())..)).map(|(_, entry)| entry)
    }
}
