//! The changes in a [`ClusterTable`](crate::cluster_table::ClusterTable) since a replica was last updated, as columns.
//!
//! A delta contains only the columns that its replica needs, and in each column only the rows that changed. A replica
//! that applies every delta in order, or one full delta, equals its source in those columns.

use std::sync::Arc;

use crate::{
    api::StringMap,
    node_set::NodeIdx,
    pod::{HostPort, NonZero, Pod, Resources, Taint},
    pod_table::PodIdx,
    symbols::Sym,
};

/// A column of the node table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Column {
    /// `metadata.name`.
    Name,
    /// `spec.unschedulable`.
    Unschedulable,
    /// `metadata.labels`.
    Labels,
    /// `spec.taints`.
    Taints,
    /// `status.allocatable`, including pods.
    Allocatable,
    /// The sum of the requests of the pods on the node.
    Requested,
    /// The sum of the requests for CPU and memory, with defaults for containers without requests.
    NonZeroRequested,
    /// Number of pods on the node.
    PodCount,
    /// `status.images`.
    Images,
    /// Host ports in use.
    HostPorts,
    /// `status.declaredFeatures`.
    DeclaredFeatures,
    /// `metadata.annotations`, with the keys that were asked for.
    Annotations,
}

impl Column {
    /// Every column.
    pub const ALL: [Column; 12] = [
        Column::Name,
        Column::Unschedulable,
        Column::Labels,
        Column::Taints,
        Column::Allocatable,
        Column::Requested,
        Column::NonZeroRequested,
        Column::PodCount,
        Column::Images,
        Column::HostPorts,
        Column::DeclaredFeatures,
        Column::Annotations,
    ];

    /// The position in [`Column::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// A set of columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Columns(u16);

impl Columns {
    /// No column.
    pub const NONE: Columns = Columns(0);

    /// Every column.
    #[must_use]
    pub fn all() -> Self {
        Column::ALL.into_iter().collect()
    }

    /// Whether the column is a member.
    #[must_use]
    pub fn contains(self, column: Column) -> bool {
        self.0 >> column.index() & 1 == 1
    }

    /// Adds a column.
    pub fn insert(&mut self, column: Column) {
        self.0 |= 1 << column.index();
    }

    /// Whether the set has no members.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members in the order of [`Column::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Column> {
        Column::ALL.into_iter().filter(move |&column| self.contains(column))
    }
}

impl FromIterator<Column> for Columns {
    fn from_iter<T: IntoIterator<Item = Column>>(columns: T) -> Self {
        let mut set = Self::default();
        for column in columns {
            set.insert(column);
        }
        set
    }
}

/// Lists of one item type for several rows, one after the other: row `i` has `items[ends[i-1]..ends[i]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lists<T> {
    /// The end of each row's list in `items`.
    pub ends: Vec<u32>,
    /// The items of all rows.
    pub items: Vec<T>,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self { ends: Vec::new(), items: Vec::new() }
    }
}

impl<T> Lists<T> {
    /// Appends the list of the next row.
    pub fn push(&mut self, items: impl IntoIterator<Item = T>) {
        self.items.extend(items);
        self.ends.push(u32::try_from(self.items.len()).unwrap_or(u32::MAX));
    }

    /// The lists in row order. A list with impossible bounds is empty.
    pub fn iter(&self) -> impl Iterator<Item = &[T]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| self.items.get(start as usize..end as usize).unwrap_or_default())
    }
}

/// The amounts of several resources for several rows: `values[r][i]` is the amount of resource `names[r]` in row `i`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceColumns {
    /// The names of the resources.
    pub names: Vec<Sym>,
    /// The amounts, by resource and row.
    pub values: Vec<Vec<i64>>,
}

/// New values of one column, in the order of [`ColumnChange::rows`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnData {
    /// `metadata.name`.
    Name(Vec<Sym>),
    /// `spec.unschedulable`.
    Unschedulable(Vec<bool>),
    /// Labels as key and value.
    Labels(Lists<(Sym, Sym)>),
    /// The ids of taint sets, which are in [`Delta::taint_sets`]; 0 is the empty set.
    Taints(Vec<u32>),
    /// The amounts of each resource; `pods` is one of the names.
    Allocatable(ResourceColumns),
    /// The requests of every resource that any node has in use. Other resources are not in use on these rows.
    Requested(ResourceColumns),
    /// See [`Column::NonZeroRequested`].
    NonZeroRequested {
        /// Thousandths of a CPU.
        milli_cpu: Vec<i64>,
        /// Bytes.
        memory: Vec<i64>,
    },
    /// See [`Column::PodCount`].
    PodCount(Vec<i64>),
    /// Image names. Their sizes are in [`Delta::image_sizes`].
    Images(Lists<Sym>),
    /// Ports in use.
    HostPorts(Lists<HostPort>),
    /// `status.declaredFeatures`.
    DeclaredFeatures(Lists<Sym>),
    /// Annotations. They are not interned, because they are long, and seldom shared or asked for.
    Annotations(Vec<Arc<StringMap>>),
}

