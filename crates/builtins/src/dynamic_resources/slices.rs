//! The ResourceSlices, indexed by the nodes that can use them and by their pools.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_model::{
    api::StringMap,
    quantity::Quantity,
    selector::{NodeMatcher, SelectorError},
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    cel::DeviceKey,
    device_id::{DeviceId, PoolId},
    in_use::{DeviceNumber, InUse},
    objects::{CounterSet, Device, NodeSelector, NodeSelectorTerm, ResourceSlice},
};

/// The facts about a node that node selectors need.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeView<'a> {
    pub(super) name: &'a str,
    pub(super) labels: &'a StringMap,
}

/// The nodes that can use a slice or a device.
#[derive(Clone, Debug, Default)]
pub(super) enum Placement {
    /// No field is set, so no node can use the slice or device.
    #[default]
    Nowhere,
    Everywhere,
    Node(Box<str>),
    Selected {
        matcher: NodeMatcher,
        terms: Vec<NodeSelectorTerm>,
    },
}

impl Placement {
    fn new(node_name: Option<&str>, selector: Option<&NodeSelector>, all_nodes: Option<bool>) -> Self {
        match (node_name.filter(|name| !name.is_empty()), selector) {
            (Some(name), _) => Self::Node(name.into()),
            (None, Some(selector)) => {
                Self::Selected { matcher: selector.matcher(), terms: selector.node_selector_terms.clone() }
            }
            (None, None) if all_nodes == Some(true) => Self::Everywhere,
            (None, None) => Self::Nowhere,
        }
    }

    fn includes(&self, node: NodeView<'_>) -> Result<bool, SelectorError> {
        match self {
            Self::Nowhere => Ok(false),
            Self::Everywhere => Ok(true),
            Self::Node(name) => Ok(**name == *node.name),
            Self::Selected { matcher, .. } => matcher.matches(node.name, node.labels),
        }
    }
}

/// A node selector of a slice, or of one of its devices, that cannot be evaluated.
#[derive(Debug, thiserror::Error)]
#[error("failed to perform node selection for slice {slice}: {source}")]
pub(super) struct PlacementError {
    slice: String,
    source: SelectorError,
}

/// A device of a slice.
#[derive(Debug)]
pub(super) struct SliceDevice {
    pub(super) id: DeviceId,
    /// The number of the device in [`InUse`].
    pub(super) number: DeviceNumber,
    pub(super) key: DeviceKey,
    pub(super) device: Device,
    /// The placement of the device if the slice has `perDeviceNodeSelection`, otherwise the placement of the slice.
    pub(super) placement: Arc<Placement>,
}

/// A ResourceSlice, prepared for lookups.
#[derive(Debug)]
pub(super) struct Slice {
    pub(super) name: String,
    pub(super) pool: PoolId,
    pub(super) generation: i64,
    pub(super) n_slices_of_pool: i64,
    /// The placement; `None` if each device has a separate placement.
    placement: Option<Arc<Placement>>,
    pub(super) devices: Vec<Arc<SliceDevice>>,
    counters: Counters,
    n_counter_sets: usize,
}

/// Amounts by counter set, then counter.
pub(super) type Counters = BTreeMap<String, BTreeMap<String, Quantity>>;

/// Facts about the newest generation of a pool, from all its slices, for any node.
#[derive(Clone, Debug, Default)]
pub(super) struct PoolFacts {
    pub(super) generation: i64,
    /// The number of slices of that generation.
    pub(super) n_slices: i64,
    /// Whether several devices have one name. They may be for different nodes.
    pub(super) has_equal_names: bool,
    /// Whether counter sets have one name, or devices consume counters that no slice has.
    pub(super) has_wrong_counters: bool,
    pub(super) counters: Counters,
    /// Whether a slice with counters belongs to a pool that is incomplete or has wrong counters.
    has_doubtful_counters: bool,
}

/// The nodes with devices that may have changed.
#[derive(Debug, Default)]
pub(super) struct ChangedNodes {
    pub(super) nodes: FxHashSet<String>,
    /// Whether the devices of all nodes may have changed.
    pub(super) is_everywhere: bool,
}

/// All slices. After changes, [`SliceTable::refresh`] must be called before anything is read.
#[derive(Debug, Default)]
pub(super) struct SliceTable {
    slices: BTreeMap<String, Arc<Slice>>,
    of_node: FxHashMap<String, BTreeSet<String>>,
    of_many_nodes: BTreeSet<String>,
    of_pool: BTreeMap<PoolId, BTreeSet<String>>,
    facts: BTreeMap<PoolId, PoolFacts>,
    /// The pools with [`PoolFacts::has_doubtful_counters`].
    doubtful_pools: BTreeSet<PoolId>,
    changed_pools: BTreeSet<PoolId>,
    changed: ChangedNodes,
    n_keys: u64,
}

