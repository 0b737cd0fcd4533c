//! Plugins of a profile with names that no longer exist, and their arguments.

use serde_json::{Map, Value, json};

use crate::fields::API_VERSION;

/// Plugins that no other plugin replaces, with advice for each.
const GONE: [(&str, &str); 3] = [
    ("NodeLabel", "addedAffinity of NodeAffinityArgs keeps pods to nodes with a label"),
    ("NodePreferAvoidPods", "a taint with the effect PreferNoSchedule says that a node is to be avoided"),
    ("ServiceAffinity", "affinity terms of pods keep them together"),
];

/// Plugins that another plugin has replaced.
const SUCCEEDED: [(&str, &str); 6] = [
    ("AzureDiskLimits", "NodeVolumeLimits"),
    ("CinderLimits", "NodeVolumeLimits"),
    ("DefaultPodTopologySpread", "PodTopologySpread"),
    ("EBSLimits", "NodeVolumeLimits"),
    ("GCEPDLimits", "NodeVolumeLimits"),
    ("SelectorSpread", "PodTopologySpread"),
];

/// Plugins that have become scoring strategies of NodeResourcesFit.
const STRATEGIES: [(&str, &str); 3] = [
    ("NodeResourcesLeastAllocated", "LeastAllocated"),
    ("NodeResourcesMostAllocated", "MostAllocated"),
    ("RequestedToCapacityRatio", "RequestedToCapacityRatio"),
];

/// The advice for a plugin that no other plugin replaces.
pub(super) fn advice(plugin: &str) -> Option<&'static str> {
    GONE.iter().find(|(gone, _)| *gone == plugin).map(|(_, instead)| *instead)
}

/// The `plugins` of a profile: lists by point, then `enabled` or `disabled`.
pub(super) struct ProfilePlugins(Map<String, Value>);

impl ProfilePlugins {
    pub(super) fn take(profile: &mut Map<String, Value>, notes: &mut Vec<String>) -> Self {
        let mut plugins = match profile.remove("plugins") {
            Some(Value::Object(plugins)) => plugins,
            _ => Map::new(),
        };
        if plugins.remove("unreserve").is_some() {
            notes.push("unreserve is no longer an extension point: the plugins at reserve have this call".to_owned());
        }
        Self(plugins)
    }

    pub(super) fn put(mut self, profile: &mut Map<String, Value>) {
        self.0.retain(|_, sets| sets.as_object().is_some_and(|sets| !sets.is_empty()));
        if !self.0.is_empty() {
            profile.insert("plugins".to_owned(), self.0.into());
        }
    }

    pub(super) fn disable(&mut self, point: &str, plugin: &str) {
        list(&mut self.0, point, "disabled").push(json!({ "name": plugin }));
    }

    pub(super) fn enable(&mut self, point: &str, plugin: &str, weight: Option<&Value>) {
        let entry =
            weight.map_or_else(|| json!({ "name": plugin }), |weight| json!({ "name": plugin, "weight": weight }));
        list(&mut self.0, point, "enabled").push(entry);
    }

    /// Replaces plugins that no longer exist with current plugins.
    pub(super) fn migrate(&mut self, profile: &mut Map<String, Value>, notes: &mut Vec<String>) {
        let points: Vec<String> = self.0.keys().cloned().collect();
        for point in &points {
            let [enabled, disabled] = ["enabled", "disabled"].map(|set| self.take_list(point, set));
            let names_strategy =
                |entries: &[Value]| entries.iter().find(|entry| strategy(name(entry)).is_some()).cloned();
            let (chosen, left_out) = (names_strategy(&enabled), names_strategy(&disabled));
            for entry in enabled {
                self.keep(point, "enabled", entry, notes);
            }
            for entry in disabled {
                if matches!(name(&entry), "SelectorSpread" | "DefaultPodTopologySpread") && point == "score" {
                    without_spreading_of_services(profile);
                }
                self.keep(point, "disabled", entry, notes);
            }
            match chosen {
                Some(entry) => self.choose_strategy(point, &entry, profile, notes),
                None if left_out.is_some() && point == "score" => self.disable("score", "NodeResourcesFit"),
                None => {}
            }
        }
        migrate_args(profile, notes);
    }

    fn choose_strategy(
        &mut self,
        point: &str,
        entry: &Value,
        profile: &mut Map<String, Value>,
        notes: &mut Vec<String>,
    ) {
        let Some(kind) = strategy(name(entry)) else { return };
        notes.push(format!("{point}: {} becomes the scoring strategy {kind} of NodeResourcesFit", name(entry)));
        if point != "score" {
            return;
        }
        if !self.has(point, "enabled", "NodeResourcesFit") {
            self.enable(point, "NodeResourcesFit", entry.get("weight"));
        }
        strategy_of(profile).insert("type".to_owned(), kind.into());
    }

