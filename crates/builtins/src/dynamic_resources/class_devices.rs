//! The number of devices of a class on each node, for plugins that score nodes by extended resources which devices
//! serve (KEP-5004).
//!
//! kube-scheduler counts them in `calculateDRAResourceTotals` of `pkg/scheduler/framework/plugins/noderesources`. It
//! counts the devices of all slices for the node, whether or not their pool is complete and of the newest generation,
//! and it counts how many of these devices claims hold, with the allocations that are not written yet.

use berth_framework::{Call, Deadline};
use berth_model::{ClusterTable, Features, NodeIdx, NodeSet, Sym, api::StringMap};

use super::{
    cel::SelectorSubject,
    dra_cache::{DraCache, IN_FLIGHT, text_of},
    objects::{API_VERSION, DeviceClass},
    slices::{NodeView, SliceDevice},
};
use crate::built_in::StaticKind;

/// The kinds that a plugin must see to count devices.
pub(crate) const OBJECTS: [StaticKind; 4] = [
    StaticKind::new(API_VERSION, "DeviceClass"),
    StaticKind::new(API_VERSION, "ResourceSlice"),
    StaticKind::new(API_VERSION, "ResourceClaim"),
    IN_FLIGHT,
];

/// The devices of the cluster, if some plugin scores by them.
#[derive(Debug, Default)]
pub(crate) struct ClassDevices {
    features: Features,
    /// The cache, which the first use makes.
    cache: Option<Box<DraCache>>,
}

/// A resource on nodes: the nodes' own amounts, or the devices that serve the resource on a node that lacks it.
#[derive(Debug)]
pub(crate) struct DeviceColumns {
    pub(crate) allocatable: Vec<i64>,
    pub(crate) used: Vec<i64>,
}

impl ClassDevices {
    pub(crate) fn new(features: Features) -> Self {
        Self { features, cache: None }
    }

    /// Whether a DeviceClass serves the resource.
    pub(crate) fn serve(&mut self, call: &Call<'_>, resource: Sym) -> bool {
        self.refreshed(call).class_of(call.table.symbols.text(resource)).is_some()
    }

    /// The amounts of the resource on `nodes`; `None` if no DeviceClass serves it.
    pub(crate) fn columns(&mut self, call: &Call<'_>, resource: Sym, nodes: &NodeSet) -> Option<DeviceColumns> {
        let (cache, table) = (self.refreshed(call), call.table);
        let class = cache.class_of(table.symbols.text(resource))?.to_owned();
        let class = cache.classes.get(&class)?.clone();
        let n_rows = nodes.iter().map(|node| node.index() + 1).max().unwrap_or(0);
        let mut columns = DeviceColumns { allocatable: vec![0; n_rows], used: vec![0; n_rows] };
        for node in nodes.iter() {
            let allocatable = table.allocatable().get(resource, node);
            let (allocatable, used) = match allocatable {
                0 => n_devices(cache, &class, table, node),
                _ => (allocatable, table.requested().get(resource, node)),
            };
            if let Some(amount) = columns.allocatable.get_mut(node.index()) {
                *amount = allocatable;
            }
            if let Some(amount) = columns.used.get_mut(node.index()) {
                *amount = used;
            }
        }
        Some(columns)
    }

    fn refreshed(&mut self, call: &Call<'_>) -> &mut DraCache {
        let features = self.features;
        let cache = self.cache.get_or_insert_with(|| Box::new(DraCache::new(features)));
        cache.refresh(call.table.objects());
        cache.claims.drop_changes();
        cache.selectors.free_unused(call.now);
        cache
    }
}

/// The number of the class's devices for a node, and how many of them claims hold. Both are 0 if a selector cannot be
/// evaluated.
fn n_devices(cache: &mut DraCache, class: &DeviceClass, table: &ClusterTable, node: NodeIdx) -> (i64, i64) {
    let labels = if cache.slices.has_shared_slices() {
        text_of(table.labels().of(node), &table.symbols)
    } else {
        StringMap::new()
    };
    let view = NodeView { name: table.symbols.text(table.name(node)), labels: &labels };
    let DraCache { slices, claims, selectors, .. } = cache;
    let mut is_of_class = |device: &SliceDevice| {
        let mut expressions = class.spec.selectors.iter().filter_map(|selector| selector.cel.as_ref());
        expressions.try_fold(true, |is_match, cel| {
            if !is_match {
                return Ok::<_, ()>(false);
            }
            // Classes are the cluster administrator's: their selectors have no limit of time.
            let subject = SelectorSubject { driver: &device.id.pool.driver, device: &device.device };
            selectors.matches(&cel.expression, subject, device.key, Deadline::NEVER).ok_or(())?.map_err(drop)
        })
    };
    let (mut n_devices, mut n_held) = (0, 0);
    let Ok(slices) = slices.usable_on(view) else { return (0, 0) };
    for device in slices.iter().flat_map(|slice| &slice.devices).filter(|device| device.is_usable_on(view)) {
        match is_of_class(device) {
            Ok(true) => {
                n_devices += 1;
                n_held += i64::from(claims.in_use().is_held(device.number));
            }
            Ok(false) => {}
            Err(()) => return (0, 0),
        }
    }
    (n_devices, n_held)
}