impl SliceTable {
    /// Adds a slice or replaces its previous version. Its devices have numbers in `in_use` until [`SliceTable::remove`].
    pub(super) fn insert(&mut self, slice: &ResourceSlice, in_use: &mut InUse) {
        self.remove(&slice.metadata.name, in_use);
        let slice = self.indexed(slice, in_use);
        let name = slice.name.clone();
        match slice.placement.as_deref() {
            Some(Placement::Node(node)) => self.of_node.entry(node.to_string()).or_default().insert(name.clone()),
            _ => self.of_many_nodes.insert(name.clone()),
        };
        self.of_pool.entry(slice.pool.clone()).or_default().insert(name.clone());
        self.changed_pools.insert(slice.pool.clone());
        self.slices.insert(name, Arc::new(slice));
    }

    pub(super) fn remove(&mut self, name: &str, in_use: &mut InUse) {
        let Some(slice) = self.slices.remove(name) else { return };
        slice.devices.iter().for_each(|device| in_use.deregister(&device.id));
        self.changed.add(&slice);
        if let Some(Placement::Node(node)) = slice.placement.as_deref()
            && let Some(names) = self.of_node.get_mut(&**node)
        {
            names.remove(name);
            if names.is_empty() {
                self.of_node.remove(&**node);
            }
        }
        self.of_many_nodes.remove(name);
        if let Some(names) = self.of_pool.get_mut(&slice.pool) {
            names.remove(name);
        }
        self.changed_pools.insert(slice.pool.clone());
    }

    fn indexed(&mut self, slice: &ResourceSlice, in_use: &mut InUse) -> Slice {
        let spec = &slice.spec;
        let pool = PoolId { driver: spec.driver.as_str().into(), pool: spec.pool.name.as_str().into() };
        let placement = (spec.per_device_node_selection != Some(true))
            .then(|| Arc::new(Placement::new(spec.node_name.as_deref(), spec.node_selector.as_ref(), spec.all_nodes)));
        let mut devices = Vec::with_capacity(spec.devices.len());
        for device in &spec.devices {
            let id = DeviceId { pool: pool.clone(), device: device.name.as_str().into() };
            let own = || Placement::new(device.node_name.as_deref(), device.node_selector.as_ref(), device.all_nodes);
            let placement = placement.clone().unwrap_or_else(|| Arc::new(own()));
            self.n_keys += 1;
            let (number, key) = (in_use.register(&id), DeviceKey(self.n_keys));
            devices.push(Arc::new(SliceDevice { id, number, key, placement, device: device.clone() }));
        }
        let n_counter_sets = spec.shared_counters.len();
        let amounts = |set: &CounterSet| {
            set.counters.iter().map(|(name, counter)| (name.clone(), counter.value.clone())).collect()
        };
        let counters = spec.shared_counters.iter().map(|set| (set.name.clone(), amounts(set))).collect();
        Slice {
            name: slice.metadata.name.clone(),
            generation: spec.pool.generation,
            n_slices_of_pool: spec.pool.resource_slice_count,
            pool,
            placement,
            devices,
            counters,
            n_counter_sets,
        }
    }

    /// Brings the facts about pools up to date. Returns the nodes on which devices may have changed.
    pub(super) fn refresh(&mut self) -> ChangedNodes {
        let mut changed = std::mem::take(&mut self.changed);
        for pool in std::mem::take(&mut self.changed_pools) {
            if self.of_pool.get(&pool).is_some_and(BTreeSet::is_empty) {
                self.of_pool.remove(&pool);
            }
            self.slices_of(&pool).for_each(|slice| changed.add(slice));
            let facts = facts(self.slices_of(&pool));
            let was_doubtful = self.doubtful_pools.remove(&pool);
            let is_doubtful = facts.as_ref().is_some_and(|facts| facts.has_doubtful_counters);
            changed.is_everywhere |= was_doubtful || is_doubtful;
            if is_doubtful {
                self.doubtful_pools.insert(pool.clone());
            }
            match facts {
                Some(facts) => drop(self.facts.insert(pool, facts)),
                None => drop(self.facts.remove(&pool)),
            }
        }
        changed
    }

    /// Whether some slices select nodes by label, or are for all nodes.
    pub(super) fn has_shared_slices(&self) -> bool {
        !self.of_many_nodes.is_empty()
    }

    fn slices_of(&self, pool: &PoolId) -> impl Iterator<Item = &Slice> + Clone {
        self.of_pool.get(pool).into_iter().flatten().filter_map(|name| self.slices.get(name)).map(Arc::as_ref)
    }

    pub(super) fn facts(&self, pool: &PoolId) -> Option<&PoolFacts> {
        self.facts.get(pool)
    }

