//! The labels of all nodes, by key.

use rustc_hash::FxHashMap;

use crate::{node_set::NodeIdx, symbols::Sym};

/// A table with a column of value symbols for each label key. A key that few nodes have costs memory only for those
/// nodes.
#[derive(Clone, Debug, Default)]
pub struct LabelTable {
    columns: FxHashMap<Sym, LabelColumn>,
    rows: Vec<Box<[(Sym, Sym)]>>,
    version: u64,
    /// The number of columns that remained after the last deletion of unused columns.
    n_in_use: usize,
}

/// A table with fewer columns keeps its unused columns.
const MIN_COLUMNS: usize = 64;

/// The values of one label key over all nodes.
#[derive(Clone, Debug)]
pub enum LabelColumn {
    /// The values, sorted by node.
    Sparse(Vec<(NodeIdx, Sym)>),
    /// The values, indexed by node. [`Sym::NONE`] stands for an absent key, and [`LabelColumn::EMPTY`] for an empty
    /// value.
    Dense(Vec<Sym>),
}

impl LabelColumn {
    /// The symbol that stands for an empty value in a dense column. [`Sym::NONE`], the symbol of the empty text, means
    /// an absent key there.
    pub const EMPTY: Sym = Sym(u32::MAX);

    /// The value at `node`; `None` if the key is absent.
    #[must_use]
    pub fn get(&self, node: NodeIdx) -> Option<Sym> {
        let stored = match self {
            Self::Sparse(values) => {
                values.binary_search_by_key(&node, |(at, _)| *at).ok().and_then(|at| values.get(at)).map(|(_, v)| *v)
            }
            Self::Dense(values) => values.get(node.index()).copied().filter(|value| !value.is_none()),
        };
        stored.map(|value| if value == Self::EMPTY { Sym::NONE } else { value })
    }

    fn set(&mut self, node: NodeIdx, value: Option<Sym>) {
        let stored = value.map(|value| if value.is_none() { Self::EMPTY } else { value });
        match self {
            Self::Sparse(values) => match (values.binary_search_by_key(&node, |(at, _)| *at), stored) {
                (Ok(at), Some(value)) => values[at].1 = value,
                (Ok(at), None) => drop(values.remove(at)),
                (Err(at), Some(value)) => values.insert(at, (node, value)),
                (Err(_), None) => {}
            },
            Self::Dense(values) => {
                if node.index() >= values.len() {
                    values.resize(node.index() + 1, Sym::NONE);
                }
                values[node.index()] = stored.unwrap_or_default();
            }
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Sparse(values) => values.is_empty(),
            Self::Dense(values) => values.iter().all(|value| value.is_none()),
        }
    }

    /// Makes a column dense if at least an eighth of the nodes have the key. Dense columns are read by index, and
    /// sparse columns by search.
    fn densify(&mut self, n_rows: usize) {
        if let Self::Sparse(values) = self
            && values.len() >= 8
            && values.len() * 8 >= n_rows
        {
            let mut dense = vec![Sym::NONE; n_rows];
            for &(node, value) in values.iter() {
                if let Some(slot) = dense.get_mut(node.index()) {
                    *slot = value;
                }
            }
            *self = Self::Dense(dense);
        }
    }
}

impl LabelTable {
    /// The column of `key`; `None` if no node has the key.
    #[must_use]
    pub fn column(&self, key: Sym) -> Option<&LabelColumn> {
        self.columns.get(&key)
    }

    /// All labels of `node`.
    #[must_use]
    pub fn of(&self, node: NodeIdx) -> &[(Sym, Sym)] {
        self.rows.get(node.index()).map_or(&[], |labels| labels)
    }

    /// A number that grows whenever the labels of some node change. Results from columns hold as long as the number
    /// stays the same.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Empties the table. The version continues to count.
    pub(crate) fn clear(&mut self) {
        *self = Self { version: self.version + 1, ..Self::default() };
    }

    pub(crate) fn set(&mut self, node: NodeIdx, labels: &[(Sym, Sym)]) {
        if self.of(node) == labels {
            return;
        }
        self.version += 1;
        if node.index() >= self.rows.len() {
            self.rows.resize(node.index() + 1, Box::default());
        }
        let old = std::mem::replace(&mut self.rows[node.index()], labels.into());
        for (key, _) in old.iter().filter(|(key, _)| !labels.iter().any(|(kept, _)| kept == key)) {
            if let Some(column) = self.columns.get_mut(key) {
                column.set(node, None);
            }
        }
        let n_rows = self.rows.len();
        self.make_room();
        for &(key, value) in labels {
            let column = self.columns.entry(key).or_insert_with(|| LabelColumn::Sparse(Vec::new()));
            column.set(node, Some(value));
            column.densify(n_rows);
        }
    }

    /// Deletes the columns of keys that no node has. The search for them runs only once half of the columns may be
    /// unused.
    fn make_room(&mut self) {
        if self.columns.len() >= MIN_COLUMNS.max(2 * self.n_in_use) {
            self.columns.retain(|_, column| !column.is_empty());
            self.n_in_use = self.columns.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_no_node_carries_are_forgotten() {
        let mut table = LabelTable::default();
        for key in 20..20_000 {
            table.set(NodeIdx(key % 3), &[(Sym(key), Sym(1)), (Sym::ZONE_LABEL, Sym(2))]);
            assert_eq!(table.column(Sym(key)).and_then(|column| column.get(NodeIdx(key % 3))), Some(Sym(1)));
        }
        assert!(table.columns.len() <= 2 * MIN_COLUMNS, "{} columns for four labels", table.columns.len());
        assert_eq!(table.column(Sym::ZONE_LABEL).and_then(|column| column.get(NodeIdx(1))), Some(Sym(2)));
    }

    #[test]
    fn the_version_tells_whether_labels_changed() {
        let mut table = LabelTable::default();
        let zone = |value| [(Sym::ZONE_LABEL, Sym(value))];
        table.set(NodeIdx(3), &zone(20));
        let version = table.version();
        table.set(NodeIdx(3), &zone(20));
        table.set(NodeIdx(7), &[]);
        assert_eq!(table.version(), version);
        table.set(NodeIdx(3), &zone(21));
        assert!(table.version() > version);
        let version = table.version();
        table.clear();
        assert!(table.version() > version);
        assert!(table.column(Sym::ZONE_LABEL).is_none());
        assert_eq!(table.of(NodeIdx(3)), []);
    }
}
