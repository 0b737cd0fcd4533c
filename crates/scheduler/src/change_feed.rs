//! The changes that keep a copy of the scheduler's state up to date.
//!
//! While a copy follows, cache, queue and bindings note the keys of changed entries. [`ChangeFeed`] collects the keys,
//! each key once. A batch contains the current values of some of these keys. A new copy gets the whole state in
//! portions of the same size, while further changes come. In one turn, the scheduling thread never does more for a copy
//! than one batch.

use std::{collections::BTreeMap, sync::Arc};

use berth_framework::UnlistedKinds;
use berth_lifecycle::HeldOwner;
use berth_model::{Features, Node, ObjectKey, OwnerId, Pod, PodUid, Sym, Time, requests::Requests};
use berth_queue::{Visited, Waiting};
use rustc_hash::FxHashSet;

use crate::{
    bindings::{Bindings, PodBinding},
    context::Context,
};

/// The maximum number of objects in one batch, where each pod or node counts as one object. A full batch takes less
/// than a millisecond.
const BATCH: usize = 1024;

/// The maximum number of symbols in one batch.
const SYMBOLS: usize = 1 << 14;

/// The maximum number of owners with held pods in one batch.
const MAX_HELD: usize = 1024;

/// The number of waiting keys at which the copy starts again, because the copy is too slow or no longer exists.
const MAX_CHANGED: usize = 1 << 16;

/// An object of another kind than pods and nodes, as the API server wrote it.
pub(crate) type Json = Arc<[u8]>;

/// The changes of a scheduler since the last batch, with the current values. Pods and objects are shared with the
/// scheduler.
#[derive(Debug, Default)]
pub struct ChangeBatch {
    /// Whether the earlier batches are obsolete, so that the copy starts again.
    pub is_first: bool,
    /// Whether the copy is complete with this batch. A complete copy equals the scheduler's state at that time.
    pub is_complete: bool,
    /// The time at which the batch was made, by the scheduler's clock.
    pub as_of: Time,
    /// Symbols with their texts. The text of a freed symbol is empty.
    pub symbols: Vec<(Sym, Arc<str>)>,
    /// `schedulerName`s of all profiles.
    pub scheduler_names: Vec<Sym>,
    /// The behaviour that depends on the Kubernetes release and its feature gates.
    pub features: Features,
    /// The owners whose pods wait because a plugin faulted over them, at most [`MAX_HELD`].
    pub held_owners: BTreeMap<OwnerId, HeldOwner>,
    /// The kinds of which no plugin knows any object.
    pub unlisted: Arc<UnlistedKinds>,
    /// Nodes by name; `None` if the cache has no such node.
    pub nodes: Vec<(Sym, Option<Node>)>,
    /// Objects of other kinds as JSON; `None` if the cache has no such object.
    pub objects: Vec<(Arc<ObjectKey>, Option<Json>)>,
    /// Pods by uid; `None` if no such pod exists.
    pub pods: Vec<(PodUid, Option<FollowedPod>)>,
}

/// A pod with its place.
#[derive(Clone, Debug)]
pub struct FollowedPod {
    /// The newest object of the pod. The cache counts this object if the pod is on a node.
    pub pod: Arc<Pod>,
    /// The limits of the pod; `None` if the pod has no limits.
    pub limits: Option<Arc<Requests>>,
    /// The node that the pod is nominated to, or [`Sym::NONE`].
    pub nominated_node: Sym,
    /// The place of the pod.
    pub place: PodPlace,
}

/// The place of a pod.
#[derive(Clone, Debug)]
pub enum PodPlace {
    /// The pod is in the scheduling queue.
    Queued(Box<Waiting>),
    /// The pod is between Reserve and PostBind.
    Binding(Box<PodBinding>),
    /// The pod is bound and assumed to be on the node, but the watch has not shown the pod on the node yet.
    Assumed {
        /// The node's name.
        node: Sym,
    },
    /// The API server shows the pod on the node.
    Bound {
        /// The node's name.
        node: Sym,
    },
    /// The pod has no node and must not be scheduled: it is being deleted, or no profile serves it.
    Unscheduled,
}

impl PodPlace {
    /// The node of the pod, or the node that was chosen for it.
    #[must_use]
    pub fn node(&self) -> Option<Sym> {
        match self {
            Self::Binding(binding) => Some(binding.node),
            Self::Assumed { node } | Self::Bound { node } => Some(*node),
            Self::Queued(_) | Self::Unscheduled => None,
        }
    }
}

/// A copy that follows a scheduler. Each copy gets the changes at its own pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CopyKind {
    /// The copy that is shown to people: a [`ClusterView`](crate::ClusterView).
    Shown,
    /// The copy on which what-if questions are answered: a scheduler that [follows](crate::Scheduler::follow).
    Asked,
}