    /// The pools that may be incomplete or invalid for every node, if slices with counters are for every node.
    pub(super) fn doubtful_pools(&self) -> impl Iterator<Item = &PoolId> {
        self.doubtful_pools.iter()
    }

    /// The slices of the pool that have counters, for any node.
    pub(super) fn counter_slices_of(&self, pool: &PoolId) -> impl Iterator<Item = &Slice> {
        self.slices_of(pool).filter(|slice| slice.has_counters())
    }

    /// All devices of a pool's newest generation, for any node.
    pub(super) fn devices_of(&self, pool: &PoolId) -> impl Iterator<Item = &SliceDevice> {
        let newest = self.facts.get(pool).map(|facts| facts.generation);
        let slices = self.slices_of(pool).filter(move |slice| Some(slice.generation) == newest);
        slices.flat_map(|slice| &slice.devices).map(Arc::as_ref)
    }

    /// The slices for `node`, ordered by name. If a slice has a separate node selection for each device, at least one of
    /// its devices is for the node.
    ///
    /// # Errors
    /// A node selector cannot be evaluated.
    pub(super) fn usable_on<'a>(&'a self, node: NodeView<'_>) -> Result<Vec<&'a Slice>, PlacementError> {
        let of_node = self.of_node.get(node.name).into_iter().flatten();
        let mut usable: Vec<&Slice> = of_node.filter_map(|name| self.slices.get(name)).map(Arc::as_ref).collect();
        for slice in self.of_many_nodes.iter().filter_map(|name| self.slices.get(name)) {
            let is_usable = slice.is_usable_on(node);
            if is_usable.map_err(|source| PlacementError { slice: slice.name.clone(), source })? {
                usable.push(slice);
            }
        }
        usable.sort_unstable_by_key(|slice| slice.name.as_str());
        Ok(usable)
    }
}

impl ChangedNodes {
    fn add(&mut self, slice: &Slice) {
        match slice.placement.as_deref() {
            Some(Placement::Node(node)) => drop(self.nodes.insert(node.to_string())),
            _ => self.is_everywhere = true,
        }
    }
}

impl Slice {
    /// Whether each device of the slice has a separate node selection.
    pub(super) fn selects_by_device(&self) -> bool {
        self.placement.is_none()
    }

    pub(super) fn has_counters(&self) -> bool {
        self.n_counter_sets > 0
    }

    fn is_usable_on(&self, node: NodeView<'_>) -> Result<bool, SelectorError> {
        if let Some(placement) = &self.placement {
            return placement.includes(node);
        }
        for device in &self.devices {
            if device.placement.includes(node)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl SliceDevice {
    /// A selector that cannot be evaluated selects no node; [`SliceTable::usable_on`] has reported it.
    pub(super) fn is_usable_on(&self, node: NodeView<'_>) -> bool {
        self.placement.includes(node).unwrap_or(false)
    }

    pub(super) fn consumes_counters(&self) -> impl Iterator<Item = (&str, &str, &Quantity)> {
        let sets = self.device.consumes_counters.iter();
        sets.flat_map(|set| set.counters.iter().map(|(name, it)| (set.counter_set.as_str(), name.as_str(), &it.value)))
    }
}

/// `None` for a pool without slices.
fn facts<'a>(slices: impl Iterator<Item = &'a Slice> + Clone) -> Option<PoolFacts> {
    let generation = slices.clone().map(|slice| slice.generation).max()?;
    let newest = slices.filter(|slice| slice.generation == generation);
    let mut facts = PoolFacts { generation, ..PoolFacts::default() };
    let mut n_expected = 0;
    let mut names = BTreeSet::new();
    for slice in newest.clone() {
        facts.n_slices += 1;
        n_expected = n_expected.max(slice.n_slices_of_pool);
        let n_known = facts.counters.len();
        facts.counters.extend(slice.counters.iter().map(|(name, amounts)| (name.clone(), amounts.clone())));
        facts.has_wrong_counters |= facts.counters.len() != n_known + slice.n_counter_sets;
        for device in &slice.devices {
            facts.has_equal_names |= !names.insert(&device.id.device);
        }
    }
    let is_known = |(set, counter, _): (&str, &str, &Quantity)| {
        facts.counters.get(set).is_some_and(|counters| counters.contains_key(counter))
    };
    // Counters of a slice that has not arrived yet are missing, not wrong.
    let is_complete = facts.n_slices >= n_expected;
    let mut consumed = newest.clone().flat_map(|slice| &slice.devices).flat_map(|device| device.consumes_counters());
    facts.has_wrong_counters |= is_complete && !consumed.all(is_known);
    let mut with_counters = newest.filter(|slice| slice.has_counters());
    let is_doubtful = |slice: &Slice| facts.has_wrong_counters || slice.n_slices_of_pool != facts.n_slices;
    facts.has_doubtful_counters = with_counters.any(is_doubtful);
    Some(facts)
}
