//! A pod and a node in words, for plugins that look at one at a time.

use berth_framework::{Call, DryRunCase};
use berth_model::{
    NodeIdx, Pod, Snapshot, Sym,
    pod::{Resources, Taint},
};

/// The pod to be placed.
#[derive(Clone, Copy, Debug)]
pub struct PodView<'a> {
    pod: &'a Pod,
    snapshot: &'a Snapshot,
}

impl<'a> PodView<'a> {
    pub(super) fn new(call: &Call<'a>) -> Self {
        Self { pod: call.pod, snapshot: call.snapshot }
    }

    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.pod.name
    }

    #[must_use]
    pub fn namespace(&self) -> &'a str {
        self.snapshot.symbols.text(self.pod.namespace)
    }

    #[must_use]
    pub fn priority(&self) -> i32 {
        self.pod.priority
    }

    #[must_use]
    pub fn label(&self, key: &str) -> Option<&'a str> {
        value_of(self.snapshot, &self.pod.labels, key)
    }

    /// The amount that the pod requests: milli-CPU for `cpu`, bytes, or units.
    #[must_use]
    pub fn request(&self, resource: &str) -> i64 {
        amount(self.snapshot, &self.pod.requests, resource)
    }

    /// The whole object, if [`berth_framework::Needs::pod_json`] asks for it.
    #[must_use]
    pub fn json(&self) -> Option<&'a [u8]> {
        self.pod.json.as_deref()
    }

    /// Everything else, interned.
    #[must_use]
    pub fn record(&self) -> &'a Pod {
        self.pod
    }
}

/// A node as it is, or as a dry run pretends that it were.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    snapshot: &'a Snapshot,
    node: NodeIdx,
    change: Option<(&'a [&'a Pod], &'a DryRunCase)>,
}

impl<'a> NodeView<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, node: NodeIdx) -> Self {
        Self { snapshot, node, change: None }
    }

    pub(super) fn of_case(snapshot: &'a Snapshot, pods: &'a [&'a Pod], case: &'a DryRunCase) -> Self {
        Self { snapshot, node: case.node, change: Some((pods, case)) }
    }

    /// Needs the column `Name`.
    #[must_use]
    pub fn name(&self) -> &'a str {
        self.snapshot.symbols.text(self.snapshot.name(self.node))
    }

    /// Needs the column `Unschedulable`.
    #[must_use]
    pub fn is_unschedulable(&self) -> bool {
        self.snapshot.unschedulable().contains(self.node)
    }

    /// Needs the column `Labels`.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&'a str> {
        let key = self.snapshot.symbols.lookup(key)?;
        let value = self.snapshot.labels().column(key)?.get(self.node)?;
        Some(self.snapshot.symbols.text(value))
    }

    /// Needs the column `Labels`.
    pub fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let snapshot = self.snapshot;
        let text = |sym: Sym| snapshot.symbols.text(sym);
        snapshot.labels().of(self.node).iter().map(move |(key, value)| (text(*key), text(*value)))
    }

    /// Needs the column `Annotations` with this key among `annotation_keys`.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        self.snapshot.annotations(self.node)?.get(key).map(String::as_str)
    }

    /// Needs the column `Taints`.
    #[must_use]
    pub fn taints(&self) -> &'a [Taint] {
        let set = usize::try_from(self.snapshot.taint_set_id(self.node)).unwrap_or_default();
        self.snapshot.taint_sets().get(set).map_or(&[], |taints| taints)
    }

    /// Milli-CPU for `cpu`, bytes, or units. Needs the column `Allocatable`.
    #[must_use]
    pub fn allocatable(&self, resource: &str) -> i64 {
        let resource = self.snapshot.symbols.lookup(resource).unwrap_or_default();
        self.snapshot.allocatable().get(resource, self.node)
    }

    /// What the pods on the node request. Needs the column `Requested`.
    #[must_use]
    pub fn requested(&self, resource: &str) -> i64 {
        let sym = self.snapshot.symbols.lookup(resource).unwrap_or_default();
        let of = |pods: Vec<&Pod>| pods.iter().map(|pod| pod.placed_requests.get(sym)).sum::<i64>();
        self.snapshot.requested().get(sym, self.node) - of(self.gone()) + of(self.come())
    }

    /// Needs the column `PodCount`.
    #[must_use]
    pub fn pod_count(&self) -> usize {
        let counted = self.snapshot.pod_counts().get(self.node.index()).copied().unwrap_or(0);
        let counted = usize::try_from(counted).unwrap_or(0) + self.come().len();
        counted.saturating_sub(self.gone().len())
    }

    /// The pods on the node. Needs `pods`.
    #[must_use]
    pub fn pods(&self) -> Vec<&'a Pod> {
        let gone = self.gone();
        let there = self.snapshot.pods().on(self.node).map(|(_, pod)| &**pod);
        let mut pods: Vec<&Pod> = there.filter(|pod| !gone.iter().any(|gone| gone.uid == pod.uid)).collect();
        pods.extend(self.come());
        pods
    }

    /// The node's slot in the columns of [`Self::snapshot`].
    #[must_use]
    pub fn idx(&self) -> NodeIdx {
        self.node
    }

    /// The whole table, as it is.
    #[must_use]
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    fn gone(&self) -> Vec<&'a Pod> {
        self.change.map_or_else(Vec::new, |(pods, case)| named(pods, &case.minus))
    }

    fn come(&self) -> Vec<&'a Pod> {
        self.change.map_or_else(Vec::new, |(pods, case)| named(pods, &case.plus))
    }
}

fn named<'a>(pods: &[&'a Pod], indices: &[u32]) -> Vec<&'a Pod> {
    indices.iter().filter_map(|index| pods.get(*index as usize).copied()).collect()
}

fn value_of<'a>(snapshot: &'a Snapshot, labels: &[(Sym, Sym)], key: &str) -> Option<&'a str> {
    let key = snapshot.symbols.lookup(key)?;
    let (_, value) = labels.iter().find(|(other, _)| *other == key)?;
    Some(snapshot.symbols.text(*value))
}

fn amount(snapshot: &Snapshot, amounts: &Resources, resource: &str) -> i64 {
    snapshot.symbols.lookup(resource).map_or(0, |resource| amounts.get(resource))
}
