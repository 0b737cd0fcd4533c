//! The guide's page on the KubeSchedulerConfiguration names the fields that this crate reads, with their defaults.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{Settings, in_tree::testing::in_tree};

const PAGE: &str = include_str!("../../../../docs/src/scheduler-configuration.md");

/// A document with an unknown field in every object. The message about an unknown field lists the known fields.
const UNKNOWN: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
zzz: 1
leaderElection: {zzz: 1}
clientConnection: {zzz: 1}
profiles:
- zzz: 1
  plugins: {zzz: 1, multiPoint: {zzz: 1, enabled: [{name: NodeName, zzz: 1}], disabled: [{name: ImageLocality, zzz: 1}]}}
  pluginConfig:
  - {name: DefaultPreemption, zzz: 1, args: {zzz: 1}}
  - {name: DynamicResources, args: {zzz: 1}}
  - {name: InterPodAffinity, args: {zzz: 1}}
  - {name: NodeAffinity, args: {zzz: 1}}
  - {name: NodeResourcesBalancedAllocation, args: {zzz: 1, resources: [{name: cpu, weight: 1, zzz: 1}]}}
  - name: NodeResourcesFit
    args:
      zzz: 1
      scoringStrategy:
        zzz: 1
        type: RequestedToCapacityRatio
        resources: [{name: cpu, weight: 1, zzz: 1}]
        requestedToCapacityRatio: {zzz: 1, shape: [{utilization: 0, score: 0, zzz: 1}]}
  - name: PodTopologySpread
    args:
      zzz: 1
      defaultingType: List
      defaultConstraints: [{zzz: 1, maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]
  - {name: VolumeBinding, args: {zzz: 1}}
extenders:
- {zzz: 1, urlPrefix: 'http://a', tlsConfig: {zzz: 1}, managedResources: [{name: example.com/a, zzz: 1}]}
";

/// The plugins with arguments, in the order of the document.
const PLUGINS: [&str; 8] = [
    "DefaultPreemption",
    "DynamicResources",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "PodTopologySpread",
    "VolumeBinding",
];

/// A document with one element in each list that is empty by default.
const WITH_EXTENDER: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders: [{urlPrefix: 'http://a', tlsConfig: {}, managedResources: [{name: example.com/a}]}]
";

/// The path as the guide writes it: lists without positions, and the plugin in place of the path of its arguments.
fn in_words(path: &str) -> String {
    let mut path = path.to_owned();
    for (position, plugin) in PLUGINS.iter().enumerate() {
        path = path.replace(&format!("profiles[0].pluginConfig[{position}].args"), plugin);
    }
    path.replace("[0]", "[]")
}

/// The fields that the crate reads.
fn known() -> BTreeSet<String> {
    let error = Settings::from_text("f", UNKNOWN, &in_tree()).expect_err("unknown fields").to_string();
    let mut known = BTreeSet::new();
    for line in error.lines() {
        let line = line.strip_prefix("f: ").unwrap_or(line);
        let message = line.split_once("zzz: unknown field; remove it or use one of: ");
        let (path, names) = message.unwrap_or_else(|| panic!("another mistake: {line}"));
        // According to the page, all arguments may have `apiVersion` and `kind`.
        let names = names.split(", ").filter(|name| path.is_empty() || !["apiVersion", "kind"].contains(name));
        known.extend(names.map(|name| format!("{}{name}", in_words(path))));
    }
    known
}

/// The rows of the page's tables: the fields of the first column, and the second column.
fn rows() -> Vec<(Vec<&'static str>, &'static str)> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let mut cells = row.trim_start_matches("| ").split(" | ");
        let fields = cells.next().unwrap_or_default().split('`').skip(1).step_by(2).collect();
        (fields, cells.next().unwrap_or_default())
    })
    .collect()
}

/// The default of a field; `None` if it is neither a word nor a number.
fn default_of(settings: &Value, field: &str) -> Option<String> {
    let (first, rest) = field.split_once('.').unwrap_or((field, ""));
    let (object, path) = match settings["profiles"][0]["pluginConfig"].as_array()?.iter().find(|it| it["name"] == first)
    {
        Some(config) => (&config["args"], rest),
        None => (settings, field),
    };
    let pointer = format!("/{}", path.replace("[]", ".0").replace('.', "/"));
    match object.pointer(&pointer)? {
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(value) => Some(value.to_string().trim_end_matches(".0").to_owned()),
        Value::String(value) if !value.is_empty() => Some(value.clone()),
        Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[test]
fn the_guide_names_each_field_and_no_other() {
    let in_guide: BTreeSet<String> = rows().into_iter().flat_map(|(fields, _)| fields).map(str::to_owned).collect();
    let known = known();
    let missing: Vec<&String> = known.difference(&in_guide).collect();
    assert!(missing.is_empty(), "scheduler-configuration.md does not name {missing:?}");
    let unknown: Vec<&String> = in_guide.difference(&known).collect();
    assert!(unknown.is_empty(), "there are no fields {unknown:?}");
}

#[test]
fn the_guide_has_the_defaults() {
    let settings = Settings::from_text("f", WITH_EXTENDER, &in_tree()).expect("a valid document").to_json();
    let mut n_compared = 0;
    for (fields, cell) in rows() {
        for field in fields {
            // The document of this test sets these fields.
            let last = field.rsplit('.').next().unwrap_or_default();
            let Some(default) = default_of(&settings, field) else { continue };
            if !["apiVersion", "kind", "name", "urlPrefix"].contains(&last) {
                assert!(cell.starts_with(&format!("`{default}`")), "{field}: the default is {default}, not {cell}");
                n_compared += 1;
            }
        }
    }
    assert!(n_compared > 30, "only {n_compared} defaults were found");
}
