//! A copy of the scheduler's state, kept up to date with the scheduler's [changes](ChangeBatch): pods with their
//! places, nodes, and the objects that plugins read. The parts of the program that show the scheduler to people read
//! the copy, outside of the scheduling thread.

use std::{collections::BTreeMap, sync::Arc};

use berth_cache::Cache;
use berth_lifecycle::HeldOwner;
use berth_model::{
    ClusterTable, Features, ObjectKey, OwnerId, Pod, PodUid, Sym, Time, api, intern, pod::Resources, requests::Requests,
};
use rustc_hash::FxHashMap;

use crate::change_feed::{ChangeBatch, FollowedPod, PodPlace};

/// The copy. It is empty until the first batch.
///
/// Most of the work for a change of a pod is to put the pod on a node. A copy of which only the [`PodList`] is read
/// saves this work: its cache has the nodes without their pods.
#[derive(Debug, Default)]
pub struct ClusterView {
    cache: Cache,
    /// Whether the cache has the nodes without their pods.
    lists_pods_only: bool,
    pods: FxHashMap<PodUid, FollowedPod>,
    names: Names,
    scheduler_names: Vec<Sym>,
    features: Features,
    held_owners: BTreeMap<OwnerId, HeldOwner>,
    as_of: Time,
    is_complete: bool,
}

/// The uids of pods by namespace and name.
#[derive(Debug, Default)]
struct Names(FxHashMap<Sym, FxHashMap<Arc<str>, PodUid>>);

/// The pods of a copy with their places, for readers that do not need the nodes.
#[derive(Clone, Copy, Debug)]
pub struct PodList<'a>(&'a ClusterView);

/// One pod, with the texts of its symbols.
#[derive(Clone, Copy, Debug)]
pub struct PodView<'a> {
    followed: &'a FollowedPod,
    view: &'a ClusterView,
}

impl ClusterView {
    /// A copy of which only the [`PodList`] is read, until [`Self::put_pods_on_nodes`].
    #[must_use]
    pub fn of_pods_only() -> Self {
        Self { lists_pods_only: true, ..Self::default() }
    }

    /// Applies a batch of changes.
    pub fn apply(&mut self, batch: ChangeBatch) {
        if batch.is_first {
            *self = Self { lists_pods_only: self.lists_pods_only, ..Self::default() };
        }
        for (sym, text) in batch.symbols {
            self.cache.symbols_mut().mirror(sym, text);
        }
        for (name, node) in batch.nodes {
            match node {
                Some(node) => drop(self.cache.set_node(node)),
                None => drop(self.cache.remove_node(name)),
            }
        }
        for (key, json) in batch.objects {
            self.cache.set_object(ObjectKey::clone(&key), json);
        }
        for (uid, pod) in batch.pods {
            self.set_pod(uid, pod);
        }
        self.cache.settle();
        (self.scheduler_names, self.features) = (batch.scheduler_names, batch.features);
        self.held_owners = batch.held_owners;
        (self.as_of, self.is_complete) = (batch.as_of, batch.is_complete);
    }

    /// Brings the cache up to date with the pods. From this call on, the cache follows the pods.
    pub fn put_pods_on_nodes(&mut self) {
        if std::mem::take(&mut self.lists_pods_only) {
            for (uid, pod) in &self.pods {
                place(&mut self.cache, uid, Some(pod));
            }
        }
    }

    /// Takes the pods out of the cache. Until [`Self::put_pods_on_nodes`], only the [`PodList`] is read.
    pub fn take_pods_off_nodes(&mut self) {
        if !std::mem::replace(&mut self.lists_pods_only, true) {
            for uid in self.pods.keys() {
                self.cache.remove_pod(uid);
            }
        }
    }

    /// Whether the cache has the nodes without their pods.
    #[must_use]
    pub fn lists_pods_only(&self) -> bool {
        self.lists_pods_only
    }