    /// Keeps an entry under its current name. The entry is left out if the current name is already in the list, if the
    /// plugin has no current name, or if the entry disables a plugin that was replaced.
    fn keep(&mut self, point: &str, set: &str, mut entry: Value, notes: &mut Vec<String>) {
        let old = name(&entry).to_owned();
        if strategy(&old).is_some() {
            return;
        }
        if let Some(instead) = advice(&old) {
            notes.push(format!("{point}: no plugin replaces {old}: {instead}"));
            return;
        }
        if let Some((_, new)) = SUCCEEDED.iter().find(|(gone, _)| *gone == old) {
            notes.push(format!("{point}: {new} replaces {old}"));
            if set == "disabled" || self.has(point, set, new) {
                return;
            }
            if let Some(entry) = entry.as_object_mut() {
                entry.insert("name".to_owned(), (*new).into());
            }
        }
        list(&mut self.0, point, set).push(entry);
    }

    fn has(&self, point: &str, set: &str, plugin: &str) -> bool {
        let entries = self.0.get(point).and_then(|sets| sets.get(set)).and_then(Value::as_array);
        entries.is_some_and(|entries| entries.iter().any(|entry| name(entry) == plugin))
    }

    fn take_list(&mut self, point: &str, set: &str) -> Vec<Value> {
        let sets = self.0.get_mut(point).and_then(Value::as_object_mut);
        match sets.and_then(|sets| sets.remove(set)) {
            Some(Value::Array(entries)) => entries,
            _ => Vec::new(),
        }
    }
}

fn list<'a>(plugins: &'a mut Map<String, Value>, point: &str, set: &str) -> &'a mut Vec<Value> {
    array(object(plugins, point), set)
}

fn name(entry: &Value) -> &str {
    entry.get("name").and_then(Value::as_str).unwrap_or_default()
}

fn strategy(plugin: &str) -> Option<&'static str> {
    STRATEGIES.iter().find(|(old, _)| *old == plugin).map(|(_, kind)| *kind)
}

/// Disables scoring by the default constraints, because the profile disabled the scores of SelectorSpread, which these
/// constraints replaced.
fn without_spreading_of_services(profile: &mut Map<String, Value>) {
    let args = args_of(profile, "PodTopologySpread");
    args.entry("defaultingType").or_insert_with(|| "List".into());
}

/// Moves the arguments of plugins that no longer exist to the place where the current plugins read them.
fn migrate_args(profile: &mut Map<String, Value>, notes: &mut Vec<String>) {
    let Some(Value::Array(entries)) = profile.remove("pluginConfig") else { return };
    let (of_strategies, others): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|entry| strategy(name(entry)).is_some());
    for entry in others {
        let is_gone = |known: &str| known == name(&entry);
        if GONE.iter().any(|(gone, _)| is_gone(gone)) || SUCCEEDED.iter().any(|(gone, _)| is_gone(gone)) {
            notes.push(format!("pluginConfig: the arguments of {} are left out", name(&entry)));
            continue;
        }
        array(profile, "pluginConfig").push(entry);
    }
    for entry in of_strategies {
        let Some(kind) = strategy(name(&entry)) else { continue };
        let chosen = strategy_of(profile);
        if chosen.get("type").is_some_and(|chosen| chosen != kind) {
            notes.push(format!("pluginConfig: the arguments of {} are left out", name(&entry)));
            continue;
        }
        chosen.insert("type".to_owned(), kind.into());
        let args = entry.get("args").cloned().unwrap_or_default();
        if let Some(resources) = args.get("resources") {
            chosen.insert("resources".to_owned(), resources.clone());
        }
        if let Some(shape) = args.get("shape") {
            chosen.insert("requestedToCapacityRatio".to_owned(), json!({ "shape": shape }));
        }
    }
    for args in array(profile, "pluginConfig").iter_mut().filter_map(|entry| entry.get_mut("args")) {
        if let Some(version) = args.get_mut("apiVersion") {
            *version = API_VERSION.into();
        }
    }
}

/// `scoringStrategy` of NodeResourcesFit.
pub(super) fn strategy_of(profile: &mut Map<String, Value>) -> &mut Map<String, Value> {
    object(args_of(profile, "NodeResourcesFit"), "scoringStrategy")
}

/// The arguments of a plugin in `pluginConfig`.
pub(super) fn args_of<'a>(profile: &'a mut Map<String, Value>, plugin: &str) -> &'a mut Map<String, Value> {
    let entries = array(profile, "pluginConfig");
    let place = entries.iter().position(|entry| name(entry) == plugin).unwrap_or(entries.len());
    if place == entries.len() {
        entries.push(json!({ "name": plugin }));
    }
    let entry = &mut entries[place];
    if !entry.is_object() {
        *entry = json!({ "name": plugin });
    }
    #[expect(clippy::expect_used, reason = "it was made an object")]
    object(entry.as_object_mut().expect("an object"), "args")
}

fn object<'a>(map: &'a mut Map<String, Value>, field: &str) -> &'a mut Map<String, Value> {
    let value = map.entry(field).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    #[expect(clippy::expect_used, reason = "it was made an object")]
    value.as_object_mut().expect("an object")
}

fn array<'a>(map: &'a mut Map<String, Value>, field: &str) -> &'a mut Vec<Value> {
    let value = map.entry(field).or_insert_with(|| json!([]));
    if !value.is_array() {
        *value = json!([]);
    }
    #[expect(clippy::expect_used, reason = "it was made an array")]
    value.as_array_mut().expect("an array")
}