/// The copies that follow, with the changes that each copy has not received yet.
#[derive(Debug, Default)]
pub(crate) struct ChangeFeeds {
    feeds: BTreeMap<CopyKind, ChangeFeed>,
    /// An empty buffer, which [`Self::gather`] fills and empties again.
    changed: Changed,
}

impl ChangeFeeds {
    /// The next batch for a copy. With the first call for a copy, the scheduler begins to note changes.
    pub(crate) fn batch(
        &mut self,
        copy: CopyKind,
        bindings: &mut Bindings,
        context: &mut Context,
        now: Time,
    ) -> ChangeBatch {
        if self.feeds.is_empty() {
            set_followed(true, bindings, context);
        }
        let feed = self.feeds.entry(copy).or_insert_with(|| ChangeFeed::from_the_beginning(context));
        feed.batch(bindings, context, now)
    }

    /// Notes the changes since the last call, for all copies.
    pub(crate) fn gather(&mut self, bindings: &mut Bindings, context: &mut Context) {
        if self.feeds.is_empty() {
            return;
        }
        self.changed.take(bindings, context);
        for feed in self.feeds.values_mut() {
            feed.note(&self.changed, context);
        }
        self.changed.clear();
    }

    /// Stops to note changes for the copy.
    pub(crate) fn end(&mut self, copy: CopyKind, bindings: &mut Bindings, context: &mut Context) {
        if self.feeds.remove(&copy).is_some() && self.feeds.is_empty() {
            set_followed(false, bindings, context);
        }
    }
}

/// The keys of the changed entries.
#[derive(Debug, Default)]
struct Changed {
    nodes: Vec<Sym>,
    pods: Vec<PodUid>,
    objects: Vec<Arc<ObjectKey>>,
}

impl Changed {
    fn take(&mut self, bindings: &mut Bindings, context: &mut Context) {
        let Self { nodes, pods, objects } = self;
        nodes.extend(context.cache_mut().changed_nodes());
        objects.extend(context.cache_mut().changed_objects());
        pods.extend(context.cache_mut().changed_pods());
        pods.extend(context.queue_mut().changed_pods());
        pods.extend(context.changed_pending_pods());
        pods.extend(bindings.changed_pods());
        // Most steps concern one pod, and queue, bindings and cache each note this pod.
        pods.dedup();
    }

    fn clear(&mut self) {
        let Self { nodes, pods, objects } = self;
        nodes.clear();
        pods.clear();
        objects.clear();
    }
}

/// The keys of the values that a copy does not have yet.
#[derive(Debug)]
struct ChangeFeed {
    nodes: FxHashSet<Sym>,
    pods: FxHashSet<PodUid>,
    objects: FxHashSet<Arc<ObjectKey>>,
    symbols_position: u64,
    is_first: bool,
    fill: Fill,
}

/// The position of a copy that gets the whole state in portions.
#[derive(Debug)]
enum Fill {
    /// The next symbol.
    Symbols(usize),
    /// The names of the remaining nodes. Each is sent with its pods.
    Nodes(Vec<Sym>),
    /// The object that was sent last.
    Objects(Option<Arc<ObjectKey>>),
    Queue(Visited),
    Done,
}

impl ChangeFeed {
    fn from_the_beginning(context: &Context) -> Self {
        Self {
            nodes: FxHashSet::default(),
            pods: FxHashSet::default(),
            objects: FxHashSet::default(),
            symbols_position: context.table().symbols.position(),
            is_first: true,
            fill: Fill::Symbols(0),
        }
    }

    fn note(&mut self, changed: &Changed, context: &Context) {
        self.nodes.extend(&changed.nodes);
        self.objects.extend(changed.objects.iter().cloned());
        self.pods.extend(changed.pods.iter().cloned());
        if self.n_changed() > MAX_CHANGED {
            *self = Self::from_the_beginning(context);
        }
    }

    /// A batch with as many changes as fit. If there is room, it also has a portion of the whole state.
    fn batch(&mut self, bindings: &Bindings, context: &Context, now: Time) -> ChangeBatch {
        let mut batch = ChangeBatch {
            is_first: std::mem::take(&mut self.is_first),
            as_of: now,
            symbols: self.new_symbols(context),
            scheduler_names: context.profiles().scheduler_names(),
            features: context.queue().features(),
            held_owners: context.held(MAX_HELD),
            unlisted: context.profiles().unlisted(),
            ..ChangeBatch::default()
        };
        for name in take(&mut self.nodes, BATCH) {
            batch.nodes.push((name, node(name, context)));
        }
        for key in take(&mut self.objects, batch.room()) {
            let json = context.cache().object(&key).map(Arc::clone);
            batch.objects.push((key, json));
        }
        for uid in take(&mut self.pods, batch.room()) {
            let pod = followed_pod(&uid, bindings, context);
            batch.pods.push((uid, pod));
        }
        while batch.room() > 0 && !matches!(self.fill, Fill::Done) {
            self.fill = std::mem::replace(&mut self.fill, Fill::Done).go_on(&mut batch, bindings, context);
        }
        batch.is_complete = self.n_changed() == 0 && matches!(self.fill, Fill::Done);
        batch
    }