/// The rows of one column that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnChange {
    /// The rows.
    pub rows: Vec<NodeIdx>,
    /// The new values of the rows.
    pub data: ColumnData,
}

/// A pod on a node of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedPod {
    /// The pod's place in the list of pods.
    pub idx: PodIdx,
    /// The row of the pod's node.
    pub node: NodeIdx,
    /// The pod.
    pub pod: Arc<Pod>,
}

/// A whole object other than a pod or a node, or its deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectChange {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// The namespace; empty for kinds without namespaces.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// The object as the API server sent it; `None` if it was deleted.
    pub json: Option<Arc<[u8]>>,
}

/// The maximum number of symbols, pods or objects in one portion of a delta; see [`Delta::into_portions`].
const AT_ONCE: usize = 2048;
/// The maximum number of bytes of texts, JSON and pods in one portion, unless a single object is larger.
const BYTES_AT_ONCE: usize = 1 << 20;

/// The changes with which a replica reaches `generation`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    pub generation: u64,
    /// Whether the replica must first forget everything except symbols.
    pub full: bool,
    /// Symbols made or freed since the replica's last delta. A freed symbol has an empty text.
    pub symbols: Vec<(Sym, String)>,
    /// The [`Symbols::position`](crate::Symbols::position) of the source. After this delta, the replica has all symbols
    /// up to this position.
    pub symbols_position: u64,
    pub taint_sets: Vec<(u32, Vec<Taint>)>,
    /// Sizes in bytes by image name, for images that are new or whose size changed.
    pub image_sizes: Vec<(Sym, i64)>,
    pub removed: Vec<NodeIdx>,
    pub added: Vec<NodeIdx>,
    pub columns: Vec<ColumnChange>,
    /// The slots to empty before the nodes of [`Self::removed`] are removed. A slot may be empty in the replica
    /// already.
    pub pods_removed: Vec<PodIdx>,
    /// The pods to place after the rows.
    pub pods_placed: Vec<PlacedPod>,
    pub objects: Vec<ObjectChange>,
}

impl Delta {
    /// Whether the delta would change only the generation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.full
            && self.symbols.is_empty()
            && self.taint_sets.is_empty()
            && self.image_sizes.is_empty()
            && self.removed.is_empty()
            && self.added.is_empty()
            && self.columns.is_empty()
            && self.pods_removed.is_empty()
            && self.pods_placed.is_empty()
            && self.objects.is_empty()
    }
}

impl Delta {
    /// Splits the delta into portions of the same generation. The caller must apply all portions, one after the other,
    /// before it asks the replica a question. A large cluster in one call would need too much memory and time. Symbols
    /// come first, then rows, then objects, and then the pods that refer to them.
    #[must_use]
    pub fn into_portions(mut self) -> Vec<Delta> {
        if self.is_small() {
            return vec![self];
        }
        let (symbols, objects) = (std::mem::take(&mut self.symbols), std::mem::take(&mut self.objects));
        let pods = std::mem::take(&mut self.pods_placed);
        let mut portions = Portions::new(&mut self);
        for symbol in symbols {
            portions.add(symbol.1.len(), |portion| portion.symbols.push(symbol));
        }
        portions.add_rows(self);
        for object in objects {
            portions.add(object.n_bytes(), |portion| portion.objects.push(object));
        }
        for placed in pods {
            portions.add(placed.n_bytes(), |portion| portion.pods_placed.push(placed));
        }
        portions.finish()
    }

    /// The bytes of the texts, pods and objects in the delta.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        let texts = self.symbols.iter().map(|(_, text)| text.len());
        texts
            .chain(self.objects.iter().map(ObjectChange::n_bytes))
            .chain(self.pods_placed.iter().map(PlacedPod::n_bytes))
            .sum()
    }

    /// Whether the whole delta fits into one portion.
    fn is_small(&self) -> bool {
        let n_items = self.symbols.len() + self.objects.len() + self.pods_placed.len();
        n_items < AT_ONCE && self.n_bytes() < BYTES_AT_ONCE
    }
}

/// The usage of a node by its pods, as new values of some columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The row of the node.
    pub node: NodeIdx,
    /// See [`Column::Requested`].
    pub requested: Option<Resources>,
    /// See [`Column::NonZeroRequested`].
    pub non_zero_requested: Option<NonZero>,
    /// See [`Column::PodCount`].
    pub pod_count: Option<i64>,
}

/// The portions of a delta that is being split.
struct Portions {
    done: Vec<Delta>,
    open: Delta,
    n_items: usize,
    n_bytes: usize,
    /// The content with which each portion begins.
    blank: Delta,
}

