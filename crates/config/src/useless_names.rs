//! Names in a configuration that match no plugin or no profile. kube-scheduler accepts such names without a message.
//! Berth reports them, because most are typing errors.

use std::fmt;

use berth_model::PluginName;
use serde_json::Value;

use crate::{PluginCatalogue, PluginHostSettings, Profile, Settings, merge::ALL_PLUGINS, nearest::nearest};

/// A name that has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UselessName {
    /// The field, such as `profiles[0].pluginConfig[2].name`.
    pub field: String,
    /// The name.
    pub name: String,
    reason: Reason,
    /// An existing name that the operator may have meant.
    nearest: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    /// An entry of `pluginConfig` for a plugin that does not exist.
    UnknownArgs,
    /// An entry of `pluginConfig` for a plugin that this profile does not enable.
    IdleArgs { scheduler_name: String },
    /// An entry that disables a plugin which does not exist.
    NothingDisabled,
    /// A plugin that does not exist yet.
    Awaited,
    /// An entry of a `PluginHostConfiguration` for a plugin that does not exist.
    UnknownPlugin,
    /// An entry of a `PluginHostConfiguration` for a profile that does not exist.
    UnknownProfile,
}

impl fmt::Display for UselessName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, name, reason, nearest } = self;
        let meant = nearest.as_ref().map(|nearest| format!(" (did you mean {nearest:?}?)")).unwrap_or_default();
        match reason {
            Reason::UnknownArgs => {
                write!(formatter, "{field}: unknown plugin {name:?}{meant}: its args have no effect")
            }
            Reason::IdleArgs { scheduler_name } => write!(
                formatter,
                "{field}: profile {scheduler_name:?} does not enable plugin {name:?}: its args have no effect"
            ),
            Reason::NothingDisabled => {
                write!(formatter, "{field}: unknown plugin {name:?}{meant}: this disables nothing")
            }
            Reason::Awaited => write!(formatter, "{field}: plugin {name:?} is not loaded yet{meant}"),
            Reason::UnknownPlugin => {
                write!(formatter, "{field}: unknown plugin {name:?}{meant}: the entry has no effect so far")
            }
            Reason::UnknownProfile => {
                write!(formatter, "{field}: no profile has the schedulerName {name:?}{meant}: the entry has no effect")
            }
        }
    }
}

impl UselessName {
    fn new(field: String, name: &str, reason: Reason, known: &[&str]) -> Self {
        Self { field, name: name.to_owned(), reason, nearest: nearest(name, known) }
    }
}

impl Settings {
    /// Names of plugins without effect in the document of these settings. A plugin that is enabled and does not exist
    /// yet is listed only if its name is close to the name of an existing plugin.
    #[must_use]
    pub fn useless_names(&self, document: &Value, catalogue: &dyn PluginCatalogue) -> Vec<UselessName> {
        let there = catalogue.names();
        let mut useless = Vec::new();
        let entries = document["profiles"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (at, (entry, profile)) in entries.iter().zip(&self.profiles).enumerate() {
            let names = ProfileNames { path: format!("profiles[{at}]"), there: &there, profile };
            names.add_useless_args(&entry["pluginConfig"], &mut useless);
            names.add_useless_sets(&entry["plugins"], &mut useless);
        }
        useless
    }
}

impl PluginHostSettings {
    /// Names of plugins and profiles that have an entry and do not exist. `plugins` are the names of all plugins that
    /// exist or that a profile enables. `profiles` are all `schedulerName`s.
    #[must_use]
    pub fn useless_names(&self, plugins: &[&str], profiles: &[&str]) -> Vec<UselessName> {
        let is_unknown = |name: &&PluginName| !plugins.contains(&name.as_str());
        let of_plugins = self.named().filter(is_unknown).map(|name| {
            UselessName::new(format!("plugins[{name}].name"), name.as_str(), Reason::UnknownPlugin, plugins)
        });
        let of_profiles = self.profiles().filter(|name| !profiles.contains(name)).map(|name| {
            UselessName::new(format!("profiles[{name}].schedulerName"), name, Reason::UnknownProfile, profiles)
        });
        of_plugins.chain(of_profiles).collect()
    }
}

/// The known names with which the names in one profile are compared.
struct ProfileNames<'a> {
    path: String,
    /// The plugins that exist.
    there: &'a [PluginName],
    profile: &'a Profile,
}