    /// The pods.
    #[must_use]
    pub fn pod_list(&self) -> PodList<'_> {
        PodList(self)
    }

    fn set_pod(&mut self, uid: PodUid, pod: Option<FollowedPod>) {
        let before = self.pods.get(&uid);
        let is_new = before.is_none();
        // While a pod waits in the queue or is being bound, often only its record changes.
        let is_placed = pod.as_ref().zip(before).is_some_and(|(pod, before)| is_placed_like(pod, before));
        if !self.lists_pods_only && !is_placed {
            place(&mut self.cache, &uid, pod.as_ref());
        }
        match pod {
            Some(pod) => {
                if is_new {
                    self.names.insert(&pod.pod);
                }
                self.pods.insert(uid, pod);
            }
            None => {
                if let Some(gone) = self.pods.remove(&uid) {
                    self.names.remove(&gone.pod);
                }
            }
        }
    }

    /// The time at which the copy equalled the scheduler's state, by the scheduler's clock.
    #[must_use]
    pub fn as_of(&self) -> Time {
        self.as_of
    }

    /// The hold of the pod's owner, if a plugin faulted over pods of this owner and the pods are held.
    #[must_use]
    pub fn held_owner(&self, pod: &Pod) -> Option<&HeldOwner> {
        self.held_owners.get(&OwnerId::of(pod, &self.table().symbols))
    }

    /// Whether the copy contains all data that the scheduler had at [`Self::as_of`]. Otherwise, some of the data is
    /// older or missing.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The nodes, the pods on them unless only pods are read, and objects of other kinds.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The nodes as plugins see them.
    #[must_use]
    pub fn table(&self) -> &ClusterTable {
        self.cache.table()
    }

    /// `schedulerName`s of the profiles.
    pub fn scheduler_names(&self) -> impl Iterator<Item = &str> {
        self.scheduler_names.iter().map(|name| self.text(*name))
    }

    /// All pods that the scheduler knows, in no particular order. A pod that is being deleted and waits nowhere may be
    /// missing until it changes.
    pub fn pods(&self) -> impl Iterator<Item = PodView<'_>> {
        self.pods.values().map(|followed| PodView { followed, view: self })
    }

    /// The pod with this uid.
    #[must_use]
    pub fn pod(&self, uid: &str) -> Option<PodView<'_>> {
        self.pods.get(uid).map(|followed| PodView { followed, view: self })
    }

    /// The pod with this name.
    #[must_use]
    pub fn find_pod(&self, namespace: &str, name: &str) -> Option<PodView<'_>> {
        let namespace = self.table().symbols.lookup(namespace)?;
        self.pod(self.names.find(namespace, name)?)
    }

    /// The nominated pods with the names of their nodes, in no particular order.
    pub fn nominated_pods(&self) -> impl Iterator<Item = (Sym, &Arc<Pod>)> {
        let nominated = self.pods.values().filter(|pod| !pod.nominated_node.is_none());
        nominated.map(|pod| (pod.nominated_node, &pod.pod))
    }

    /// Runs `work` while the copy lacks the pod. Such a call asks plugins about another node for the pod.
    pub fn without_pod<R>(&mut self, uid: &str, work: impl FnOnce(&Self) -> R) -> R {
        let removed = self.pods.remove_entry(uid);
        if let Some((uid, _)) = &removed {
            place(&mut self.cache, uid, None);
        }
        let result = work(self);
        if let Some((uid, pod)) = removed {
            if !self.lists_pods_only {
                place(&mut self.cache, &uid, Some(&pod));
            }
            // The pod's name stays known, unless another pod has taken the name.
            self.pods.insert(uid, pod);
        }
        result
    }

    /// Runs `work` with a pod that is unknown to the scheduler. The pod's own symbols are known only during the call.
    pub fn with_new_pod<R>(&mut self, pod: &api::Pod, work: impl FnOnce(&Self, Pod) -> R) -> R {
        let symbols = self.table().symbols.clone();
        let pod = intern::pod(pod, self.features, self.cache.symbols_mut());
        let result = work(self, pod);
        self.cache.symbols_mut().return_to(symbols);
        result
    }

    fn text(&self, sym: Sym) -> &str {
        self.table().symbols.text(sym)
    }
}

impl<'a> PodList<'a> {
    /// The time at which the copy equalled the scheduler's state, by the scheduler's clock.
    #[must_use]
    pub fn as_of(self) -> Time {
        self.0.as_of()
    }

    /// Whether the list contains all pods that the scheduler knew at [`Self::as_of`]. Otherwise, some of the data is
    /// older or missing.
    #[must_use]
    pub fn is_complete(self) -> bool {
        self.0.is_complete()
    }

    /// The pods, as [`ClusterView::pods`] has them.
    pub fn pods(self) -> impl Iterator<Item = PodView<'a>> {
        self.0.pods()
    }
}

