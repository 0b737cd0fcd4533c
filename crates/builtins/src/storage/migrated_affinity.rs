//! The nodes from which a volume of a migrated in-tree plugin can be used. On nodes with a `CSINode` that says that the
//! plugin is migrated, the volume counts as a volume of the driver, and its zone has the driver's own label.
//!
//! The rules are those of `k8s.io/csi-translation-lib` (`translateTopologyFromInTreeToCSI` in
//! `plugins/in_tree_volume.go`).

use std::collections::BTreeSet;

use berth_model::{
    ClusterTable, NodeSet, ObjectView,
    api::{NodeSelector, NodeSelectorRequirement},
};
use rustc_hash::FxHashMap;

use super::{
    CsiNode, PersistentVolume,
    migrated_handle::{self, BETA_ZONE, SEPARATOR, TranslationError, ZONE},
    migration::Migration,
};

const REGION: &str = "topology.kubernetes.io/region";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";

/// The nodes where in-tree plugins are migrated to their drivers, according to their `CSINode`s.
#[derive(Debug)]
pub(crate) struct MigratedNodes {
    csi_nodes: ObjectView<CsiNode>,
    version: Option<(u64, u64)>,
    by_plugin: FxHashMap<String, NodeSet>,
}

impl MigratedNodes {
    pub(crate) fn new() -> Self {
        Self { csi_nodes: super::CSI_NODE.view(), version: None, by_plugin: FxHashMap::default() }
    }

    pub(crate) fn follow(&mut self, table: &ClusterTable) {
        self.csi_nodes.refresh(table.objects());
        let version = Some((self.csi_nodes.version(), table.place_version()));
        if self.version == version {
            return;
        }
        self.version = version;
        self.by_plugin.clear();
        for (_, name, csi_node) in self.csi_nodes.iter() {
            let Some(node) = table.symbols.lookup(name).and_then(|name| table.find(name)) else { continue };
            for plugin in csi_node.migrated_plugins() {
                self.by_plugin.entry(plugin.to_owned()).or_default().insert(node);
            }
        }
    }

    /// The nodes where this plugin is migrated.
    pub(crate) fn of(&self, plugin: &str) -> Option<&NodeSet> {
        self.by_plugin.get(plugin)
    }
}

/// The in-tree plugin of the volume, and the node affinity of the volume on nodes where the plugin is migrated. `None`
/// if migration changes the affinity on no node.
pub(crate) fn translate(
    volume: &PersistentVolume,
) -> Option<(&'static Migration, Result<Option<NodeSelector>, TranslationError>)> {
    let (migration, handle) = migrated_handle::of_volume(volume)?;
    let driver_key = migration.topology_key?;
    Some((migration, handle.map(|_| affinity(volume, driver_key))))
}

/// The volume's affinity with its zones under the driver's key. Zones of the affinity take precedence over zones of the
/// labels.
fn affinity(volume: &PersistentVolume, driver_key: &str) -> Option<NodeSelector> {
    let required = volume.spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let labels = &volume.metadata.labels;
    let is_key_of_affinity = |key: &str| required.is_some_and(|selector| has_key(selector, key));
    let is_beta = !is_key_of_affinity(ZONE)
        && (is_key_of_affinity(BETA_ZONE) || !labels.contains_key(ZONE) && labels.contains_key(BETA_ZONE));
    let zone_key = if is_beta { BETA_ZONE } else { ZONE };
    let mut translated = required.cloned();
    if required.is_some_and(|selector| has_values(selector, zone_key)) {
        translated.iter_mut().for_each(|selector| replace_key(selector, zone_key, driver_key));
    } else if let Some(zones) = labels.get(zone_key) {
        add_zones(&mut translated, driver_key, zones);
    }
    if is_beta && translated.as_ref().is_some_and(|selector| has_values(selector, BETA_REGION)) {
        translated.iter_mut().for_each(|selector| replace_key(selector, BETA_REGION, REGION));
    }
    translated
}

fn expressions<'a>(selector: &'a NodeSelector, key: &str) -> impl Iterator<Item = &'a NodeSelectorRequirement> {
    let key = key.to_owned();
    let terms = selector.node_selector_terms.iter();
    terms.flat_map(|term| &term.match_expressions).filter(move |expression| expression.key == key)
}

fn has_key(selector: &NodeSelector, key: &str) -> bool {
    expressions(selector, key).next().is_some()
}

fn has_values(selector: &NodeSelector, key: &str) -> bool {
    expressions(selector, key).any(|expression| !expression.values.is_empty())
}

fn replace_key(selector: &mut NodeSelector, from: &str, to: &str) {
    let terms = selector.node_selector_terms.iter_mut();
    for expression in terms.flat_map(|term| &mut term.match_expressions).filter(|expression| expression.key == from) {
        to.clone_into(&mut expression.key);
    }
}

/// Adds the zones of a label to each term, or to a new term if the selector has no terms.
fn add_zones(selector: &mut Option<NodeSelector>, key: &str, zones: &str) {
    let zones = zones.split(SEPARATOR).map(str::trim).filter(|zone| !zone.is_empty());
    let values: BTreeSet<String> = zones.map(str::to_owned).collect();
    if values.is_empty() {
        return;
    }
    let terms = &mut selector.get_or_insert_default().node_selector_terms;
    if terms.is_empty() {
        terms.push(Default::default());
    }
    let values: Vec<String> = values.into_iter().collect();
    for term in terms {
        let requirement =
            NodeSelectorRequirement { key: key.to_owned(), operator: "In".to_owned(), values: values.clone() };
        term.match_expressions.push(requirement);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn translated(labels: &Value, terms: &Value) -> Result<Value, TranslationError> {
        let volume = json!({"metadata": {"name": "v", "labels": labels}, "spec": {"gcePersistentDisk": {"pdName": "d"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}});
        let volume: PersistentVolume = serde_json::from_value(volume).unwrap();
        let (migration, affinity) = translate(&volume).unwrap();
        assert_eq!(migration.driver, "pd.csi.storage.gke.io");
        let keys = |selector: NodeSelector| -> Value {
            let of_term = |expressions: Vec<NodeSelectorRequirement>| -> Value {
                expressions.iter().map(|it| format!("{} {}", it.key, it.values.join(","))).collect()
            };
            selector.node_selector_terms.into_iter().map(|term| of_term(term.match_expressions)).collect()
        };
        affinity.map(|affinity| affinity.map_or(Value::Null, keys))
    }

    fn term(key: &str, values: &[&str]) -> Value {
        json!({"matchExpressions": [{"key": key, "operator": "In", "values": values}]})
    }

    #[test]
    fn zones_get_the_key_of_the_driver() {
        let key = "topology.gke.io/zone";
        let in_affinity = translated(&json!({ZONE: "b"}), &json!([term(ZONE, &["a"])]));
        assert_eq!(in_affinity, Ok(json!([[format!("{key} a")]])));
        let in_label = translated(&json!({BETA_ZONE: "l-r-b__l-r-a"}), &json!([term("other", &["x"])]));
        assert_eq!(in_label, Ok(json!([["other x", format!("{key} l-r-a,l-r-b")]])));
        let beta = json!([{"matchExpressions": [
            {"key": BETA_ZONE, "operator": "In", "values": ["a"]},
            {"key": BETA_REGION, "operator": "In", "values": ["r"]}]}]);
        assert_eq!(translated(&json!({}), &beta), Ok(json!([[format!("{key} a"), format!("{REGION} r")]])));
    }
}
