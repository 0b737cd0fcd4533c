//! Claims, slices and classes, and the data that is derived from them. The cost of a refresh depends on the number of
//! changes.

use std::{collections::BTreeMap, sync::Arc};

use berth_framework::FACTS_API_VERSION;
use berth_model::{
    Feature, Features, Sym, Symbols,
    api::StringMap,
    object_table::{ObjectTable, ObjectView},
};

use super::{
    cel::Selectors,
    claim_table::{ClaimTable, InFlight},
    node_devices::NodeDevicesCache,
    objects::{API_VERSION, BETA_API_VERSION, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice},
    slices::SliceTable,
};
use crate::built_in::StaticKind;

/// The prefix of extended resource names that refer to a DeviceClass by its name (KEP-5004).
pub(crate) const DEVICE_CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// The allocations in flight of all profiles, as DynamicResources shares them.
pub(super) const IN_FLIGHT: StaticKind = StaticKind::new(FACTS_API_VERSION, "DynamicResources");

/// The objects of `resource.k8s.io`, and the data that the plugin keeps between cycles.
#[derive(Debug)]
pub(super) struct DraCache {
    claim_view: ObjectView<ResourceClaim>,
    slice_view: ObjectView<ResourceSlice>,
    class_view: ObjectView<DeviceClass>,
    /// The view of rules about taints. `None` without the gate DRADeviceTaintRules.
    rule_view: Option<ObjectView<DeviceTaintRule>>,
    in_flight_view: ObjectView<InFlight>,
    pub(super) claims: ClaimTable,
    pub(super) slices: SliceTable,
    pub(super) classes: BTreeMap<String, Arc<DeviceClass>>,
    /// The name of the class that each extended resource maps to.
    class_of_resource: BTreeMap<String, String>,
    pub(super) selectors: Selectors,
    pub(super) devices_by_node: NodeDevicesCache,
}

impl DraCache {
    pub(super) fn new(features: Features) -> Self {
        Self {
            claim_view: ObjectView::new(API_VERSION, "ResourceClaim"),
            slice_view: ObjectView::new(API_VERSION, "ResourceSlice"),
            class_view: ObjectView::new(API_VERSION, "DeviceClass"),
            rule_view: rule_view(features),
            in_flight_view: IN_FLIGHT.view(),
            claims: ClaimTable::default(),
            slices: SliceTable::default(),
            classes: BTreeMap::new(),
            class_of_resource: BTreeMap::new(),
            selectors: Selectors::new(features),
            devices_by_node: NodeDevicesCache::default(),
        }
    }
}

impl DraCache {
    pub(super) fn refresh(&mut self, objects: &ObjectTable) {
        let claims = &mut self.claims;
        self.claim_view.refresh_with(objects, |namespace, name, claim| match claim {
            Some(claim) => claims.insert(claim),
            None => claims.remove(namespace, name),
        });
        self.in_flight_view.refresh_with(objects, |_, name, fact| claims.follow_fact(name, fact.map(AsRef::as_ref)));
        let slices = &mut self.slices;
        let rules_have_changed = self.rule_view.as_mut().is_some_and(|rules| rules.refresh(objects));
        let rules = self.rule_view.as_ref();
        let has_changed = self.slice_view.refresh_with(objects, |_, name, slice| match slice {
            Some(slice) => slices.insert(&with_rules(slice, rules), claims.in_use_mut()),
            None => slices.remove(name, claims.in_use_mut()),
        });
        if rules_have_changed {
            for (_, _, slice) in self.slice_view.iter() {
                slices.insert(&with_rules(slice, rules), claims.in_use_mut());
            }
        }
        if has_changed || rules_have_changed {
            self.devices_by_node.forget(&slices.refresh());
        }
        if self.class_view.refresh(objects) {
            self.classes =
                self.class_view.iter().map(|(_, name, class)| (name.to_owned(), Arc::clone(class))).collect();
            self.class_of_resource = classes_of_resources(&self.classes);
        }
    }

    /// The class that an extended resource maps to.
    pub(super) fn class_of(&self, resource: &str) -> Option<&str> {
        if let Some(class) = self.class_of_resource.get(resource) {
            return Some(class);
        }
        let class = resource.strip_prefix(DEVICE_CLASS_PREFIX)?;
        self.classes.get_key_value(class).map(|(class, _)| class.as_str())
    }
}

fn rule_view(features: Features) -> Option<ObjectView<DeviceTaintRule>> {
    let is_on = features.has(Feature::DRADeviceTaintRules);
    let version = if features.has(Feature::DeviceTaintRulesAreV1) { API_VERSION } else { BETA_API_VERSION };
    is_on.then(|| ObjectView::new(version, "DeviceTaintRule"))
}

/// The slice with the taints that rules add to its devices, in the order of the rules' names.
fn with_rules<'a>(
    slice: &'a ResourceSlice,
    rules: Option<&ObjectView<DeviceTaintRule>>,
) -> std::borrow::Cow<'a, ResourceSlice> {
    let mut slice = std::borrow::Cow::Borrowed(slice);
    for (_, _, rule) in rules.into_iter().flat_map(|rules| rules.iter()) {
        let selector = rule.spec.device_selector.clone().unwrap_or_default();
        let (driver, pool) = (slice.spec.driver.clone(), slice.spec.pool.name.clone());
        if !slice.spec.devices.iter().any(|device| selector.matches(&driver, &pool, &device.name)) {
            continue;
        }
        let devices = slice.to_mut().spec.devices.iter_mut();
        for device in devices.filter(|device| selector.matches(&driver, &pool, &device.name)) {
            device.taints.push(rule.spec.taint.clone());
        }
    }
    slice
}

/// Maps resources to classes. If several classes name a resource, the newest wins, and among classes of the same age
/// the first by name (KEP-5004).
fn classes_of_resources(classes: &BTreeMap<String, Arc<DeviceClass>>) -> BTreeMap<String, String> {
    let mut winners: BTreeMap<String, &DeviceClass> = BTreeMap::new();
    for class in classes.values() {
        let Some(resource) = &class.spec.extended_resource_name else { continue };
        let known = winners.entry(resource.clone()).or_insert(class);
        // RFC 3339 times in UTC with seconds have the same order as their texts.
        if class.metadata.creation_timestamp > known.metadata.creation_timestamp {
            *known = class;
        }
    }
    winners.into_iter().map(|(resource, class)| (resource, class.metadata.name.clone())).collect()
}

/// A node's labels as text, for node selectors.
pub(super) fn text_of(labels: &[(Sym, Sym)], symbols: &Symbols) -> StringMap {
    let text = |symbol| symbols.text(symbol).to_owned();
    labels.iter().map(|(key, value)| (text(*key), text(*value))).collect()
}
