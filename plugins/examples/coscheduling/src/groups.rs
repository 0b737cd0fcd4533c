//! PodGroups, and the placed pods that belong to them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use berth_sdk::{
    framework::Call,
    model::{ClusterTable, ObjectView, Pod, PodTable, PodUid, Sym},
};
use serde::Deserialize;

pub(crate) const API_VERSION: &str = "scheduling.x-k8s.io/v1alpha1";
pub(crate) const KIND: &str = "PodGroup";
/// The label by which a pod names its group.
pub(crate) const LABEL: &str = "scheduling.x-k8s.io/pod-group";

/// The namespace and name of a PodGroup.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GroupName {
    namespace: String,
    name: String,
}

impl fmt::Display for GroupName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodGroup {
    spec: Spec,
}

/// `spec` of a PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Spec {
    /// The number of members that must have a node before any member is bound.
    pub(crate) min_member: usize,
    pub(crate) schedule_timeout_seconds: Option<u64>,
}

/// All groups. Members are counted once. After that, only changes are counted.
#[derive(Debug)]
pub(crate) struct Groups {
    objects: ObjectView<PodGroup>,
    position: Option<u64>,
    /// The uids of placed pods, by namespace and the label's value.
    placed: BTreeMap<(Sym, Sym), BTreeSet<PodUid>>,
}

impl Default for Groups {
    fn default() -> Self {
        Self { objects: ObjectView::new(API_VERSION, KIND), position: None, placed: BTreeMap::new() }
    }
}

impl Groups {
    /// Returns whether a pod of no group, or of a group that counts, has left a node since the last call.
    pub(crate) fn refresh(&mut self, table: &ClusterTable, mut counts: impl FnMut(&GroupName) -> bool) -> bool {
        self.objects.refresh(table.objects());
        let symbols = &table.symbols;
        let Some(label) = symbols.lookup(LABEL) else { return false };
        let pods = table.pods();
        let mut has_room = false;
        match self.position.and_then(|position| pods.since(position)) {
            Some(changes) => changes.for_each(|change| {
                self.placed.note(&change.pod, label, change.sign);
                let group = value(&change.pod, label).map(|name| GroupName {
                    namespace: symbols.text(change.pod.namespace).to_owned(),
                    name: symbols.text(name).to_owned(),
                });
                has_room |= change.sign < 0 && group.is_none_or(|group| counts(&group));
            }),
            None => self.recount(pods, label),
        }
        self.position = Some(pods.position());
        has_room
    }

    fn recount(&mut self, pods: &PodTable, label: Sym) {
        self.placed.clear();
        pods.iter().for_each(|(_, pod, _)| self.placed.note(pod, label, 1));
    }

    /// The group that the pod of this cycle belongs to.
    pub(crate) fn of(&self, call: &Call<'_>) -> Option<GroupName> {
        let symbols = &call.table.symbols;
        let name = value(call.pod, symbols.lookup(LABEL)?)?;
        Some(GroupName { namespace: symbols.text(call.pod.namespace).to_owned(), name: symbols.text(name).to_owned() })
    }

    pub(crate) fn get(&self, group: &GroupName) -> Option<Spec> {
        self.objects.get(&group.namespace, &group.name).map(|object| object.spec.clone())
    }

    /// The number of members that have a node: the members on nodes and the members in `waiting`.
    pub(crate) fn count_with<'a>(
        &self,
        table: &ClusterTable,
        group: &GroupName,
        waiting: impl Iterator<Item = &'a PodUid>,
    ) -> usize {
        let key = table.symbols.lookup(&group.namespace).zip(table.symbols.lookup(&group.name));
        let placed = key.and_then(|key| self.placed.get(&key));
        let n_unseen = waiting.filter(|uid| !placed.is_some_and(|placed| placed.contains(*uid))).count();
        placed.map_or(0, BTreeSet::len) + n_unseen
    }
}

trait Note {
    fn note(&mut self, pod: &Pod, label: Sym, sign: i32);
}

impl Note for BTreeMap<(Sym, Sym), BTreeSet<PodUid>> {
    fn note(&mut self, pod: &Pod, label: Sym, sign: i32) {
        let Some(name) = value(pod, label) else { return };
        let members = self.entry((pod.namespace, name)).or_default();
        if sign > 0 {
            members.insert(pod.uid.clone());
        } else {
            members.remove(&pod.uid);
        }
        if members.is_empty() {
            self.remove(&(pod.namespace, name));
        }
    }
}

fn value(pod: &Pod, label: Sym) -> Option<Sym> {
    pod.labels.iter().find(|(key, _)| *key == label).map(|(_, value)| *value)
}