impl<'a> PodView<'a> {
    /// The pod. Its symbols belong to [`ClusterView::table`].
    #[must_use]
    pub fn pod(&self) -> &'a Arc<Pod> {
        &self.followed.pod
    }

    /// The place of the pod.
    #[must_use]
    pub fn place(&self) -> &'a PodPlace {
        &self.followed.place
    }

    /// The pod's name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.followed.pod.name
    }

    /// The pod's namespace.
    #[must_use]
    pub fn namespace(&self) -> &'a str {
        self.view.text(self.followed.pod.namespace)
    }

    /// The node in the pod's object; empty for a pod without a node.
    #[must_use]
    pub fn node(&self) -> &'a str {
        self.view.text(self.followed.pod.node_name)
    }

    /// The node to which the pod is nominated; empty without a nomination.
    #[must_use]
    pub fn nominated_node(&self) -> &'a str {
        self.view.text(self.followed.nominated_node)
    }

    /// The `schedulerName` of the pod's spec.
    #[must_use]
    pub fn scheduler_name(&self) -> &'a str {
        self.view.text(self.followed.pod.scheduler_name)
    }

    /// The pod's priority.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.followed.pod.priority
    }

    /// The requests of the pod's spec, by resource; CPU in thousandths.
    #[must_use]
    pub fn requests(&self) -> Vec<(&'a str, i64)> {
        let Resources { milli_cpu, memory, ephemeral_storage, scalars } = &self.followed.pod.requests;
        let scalars = scalars.iter().map(|(name, amount)| (self.view.text(*name), *amount));
        by_name([*milli_cpu, *memory, *ephemeral_storage], scalars)
    }

    /// The pod's limits, by resource; CPU in thousandths.
    #[must_use]
    pub fn limits(&self) -> Vec<(&'a str, i64)> {
        let Some(Requests { milli_cpu, memory, ephemeral_storage, scalars }) = self.followed.limits.as_deref() else {
            return Vec::new();
        };
        let scalars = scalars.iter().map(|(name, amount)| (name.as_str(), *amount));
        by_name([*milli_cpu, *memory, *ephemeral_storage], scalars)
    }
}

impl Names {
    fn insert(&mut self, pod: &Pod) {
        self.0.entry(pod.namespace).or_default().insert(Arc::clone(&pod.name), pod.uid.clone());
    }

    /// Forgets a pod. If another pod has taken the name, the name stays.
    fn remove(&mut self, pod: &Pod) {
        let Some(of_namespace) = self.0.get_mut(&pod.namespace) else { return };
        if of_namespace.get(&pod.name) == Some(&pod.uid) {
            of_namespace.remove(&pod.name);
        }
        if of_namespace.is_empty() {
            self.0.remove(&pod.namespace);
        }
    }

    fn find(&self, namespace: Sym, name: &str) -> Option<&PodUid> {
        self.0.get(&namespace)?.get(name)
    }
}

/// Whether both pods are the same object at the same place in the cache.
fn is_placed_like(pod: &FollowedPod, other: &FollowedPod) -> bool {
    Arc::ptr_eq(&pod.pod, &other.pod) && pod.place.node() == other.place.node()
}

/// Updates the pod in the cache to match the scheduler's cache.
fn place(cache: &mut Cache, uid: &PodUid, pod: Option<&FollowedPod>) {
    let placed = pod.and_then(|followed| Some((&followed.pod, followed.place.node()?)));
    let Some((pod, node)) = placed else {
        cache.remove_pod(uid);
        return;
    };
    // The object of an assumed pod names no node.
    let added = if pod.node_name == node {
        cache.add_pod(Arc::clone(pod)).map(drop)
    } else {
        cache.remove_pod(uid);
        cache.assume(pod, node).map(berth_cache::Assumed::settled)
    };
    debug_assert!(added.is_ok(), "a pod of the scheduler's cache cannot be cached: {added:?}");
}

/// The amounts other than zero, by name.
fn by_name<'a>(
    [milli_cpu, memory, ephemeral_storage]: [i64; 3],
    scalars: impl Iterator<Item = (&'a str, i64)>,
) -> Vec<(&'a str, i64)> {
    let usual = [("cpu", milli_cpu), ("memory", memory), ("ephemeral-storage", ephemeral_storage)];
    let mut amounts: Vec<_> = usual.into_iter().chain(scalars).filter(|(_, amount)| *amount != 0).collect();
    amounts.sort_unstable();
    amounts
}