impl ProfileNames<'_> {
    fn is_there(&self, name: &str) -> bool {
        self.there.iter().any(|known| *known == name)
    }

    fn is_enabled(&self, name: &str) -> bool {
        self.profile.plugins.named().iter().any(|enabled| *enabled == name)
    }

    /// A name without effect. The plugins that exist and the plugins that the profile enables were searched for the
    /// name.
    fn useless(&self, field: String, name: &str, reason: Reason) -> UselessName {
        let known = self.there.iter().chain(self.profile.plugins.named());
        UselessName::new(field, name, reason, &known.map(PluginName::as_str).collect::<Vec<_>>())
    }

    fn add_useless_args(&self, entries: &Value, useless: &mut Vec<UselessName>) {
        for (field, name) in named(&format!("{}.pluginConfig", self.path), entries) {
            if self.is_enabled(name) {
                continue;
            }
            if self.is_there(name) {
                let reason = Reason::IdleArgs { scheduler_name: self.profile.scheduler_name.clone() };
                useless.push(self.useless(field, name, reason));
            } else {
                useless.push(self.useless(field, name, Reason::UnknownArgs));
            }
        }
    }

    fn add_useless_sets(&self, sets: &Value, useless: &mut Vec<UselessName>) {
        for (point, set) in sets.as_object().into_iter().flatten() {
            let path = |list: &str| format!("{}.plugins.{point}.{list}", self.path);
            for (field, name) in named(&path("disabled"), &set["disabled"]) {
                if name != ALL_PLUGINS && !self.is_there(name) && !self.is_enabled(name) {
                    useless.push(self.useless(field, name, Reason::NothingDisabled));
                }
            }
            for (field, name) in named(&path("enabled"), &set["enabled"]) {
                if !self.is_there(name) {
                    let known: Vec<&str> = self.there.iter().map(PluginName::as_str).collect();
                    let awaited = UselessName::new(field, name, Reason::Awaited, &known);
                    useless.extend(awaited.nearest.is_some().then_some(awaited));
                }
            }
        }
    }
}

/// The names of a list, each with the path of its field.
fn named<'a>(path: &str, list: &'a Value) -> impl Iterator<Item = (String, &'a str)> {
    let entries = list.as_array().map(Vec::as_slice).unwrap_or_default();
    entries
        .iter()
        .enumerate()
        .filter_map(move |(at, entry)| Some((format!("{path}[{at}].name"), entry["name"].as_str()?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::in_tree::testing::in_tree;

    #[test]
    fn names_that_do_nothing_are_told_with_the_nearest_one() {
        let document = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {"schedulerName": "one", "pluginConfig": [
                    {"name": "NodeResourceFit", "args": {}},
                    {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 3}},
                    {"name": "GangScheduling", "args": {}},
                ]},
                {"schedulerName": "two", "plugins": {"score": {"disabled": [{"name": "imagelocality"}, {"name": "Xyz"}]}}},
                {"schedulerName": "three", "plugins": {"score": {"disabled": [{"name": "*"}, {"name": "NodeAffinity"}]}}},
            ],
        });
        let settings = Settings::from_text("file", &document.to_string(), &in_tree()).expect("kube-scheduler takes it");
        let told: Vec<String> = settings.useless_names(&document, &in_tree()).iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "profiles[0].pluginConfig[0].name: unknown plugin \"NodeResourceFit\" (did you mean \
                 \"NodeResourcesFit\"?): its args have no effect",
                "profiles[0].pluginConfig[2].name: profile \"one\" does not enable plugin \"GangScheduling\": its args have no \
                 effect",
                "profiles[1].plugins.score.disabled[0].name: unknown plugin \"imagelocality\" (did you mean \
                 \"ImageLocality\"?): this disables nothing",
                "profiles[1].plugins.score.disabled[1].name: unknown plugin \"Xyz\": this disables nothing",
            ]
        );
    }

    #[test]
    fn entries_for_no_plugin_and_no_profile_are_told() {
        let text = "apiVersion: berth.dev/v1alpha1\nkind: PluginHostConfiguration\nplugins: [{name: Zoen}, {name: Zone}]\n\
                    profiles: [{schedulerName: canry, execution: wasm}]\n";
        let settings = PluginHostSettings::from_text("file", text).expect("valid");
        let told: Vec<String> =
            settings.useless_names(&["Zone", "NodeName"], &["canary"]).iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "plugins[Zoen].name: unknown plugin \"Zoen\" (did you mean \"Zone\"?): the entry has no effect so far",
                "profiles[canry].schedulerName: no profile has the schedulerName \"canry\" (did you mean \"canary\"?): the \
                 entry has no effect",
            ]
        );
    }
}
