//! A pod and a node with simple accessors, for plugins that handle one node at a time.

use berth_framework::{Call, DryRunCase, Needs};
use berth_model::{
    ClusterTable, Column, NodeIdx, Pod, Sym,
    pod::{Resources, Taint},
};

use super::declared::{expect_annotation, expect_column, expect_field, expect_label};

/// The pod to be placed.
#[derive(Clone, Copy, Debug)]
pub struct PodView<'a> {
    pod: &'a Pod,
    table: &'a ClusterTable,
    needs: &'a Needs,
}

impl<'a> PodView<'a> {
    pub(super) fn new(call: &Call<'a>, needs: &'a Needs) -> Self {
        Self { pod: call.pod, table: call.table, needs }
    }

    /// `metadata.name`.
    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.pod.name
    }

    /// `metadata.namespace`.
    #[must_use]
    pub fn namespace(&self) -> &'a str {
        self.table.symbols.text(self.pod.namespace)
    }

    /// `spec.priority`.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.pod.priority
    }

    /// The value of a label of the pod.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&'a str> {
        value_of(self.table, &self.pod.labels, key)
    }

    /// The amount that the pod requests: milli-CPU for `cpu`, bytes, or units.
    #[must_use]
    pub fn request(&self, resource: &str) -> i64 {
        amount(self.table, &self.pod.requests, resource)
    }

    /// The whole object, if [`berth_framework::Needs::pod_json`] asks for it.
    #[must_use]
    pub fn json(&self) -> Option<&'a [u8]> {
        expect_field(self.needs.pod_json, "pod_json", "PodView::json");
        self.pod.json.as_deref()
    }

    /// All other data, with interned strings.
    #[must_use]
    pub fn record(&self) -> &'a Pod {
        self.pod
    }
}

/// A node in its current state, or in the state that a dry run assumes.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    table: &'a ClusterTable,
    node: NodeIdx,
    needs: &'a Needs,
    change: Option<(&'a [&'a Pod], &'a DryRunCase)>,
}

impl<'a> NodeView<'a> {
    pub(super) fn new(table: &'a ClusterTable, needs: &'a Needs, node: NodeIdx) -> Self {
        Self { table, node, needs, change: None }
    }

    pub(super) fn of_case(self, pods: &'a [&'a Pod], case: &'a DryRunCase) -> Self {
        Self { change: Some((pods, case)), ..self }
    }

    /// The node's name. Needs the column `Name`.
    #[must_use]
    pub fn name(&self) -> &'a str {
        expect_column(self.needs, Column::Name, "NodeView::name");
        self.table.symbols.text(self.table.name(self.node))
    }

    /// `spec.unschedulable`, as `kubectl cordon` sets it. Needs the column `Unschedulable`.
    #[must_use]
    pub fn is_unschedulable(&self) -> bool {
        expect_column(self.needs, Column::Unschedulable, "NodeView::is_unschedulable");
        self.table.unschedulable().contains(self.node)
    }

    /// The value of one label of the node. Needs the column `Labels`.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&'a str> {
        let sym = self.table.symbols.lookup(key);
        let value = sym.and_then(|sym| self.table.labels().column(sym)?.get(self.node));
        if value.is_none() {
            expect_label(self.needs, key);
        }
        value.map(|value| self.table.symbols.text(value))
    }

    /// All labels of the node. Needs the column `Labels`.
    pub fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        expect_column(self.needs, Column::Labels, "NodeView::labels");
        let table = self.table;
        let text = |sym: Sym| table.symbols.text(sym);
        table.labels().of(self.node).iter().map(move |(key, value)| (text(*key), text(*value)))
    }

    /// The value of an annotation of the node. Needs the column `Annotations` with this key among `annotation_keys`.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        let value = self.table.annotations(self.node).and_then(|annotations| annotations.get(key));
        if value.is_none() {
            expect_annotation(self.needs, key);
        }
        value.map(String::as_str)
    }

    /// `spec.taints`. Needs the column `Taints`.
    #[must_use]
    pub fn taints(&self) -> &'a [Taint] {
        expect_column(self.needs, Column::Taints, "NodeView::taints");
        let set = usize::try_from(self.table.taint_set_id(self.node)).unwrap_or_default();
        self.table.taint_sets().get(set).map_or(&[], |taints| taints)
    }

    /// The allocatable amount: milli-CPU for `cpu`, bytes, or units. Needs the column `Allocatable`.
    #[must_use]
    pub fn allocatable(&self, resource: &str) -> i64 {
        expect_column(self.needs, Column::Allocatable, "NodeView::allocatable");
        let resource = self.table.symbols.lookup(resource).unwrap_or_default();
        self.table.allocatable().get(resource, self.node)
    }

    /// The requests of the pods on the node. Needs the column `Requested`.
    #[must_use]
    pub fn requested(&self, resource: &str) -> i64 {
        expect_column(self.needs, Column::Requested, "NodeView::requested");
        let sym = self.table.symbols.lookup(resource).unwrap_or_default();
        let of = |pods: Vec<&Pod>| pods.iter().map(|pod| pod.placed_requests.get(sym)).sum::<i64>();
        self.table.requested().get(sym, self.node) - of(self.gone()) + of(self.come())
    }

    /// The number of pods on the node. Needs the column `PodCount`.
    #[must_use]
    pub fn pod_count(&self) -> usize {
        expect_column(self.needs, Column::PodCount, "NodeView::pod_count");
        let counted = self.table.pod_counts().get(self.node.index()).copied().unwrap_or(0);
        let counted = usize::try_from(counted).unwrap_or(0) + self.come().len();
        counted.saturating_sub(self.gone().len())
    }

    /// The pods on the node. Needs `pods`.
    #[must_use]
    pub fn pods(&self) -> Vec<&'a Pod> {
        expect_field(self.needs.pods, "pods", "NodeView::pods");
        let gone = self.gone();
        let there = self.table.pods().on(self.node).map(|(_, pod)| &**pod);
        let mut pods: Vec<&Pod> = there.filter(|pod| !gone.iter().any(|gone| gone.uid == pod.uid)).collect();
        pods.extend(self.come());
        pods
    }

    /// The node's slot in the columns of [`Self::table`].
    #[must_use]
    pub fn idx(&self) -> NodeIdx {
        self.node
    }

    /// The whole table, in its current state.
    #[must_use]
    pub fn table(&self) -> &'a ClusterTable {
        self.table
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

fn value_of<'a>(table: &'a ClusterTable, labels: &[(Sym, Sym)], key: &str) -> Option<&'a str> {
    let key = table.symbols.lookup(key)?;
    let (_, value) = labels.iter().find(|(other, _)| *other == key)?;
    Some(table.symbols.text(*value))
}

fn amount(table: &ClusterTable, amounts: &Resources, resource: &str) -> i64 {
    table.symbols.lookup(resource).map_or(0, |resource| amounts.get(resource))
}
