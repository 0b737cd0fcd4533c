//! The profile under test: the recorded configuration, with plugins from one execution.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, anyhow, ensure};
use berth_config::{InTree, ProvidedPlugin};
use berth_framework::{Grants, PluginIdx, Point, Profile};
use berth_model::{Feature, Features, PluginName, features::FeatureKind};
use serde_json::Value;

use crate::execution::Execution;

/// `features` with the gates of a case.
///
/// # Errors
/// A gate cannot be switched.
pub(crate) fn with_gates(features: Features, gates: &BTreeMap<String, bool>) -> Result<Features> {
    gates.iter().try_fold(features, |features, (name, is_on)| {
        let gate = Feature::ALL.iter().find(|gate| gate.name() == name && gate.kind() == FeatureKind::Gate);
        Ok(features.with(*gate.with_context(|| format!("there is no gate {name}"))?, *is_on))
    })
}

/// A profile, and its missing plugins.
#[derive(Debug)]
pub struct TestedProfile {
    pub profile: Profile,
    /// The plugins that the configuration enables but the execution does not have.
    missing: BTreeSet<PluginName>,
    /// All Filter plugins in order, including missing plugins.
    filters: Vec<PluginName>,
    /// The weights of all Score plugins, including missing plugins.
    pub(crate) weights: BTreeMap<String, i64>,
}

impl TestedProfile {
    /// kube-scheduler's default profile, with the gates of the release.
    ///
    /// # Errors
    /// A plugin of the profile is missing in this execution.
    pub fn defaults(execution: &dyn Execution) -> Result<Self> {
        Self::build(None, Features::default(), execution)
    }

    /// The profile of the recorded entry of a configuration file, or the default profile without an entry.
    ///
    /// # Errors
    /// The entry is invalid, or a plugin of the profile is missing in this execution.
    pub fn build(profile: Option<&Value>, features: Features, execution: &dyn Execution) -> Result<Self> {
        let in_tree = InTree::new(&berth_builtins::factories()).with_features(features);
        let config = berth_config::Profile::from_json(profile, &in_tree)?;
        let mut missing = BTreeSet::new();
        let profile = config.build(|name, args| {
            let Some(factory) = execution.factory(name) else {
                ensure!(berth_builtins::factory(name).is_none(), "{name}: this execution has no binary of it");
                missing.insert(name.clone());
                return Ok(None);
            };
            let plugin = factory.build(args).map_err(|error| anyhow!("{name}: {error}"))?;
            Ok(Some(ProvidedPlugin { plugin, grants: Grants::ALL }))
        })?;
        let weights = config.plugins.score_weights().map(|(name, weight)| (name.to_owned(), weight)).collect();
        Ok(Self { profile, missing, filters: config.plugins.at(Point::Filter).to_vec(), weights })
    }

    /// Whether answers of `plugin` cannot be compared.
    pub(crate) fn lacks(&self, plugin: &str) -> bool {
        self.missing.contains(plugin)
    }

    /// The plugins with answers that cannot be compared.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &PluginName> {
        self.missing.iter()
    }

    /// Whether `plugin` filters nodes in the configuration.
    pub(crate) fn has_filter(&self, plugin: &str) -> bool {
        self.filters.iter().any(|name| name == plugin)
    }

    /// The position of a Filter plugin in the configured order.
    pub(crate) fn filter_position(&self, plugin: &str) -> usize {
        self.filters.iter().position(|name| name == plugin).unwrap_or(self.filters.len())
    }

    pub(crate) fn at(&self, point: Point) -> Vec<PluginIdx> {
        self.profile.plugins.at(point).to_vec()
    }

    pub(crate) fn name(&self, plugin: PluginIdx) -> String {
        self.profile.name(plugin).to_string()
    }
}
