//! The volumes to choose from, and those taken for pods that are on their way to a node.
//!
//! What a pod takes at Reserve is assumed here before the API server knows: the volume counts as the claim's from then
//! on. The assumption ends when it is given back, or when a newer version of the volume arrives, which then counts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_model::{Catchup, ClusterTable, ObjectView, quantity::Quantity};
use rustc_hash::FxHashMap;

use super::version::is_newer;
use crate::storage::{
    self, ClaimRef, PersistentVolume, PersistentVolumeClaim,
    places::{Place, PlaceId, Places},
};

/// A volume as it counts for scheduling.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) volume: Arc<PersistentVolume>,
    /// Whose it is, or is about to be.
    claim_ref: Option<ClaimRef>,
    pub(super) capacity: Quantity,
    pub(super) place: PlaceId,
}

/// Volumes without a claim in the order of their sizes, then names.
type BySize = BTreeMap<(Quantity, String), Arc<Entry>>;

#[derive(Debug)]
pub(super) struct Shelf {
    view: ObjectView<PersistentVolume>,
    assumed: FxHashMap<String, Assumed>,
    pub(super) stock: Stock,
    pub(super) places: Places,
}

/// All volumes, and ways to find one for a claim.
#[derive(Debug, Default)]
pub(super) struct Stock {
    entries: FxHashMap<String, Arc<Entry>>,
    /// By storage class.
    free: FxHashMap<String, BySize>,
    /// Names of volumes by namespace and name of the claim that they are reserved for.
    reserved: FxHashMap<(String, String), BTreeSet<String>>,
}

#[derive(Debug)]
struct Assumed {
    claim_ref: ClaimRef,
    /// The resource version that was there when it was assumed.
    base: String,
}

impl Entry {
    /// Whether this volume is meant for this claim, or for one of that name that did not exist yet.
    pub(super) fn is_for(&self, claim: &PersistentVolumeClaim) -> bool {
        self.claim_ref.as_ref().is_some_and(|claim_ref| claim_ref.is_to(claim))
    }

    /// Being deleted.
    pub(super) fn is_going(&self) -> bool {
        self.volume.metadata.deletion_timestamp.is_some()
    }

    /// Whether the volume's own record names the claim with its uid already.
    pub(super) fn names_fully(&self, claim: &PersistentVolumeClaim) -> bool {
        let claim_ref = self.volume.spec.claim_ref.as_ref();
        claim_ref.is_some_and(|claim_ref| claim_ref.is_to(claim) && claim_ref.uid == claim.metadata.uid)
    }

    pub(super) fn name(&self) -> &str {
        &self.volume.metadata.name
    }

    fn is_free(&self) -> bool {
        self.claim_ref.is_none() && self.volume.status.phase == "Available" && !self.is_going()
    }
}

impl Shelf {
    pub(super) fn new() -> Self {
        Self {
            view: storage::view(storage::VOLUME),
            assumed: FxHashMap::default(),
            stock: Stock::default(),
            places: Places::default(),
        }
    }

    pub(super) fn follow(&mut self, table: &ClusterTable) {
        match self.view.catch_up(table.objects()) {
            Catchup::Nothing => {}
            Catchup::Some(changed) => {
                for (_, name) in changed {
                    self.drop_overtaken(&name);
                    self.put(&name);
                }
            }
            Catchup::Everything => {
                let assumed: Vec<String> = self.assumed.keys().cloned().collect();
                assumed.iter().for_each(|name| self.drop_overtaken(name));
                self.rebuild();
            }
        }
        if self.places.len() > 2 * self.stock.entries.len() + 1024 {
            self.rebuild();
        }
        self.places.refresh(table);
    }

    fn rebuild(&mut self) {
        self.stock = Stock::default();
        self.places = Places::default();
        let names: Vec<String> = self.view.iter().map(|(_, name, _)| name.to_owned()).collect();
        names.iter().for_each(|name| self.put(name));
    }

    /// An assumption ends when the watch brings something newer than what it was made upon.
    fn drop_overtaken(&mut self, name: &str) {
        let Some(assumed) = self.assumed.get(name) else { return };
        let volume = self.view.get("", name);
        if volume.is_none_or(|volume| is_newer(&volume.metadata.resource_version, &assumed.base)) {
            self.assumed.remove(name);
        }
    }

    /// Enters the volume as it is by now.
    fn put(&mut self, name: &str) {
        self.stock.take_out(name);
        let Some(volume) = self.view.get("", name).map(Arc::clone) else { return };
        let required = volume.spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
        let place = self.places.intern(Place::of_volume(required));
        let assumed = self.assumed.get(name).map(|assumed| assumed.claim_ref.clone());
        let claim_ref = assumed.or_else(|| volume.spec.claim_ref.clone());
        let capacity = volume.capacity();
        self.stock.put(name, Arc::new(Entry { volume, claim_ref, capacity, place }));
    }

    /// The volume as the API server last showed it.
    pub(super) fn seen(&self, name: &str) -> Option<&Arc<PersistentVolume>> {
        self.view.get("", name)
    }

    pub(super) fn assume(&mut self, name: &str, claim_ref: ClaimRef) {
        let Some(entry) = self.stock.get(name) else { return };
        let base = entry.volume.metadata.resource_version.clone();
        self.assumed.insert(name.to_owned(), Assumed { claim_ref, base });
        self.put(name);
    }

    /// Takes an assumption back; one that has ended already stays so.
    pub(super) fn restore(&mut self, name: &str) {
        if self.assumed.remove(name).is_some() {
            self.put(name);
        }
    }
}

impl Stock {
    fn put(&mut self, name: &str, entry: Arc<Entry>) {
        if entry.is_free() {
            let key = (entry.capacity.clone(), name.to_owned());
            self.free.entry(entry.volume.class().to_owned()).or_default().insert(key, Arc::clone(&entry));
        }
        if let Some(ClaimRef { namespace, name: claim, .. }) = &entry.claim_ref {
            let key = (namespace.clone(), claim.clone());
            self.reserved.entry(key).or_default().insert(name.to_owned());
        }
        self.entries.insert(name.to_owned(), entry);
    }

    fn take_out(&mut self, name: &str) {
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
        if let Some(by_size) = self.free.get_mut(class) {
            by_size.remove(&(old.capacity.clone(), name));
            if by_size.is_empty() {
                self.free.remove(class);
            }
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.entries.get(name)
    }

    /// Volumes of the claim's class that are reserved for it, in the order of their names.
    pub(super) fn reserved_for(&self, claim: &PersistentVolumeClaim) -> Vec<Arc<Entry>> {
        let key = (claim.metadata.namespace.clone(), claim.metadata.name.clone());
        let names = self.reserved.get(&key).into_iter().flatten();
        let entries = names.filter_map(|name| self.entries.get(name)).filter(|entry| entry.is_for(claim));
        entries.filter(|entry| entry.volume.class() == claim.class()).cloned().collect()
    }

    /// Volumes of a class that nobody has, of at least `size`: smallest first, then by name.
    pub(super) fn free(&self, class: &str, size: &Quantity) -> impl Iterator<Item = &Arc<Entry>> {
        let by_size = self.free.get(class).into_iter();
        by_size.flat_map(|by_size| by_size.range((size.clone(), String::new())..)).map(|(_, entry)| entry)
    }
}
