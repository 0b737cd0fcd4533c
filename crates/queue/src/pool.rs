//! The pool of unschedulable pods, including gated pods.
//!
//! Pods of one equivalence class that the same plugins rejected form a group. For each event, plugins are asked only
//! once about a group.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use berth_model::{EquivalenceClass, PodUid};
use rustc_hash::FxHashMap;

use crate::record::QueuedPod;

/// The number of a pod that entered a place of the queue. A later pod has a higher number. The number decides between
/// pods with equal keys.
pub(crate) type Arrival = u64;

/// The number of a group. A group that was made later has a higher number.
pub(crate) type GroupId = u64;

/// Pods of one equivalence class, rejected by the same plugins.
#[derive(Debug)]
struct Group {
    class: EquivalenceClass,
    members: BTreeMap<Arrival, PodUid>,
}

#[derive(Debug, Default)]
pub(crate) struct Pool {
    pods: BTreeMap<Arrival, GroupId>,
    groups: FxHashMap<GroupId, Group>,
    by_class: FxHashMap<EquivalenceClass, Vec<GroupId>>,
    /// The groups that each plugin rejected, so that an event is checked only against pods that it may concern.
    by_rejector: FxHashMap<Arc<str>, BTreeSet<GroupId>>,
    n_groups: GroupId,
}

impl Pool {
    pub(crate) fn len(&self) -> usize {
        self.pods.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// All pods, in the order of their arrival.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Arrival, &PodUid)> {
        self.after(None)
    }

    /// The pods that came after this arrival, in the order of their arrival. `None` gives all pods.
    pub(crate) fn after(&self, arrival: Option<Arrival>) -> impl Iterator<Item = (Arrival, &PodUid)> {
        let begin = arrival.map_or(Bound::Unbounded, Bound::Excluded);
        self.pods
            .range((begin, Bound::Unbounded))
            .filter_map(|(arrival, group)| Some((*arrival, self.groups.get(group)?.members.get(arrival)?)))
    }

    pub(crate) fn group_of(&self, arrival: Arrival) -> Option<GroupId> {
        self.pods.get(&arrival).copied()
    }

    /// The groups that at least one plugin of the set rejected.
    pub(crate) fn groups_rejected_by<'a>(&self, plugins: impl Iterator<Item = &'a str>) -> BTreeSet<GroupId> {
        plugins.filter_map(|plugin| self.by_rejector.get(plugin)).flatten().copied().collect()
    }

    /// The pods of a group, in the order of their arrival.
    pub(crate) fn members(&self, group: GroupId) -> impl Iterator<Item = (Arrival, &PodUid)> {
        let members = self.groups.get(&group).map(|group| &group.members);
        members.into_iter().flatten().map(|(arrival, uid)| (*arrival, uid))
    }

    /// Adds a pod. `record_of` returns the record of a pod that is in the pool.
    pub(crate) fn insert<'a>(
        &mut self,
        arrival: Arrival,
        record: &QueuedPod,
        record_of: impl Fn(&PodUid) -> Option<&'a QueuedPod>,
    ) {
        let class = EquivalenceClass::of(&record.pod);
        let alike = self.by_class.get(&class).into_iter().flatten().find(|group| {
            let first = self.groups.get(group).and_then(|group| group.members.values().next());
            first.and_then(&record_of).is_some_and(|first| is_rejected_alike(first, record))
        });
        let id = alike.copied().unwrap_or_else(|| self.found(class, record));
        if let Some(group) = self.groups.get_mut(&id) {
            group.members.insert(arrival, record.pod.uid.clone());
        }
        self.pods.insert(arrival, id);
    }

    fn found(&mut self, class: EquivalenceClass, record: &QueuedPod) -> GroupId {
        self.n_groups += 1;
        let id = self.n_groups;
        self.groups.insert(id, Group { class: class.clone(), members: BTreeMap::new() });
        self.by_class.entry(class).or_default().push(id);
        for plugin in record.rejected_by() {
            self.by_rejector.entry(Arc::clone(plugin)).or_default().insert(id);
        }
        id
    }

    /// Removes the pod that has this arrival number.
    pub(crate) fn remove(&mut self, arrival: Arrival, record: &QueuedPod) -> Option<PodUid> {
        let id = self.pods.remove(&arrival)?;
        let group = self.groups.get_mut(&id)?;
        let uid = group.members.remove(&arrival);
        if group.members.is_empty() {
            self.dissolve(id, record);
        }
        uid
    }

    fn dissolve(&mut self, id: GroupId, last: &QueuedPod) {
        if let Some(Group { class, .. }) = self.groups.remove(&id)
            && let Some(groups) = self.by_class.get_mut(&class)
        {
            groups.retain(|group| *group != id);
            if groups.is_empty() {
                self.by_class.remove(&class);
            }
        }
        for plugin in last.rejected_by() {
            if let Some(groups) = self.by_rejector.get_mut(plugin) {
                groups.remove(&id);
                if groups.is_empty() {
                    self.by_rejector.remove(plugin);
                }
            }
        }
    }
}

/// Whether the same plugins rejected two pods of one class.
fn is_rejected_alike(one: &QueuedPod, other: &QueuedPod) -> bool {
    one.rejectors == other.rejectors && one.pending == other.pending && one.gated_by == other.gated_by
}