    fn n_changed(&self) -> usize {
        self.nodes.len() + self.pods.len() + self.objects.len()
    }

    fn new_symbols(&mut self, context: &Context) -> Vec<(Sym, Arc<str>)> {
        let symbols = &context.table().symbols;
        let position = std::mem::replace(&mut self.symbols_position, symbols.position());
        if position == self.symbols_position {
            return Vec::new();
        }
        // From position 0, all symbols would come. The portions contain all symbols anyway.
        let changed = symbols.since(position.max(1));
        changed.into_iter().map(|(sym, _)| (sym, symbols.shared_text(sym))).collect()
    }
}

impl Fill {
    /// Adds the next portion to the batch, and returns the next position.
    fn go_on(self, batch: &mut ChangeBatch, bindings: &Bindings, context: &Context) -> Self {
        match self {
            Self::Symbols(first) => {
                let (symbols, next) = context.table().symbols.portion(first, SYMBOLS);
                batch.symbols.extend(symbols);
                next.map_or_else(|| Self::Nodes(context.cache().node_names().collect()), Self::Symbols)
            }
            Self::Nodes(mut left) => {
                let Some(name) = left.pop() else { return Self::Objects(None) };
                if let Some(node) = node(name, context) {
                    batch.nodes.push((name, Some(node)));
                }
                for pod in context.cache().pods_on(name) {
                    batch.pods.push((pod.uid.clone(), followed_pod(&pod.uid, bindings, context)));
                }
                Self::Nodes(left)
            }
            Self::Objects(after) => {
                let objects = context.cache().objects_after(after.as_ref()).take(batch.room());
                let objects: Vec<_> = objects.map(|(key, json)| (Arc::clone(key), Some(Arc::clone(json)))).collect();
                let Some((last, _)) = objects.last() else { return Self::Queue(Visited::default()) };
                let last = Arc::clone(last);
                batch.objects.extend(objects);
                Self::Objects(Some(last))
            }
            Self::Queue(mut visited) => {
                let uids = context.queue().next_portion(&mut visited, batch.room());
                if uids.is_empty() {
                    return Self::Done;
                }
                for uid in uids {
                    let pod = followed_pod(&uid, bindings, context);
                    batch.pods.push((uid, pod));
                }
                Self::Queue(visited)
            }
            Self::Done => Self::Done,
        }
    }
}

impl ChangeBatch {
    /// The number of objects that still fit. Symbols are small and many, so they count less.
    fn room(&self) -> usize {
        let n_symbols = self.symbols.len() * BATCH / SYMBOLS;
        BATCH.saturating_sub(self.nodes.len() + self.objects.len() + self.pods.len() + n_symbols)
    }
}

fn set_followed(is_followed: bool, bindings: &mut Bindings, context: &mut Context) {
    context.cache_mut().follow(is_followed);
    context.queue_mut().follow(is_followed);
    context.follow_pending_pods(is_followed);
    bindings.follow(is_followed);
}

/// Removes and returns at most `limit` members.
fn take<K: Clone + Eq + std::hash::Hash>(keys: &mut FxHashSet<K>, limit: usize) -> Vec<K> {
    if keys.len() <= limit {
        return keys.drain().collect();
    }
    let taken: Vec<K> = keys.iter().take(limit).cloned().collect();
    for key in &taken {
        keys.remove(key);
    }
    taken
}

fn node(name: Sym, context: &Context) -> Option<Node> {
    context.cache().node(name)?.row().map(|(_, node)| node.clone())
}

fn followed_pod(uid: &PodUid, bindings: &Bindings, context: &Context) -> Option<FollowedPod> {
    let cached = context.cache().pod(uid);
    let (pod, place) = if let Some(waiting) = context.queue().waiting(uid) {
        (Arc::clone(&waiting.record.pod), PodPlace::Queued(Box::new(waiting)))
    } else if let Some(binding) = bindings.followed(uid, context) {
        let pod = cached.map_or(&binding.record.pod, |cached| cached.pod());
        (Arc::clone(pod), PodPlace::Binding(Box::new(binding)))
    } else if let Some(cached) = cached {
        let node = cached.node();
        let place = if cached.is_assumed() { PodPlace::Assumed { node } } else { PodPlace::Bound { node } };
        (Arc::clone(cached.pod()), place)
    } else {
        (Arc::clone(&context.pending_pod(uid)?.pod), PodPlace::Unscheduled)
    };
    let nominated_node = context.queue().nominator().node_of(uid).unwrap_or_default();
    Some(FollowedPod { pod, limits: context.limits(uid), nominated_node, place })
}
