//! Amounts of resources by node. Resource names come and go with nodes and pods, so a column that contains only zeros
//! is freed after a while.

use rustc_hash::FxHashMap;

use super::{at, put};
use crate::{delta::ResourceColumns, node_set::NodeIdx, pod::Resources, symbols::Sym};

/// The amounts of every resource. Each resource has a column.
#[derive(Clone, Debug, Default)]
pub struct ResourceTable {
    columns: FxHashMap<Sym, Vec<i64>>,
    /// The number of columns that remained after the last deletion of unused columns.
    n_in_use: usize,
}

/// A table with fewer columns keeps its unused columns.
const MIN_COLUMNS: usize = 16;

impl ResourceTable {
    /// The column of `resource`. The column may be empty or shorter than the table. Nodes beyond the end of the column
    /// have none of the resource.
    #[must_use]
    pub fn column(&self, resource: Sym) -> &[i64] {
        self.columns.get(&resource).map_or(&[], |column| column)
    }

    /// The amount of `resource` at `node`; 0 if the node lacks the resource.
    #[must_use]
    pub fn get(&self, resource: Sym, node: NodeIdx) -> i64 {
        at(self.column(resource), node)
    }

    /// The resources that any node has.
    pub fn names(&self) -> impl Iterator<Item = Sym> {
        self.columns.keys().copied()
    }

    pub(super) fn set(&mut self, resource: Sym, node: NodeIdx, amount: i64) {
        if !self.columns.contains_key(&resource) {
            if amount == 0 {
                return;
            }
            self.make_room();
        }
        put(self.columns.entry(resource).or_default(), node, amount);
    }

    /// Deletes the columns of resources that no node has. The search for them runs only once half of the columns may be
    /// unused.
    fn make_room(&mut self) {
        if self.columns.len() >= MIN_COLUMNS.max(2 * self.n_in_use) {
            self.columns.retain(|_, column| column.iter().any(|amount| *amount != 0));
            self.n_in_use = self.columns.len();
        }
    }

    pub(super) fn set_row(&mut self, node: NodeIdx, amounts: &Resources) {
        for column in self.columns.values_mut() {
            put(column, node, 0);
        }
        self.set(Sym::CPU, node, amounts.milli_cpu);
        self.set(Sym::MEMORY, node, amounts.memory);
        self.set(Sym::EPHEMERAL_STORAGE, node, amounts.ephemeral_storage);
        for &(name, amount) in &amounts.scalars {
            self.set(name, node, amount);
        }
    }

    pub(super) fn clear_row(&mut self, node: NodeIdx) {
        for column in self.columns.values_mut() {
            put(column, node, 0);
        }
    }

    pub(super) fn add_row(&mut self, node: NodeIdx, amounts: &Resources, sign: i64) {
        let named = [
            (Sym::CPU, amounts.milli_cpu),
            (Sym::MEMORY, amounts.memory),
            (Sym::EPHEMERAL_STORAGE, amounts.ephemeral_storage),
        ];
        for (name, amount) in named.into_iter().chain(amounts.scalars.iter().copied()) {
            let sum = self.get(name, node).saturating_add(amount.saturating_mul(sign));
            self.set(name, node, sum);
        }
    }

    pub(super) fn apply(&mut self, rows: &[NodeIdx], data: &ResourceColumns) {
        for column in self.columns.values_mut() {
            for &row in rows {
                put(column, row, 0);
            }
        }
        for (&name, values) in data.names.iter().zip(&data.values) {
            for (&row, &value) in rows.iter().zip(values) {
                self.set(name, row, value);
            }
        }
    }
}