impl Portions {
    /// Makes the first portion. This portion removes pods, and forgets everything if `whole` is full. Pods are removed
    /// first, because the symbols of removed pods may get another meaning in later portions.
    fn new(whole: &mut Delta) -> Self {
        let (generation, symbols_position) = (whole.generation, whole.symbols_position);
        let blank = Delta { generation, symbols_position, ..Delta::default() };
        let pods_removed = std::mem::take(&mut whole.pods_removed);
        let open = Delta { full: std::mem::take(&mut whole.full), pods_removed, ..blank.clone() };
        Self { done: Vec::new(), open, n_items: 0, n_bytes: 0, blank }
    }

    fn add(&mut self, n_bytes: usize, put: impl FnOnce(&mut Delta)) {
        put(&mut self.open);
        self.n_items += 1;
        self.n_bytes += n_bytes;
        if self.n_items == AT_ONCE || self.n_bytes >= BYTES_AT_ONCE {
            self.done.push(std::mem::replace(&mut self.open, self.blank.clone()));
            (self.n_items, self.n_bytes) = (0, 0);
        }
    }

    fn add_rows(&mut self, rows: Delta) {
        let Delta { full, symbols, pods_removed, .. } = std::mem::take(&mut self.open);
        self.open = Delta { full, symbols, pods_removed, ..rows };
    }

    fn finish(mut self) -> Vec<Delta> {
        if self.done.is_empty() || !self.open.is_empty() {
            self.done.push(self.open);
        }
        self.done
    }
}

impl PlacedPod {
    /// An estimate of the memory that the pod takes in a component.
    fn n_bytes(&self) -> usize {
        const OF_ANY_POD: usize = 256;
        const OF_A_SYMBOL: usize = 16;
        OF_ANY_POD + OF_A_SYMBOL * self.pod.uses.n_symbols()
    }
}

impl ObjectChange {
    fn n_bytes(&self) -> usize {
        self.json.as_ref().map_or(0, |json| json.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: usize, n_bytes: usize) -> ObjectChange {
        ObjectChange {
            api_version: "v1".to_owned(),
            kind: "PersistentVolumeClaim".to_owned(),
            namespace: "default".to_owned(),
            name: name.to_string(),
            json: Some(vec![b' '; n_bytes].into()),
        }
    }

    fn placed(slot: u32) -> PlacedPod {
        PlacedPod { idx: PodIdx(slot), node: NodeIdx(0), pod: Arc::default() }
    }

    #[test]
    fn a_small_delta_stays_whole() {
        let delta = Delta { generation: 3, full: true, objects: vec![object(0, 10)], ..Delta::default() };
        assert_eq!(delta.clone().into_portions(), [delta]);
    }

    #[test]
    fn portions_hold_everything_once_and_in_order() {
        let symbol = |at: u32| (Sym(at), "x".repeat(if at.is_multiple_of(1_000) { 900 } else { 10 }));
        let whole = Delta {
            generation: 7,
            symbols_position: 9,
            full: true,
            symbols: (11..200_000).map(symbol).collect(),
            added: vec![NodeIdx(0)],
            pods_removed: vec![PodIdx(9)],
            objects: (0..5_000).map(|at| object(at, if at % 1_000 == 0 { 2 * BYTES_AT_ONCE } else { 100 })).collect(),
            pods_placed: (0..5_000).map(placed).collect(),
            ..Delta::default()
        };
        let portions = whole.clone().into_portions();
        let mut together = Delta { generation: 7, symbols_position: 9, full: portions[0].full, ..Delta::default() };
        for portion in portions {
            assert!(!portion.is_empty() && portion.generation == 7 && portion.symbols_position == 9);
            assert!(together.is_empty() || together.symbols.is_empty() || !portion.full, "forgets once, at first");
            let n_items = portion.symbols.len() + portion.objects.len() + portion.pods_placed.len();
            assert!(n_items <= AT_ONCE);
            let before_the_last = portion.objects.iter().rev().skip(1).map(ObjectChange::n_bytes);
            assert!(before_the_last.sum::<usize>() < BYTES_AT_ONCE);
            assert!(portion.pods_removed.is_empty() || together.symbols.is_empty(), "pods leave first");
            assert!(portion.symbols.is_empty() || together.added.is_empty(), "symbols come before rows");
            assert!(portion.objects.is_empty() || together.pods_placed.is_empty(), "objects come before pods");
            together.symbols.extend(portion.symbols);
            together.added.extend(portion.added);
            together.pods_removed.extend(portion.pods_removed);
            together.objects.extend(portion.objects);
            together.pods_placed.extend(portion.pods_placed);
        }
        assert_eq!(together, whole);
    }
}
