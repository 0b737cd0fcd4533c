//! The scheduler's configuration: its source, and its current content.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Result;
use berth_config::{ConfigError, Overrides, PluginCatalogue, Settings, Usage};
use berth_queue::Backoff;
use serde_json::{Value, json};
use tracing::warn;

use crate::options::Options;

/// The default of kube-scheduler. A file that repeats this default needs no warning about a key without effect.
const DEFAULT_PARALLELISM: u64 = 16;

/// The source of the configuration.
#[derive(Clone, Debug, Default)]
pub struct ConfigurationSource {
    pub file: Option<PathBuf>,
    /// The settings of the command line that are added to the configuration.
    pub overrides: Overrides,
}

impl ConfigurationSource {
    /// The current settings.
    ///
    /// # Errors
    /// Fails as [`read`] does.
    pub fn read(&self, plugins: &dyn PluginCatalogue) -> Result<Settings> {
        read(self.file.as_deref(), &self.overrides, plugins)
    }
}

/// The settings of the scheduler without profiles, made from the configuration and the command line.
pub fn scheduler_settings(settings: &Settings, command_line: &Options) -> berth_scheduler::Settings {
    let milliseconds = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let backoff =
        Backoff { initial: milliseconds(settings.pod_initial_backoff), max: milliseconds(settings.pod_max_backoff) };
    let gates = &command_line.gates;
    let queue = berth_queue::Settings::default();
    let max_in_unschedulable_pool =
        command_line.longest_unschedulable.map_or(queue.max_in_unschedulable_pool, milliseconds);
    berth_scheduler::Settings {
        percentage_of_nodes_to_score: i32::from(settings.percentage_of_nodes_to_score),
        queue: berth_queue::Settings {
            backoff,
            max_in_unschedulable_pool,
            pops_from_backoff: gates.is_on("SchedulerPopFromBackoffQ"),
            features: gates.features(),
        },
        equivalence_cache: gates.is_on("OpportunisticBatching") && !command_line.without_equivalence_cache,
        publishes_expected_node: gates.is_on("NominatedNodeNameForExpectation"),
        evicts_asynchronously: gates.is_on("SchedulerAsyncPreemption"),
        records_decisions: command_line.kept_decisions_mib > 0,
    }
}

/// Reads the configuration file, or returns the defaults without a file. The log names the settings that have no
/// effect.
///
/// # Errors
/// The file cannot be read, or a setting of the file or of the command line cannot be used.
pub fn read(file: Option<&Path>, overrides: &Overrides, plugins: &dyn PluginCatalogue) -> Result<Settings> {
    let Reading { settings, without_effect } =
        read_all(file, overrides, plugins).map_err(|error| Usage(error.to_string()))?;
    let file = file.map(|file| file.display().to_string()).unwrap_or_default();
    for what in without_effect {
        warn!(file, "{what}");
    }
    Ok(settings)
}

/// The content of a configuration.
#[derive(Debug)]
pub struct Reading {
    pub settings: Settings,
    /// Fields and names that were given but have no effect. Each is a sentence that begins with the field.
    pub without_effect: Vec<String>,
}

/// The reason why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadingError {
    #[error("--config {}: cannot be read: {source}", file.display())]
    Unreadable { file: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Invalid(#[from] ConfigError),
}

/// Reads the configuration as [`read`] does, and also returns the settings that have no effect.
///
/// # Errors
/// Fails as [`read`] does.
pub fn read_all(
    file: Option<&Path>,
    overrides: &Overrides,
    plugins: &dyn PluginCatalogue,
) -> Result<Reading, ReadingError> {
    let given = Value::from(overrides.fields.clone());
    let Some(file) = file else {
        let settings = Settings::without_text(overrides, plugins)?;
        return Ok(Reading { settings, without_effect: without_effect(&given) });
    };
    let text =
        std::fs::read_to_string(file).map_err(|source| ReadingError::Unreadable { file: file.to_owned(), source })?;
    let settings = Settings::from_text_and(&file.display().to_string(), &text, overrides, plugins)?;
    let document = serde_saphyr::from_str::<Value>(&text).unwrap_or(given);
    let mut without_effect = without_effect(&document);
    without_effect.extend(settings.useless_names(&document, plugins).iter().map(ToString::to_string));
    Ok(Reading { settings, without_effect })
}

/// The fields that were given but have no effect, with the reasons.
fn without_effect(document: &Value) -> Vec<String> {
    const NO_PROFILES: &str = "/debug/pprof is not served";
    const JSON: &str = "objects travel as JSON";
    let connection = &document["clientConnection"];
    let is_other = |field: &str| {
        let given = connection[field].as_str().unwrap_or_default();
        !given.is_empty() && !given.contains("application/json")
    };
    let parallelism = document["parallelism"].as_u64();
    [
        ("parallelism", "one thread filters and scores", parallelism.is_some_and(|given| given != DEFAULT_PARALLELISM)),
        ("clientConnection.contentType", JSON, is_other("contentType")),
        ("clientConnection.acceptContentTypes", JSON, is_other("acceptContentTypes")),
        ("enableContentionProfiling", NO_PROFILES, document["enableContentionProfiling"] == true),
    ]
    .into_iter()
    .filter(|(_, _, is_given)| *is_given)
    .map(|(field, why, _)| format!("{field}: has no effect: {why}"))
    .collect()
}

/// The overrides for a scheduler that is alone on its API server: no other replica exists, and the rate of requests
/// need not be limited.
pub fn alone() -> Overrides {
    let mut overrides = Overrides::default();
    overrides.fields.insert("leaderElection".to_owned(), json!({ "leaderElect": false }));
    overrides.fields.insert("clientConnection".to_owned(), json!({ "qps": -1 }));
    overrides
}

#[cfg(test)]
mod tests {
    use berth_config::feature_gates::Gates;
    use berth_plugin_host::{Plugins, Rules, Sources};
    use berth_wasm_host::FaultSink;

    use super::*;

    #[test]
    fn gates_decide_settings() {
        let plugins = Plugins::inspect(Rules::default(), &Sources::default(), FaultSink::default());
        let (plugins, _) = plugins.expect("built-ins");
        let settings = Settings::without_text(&Overrides::default(), &plugins.inventory).expect("valid settings");
        let made = |gate: &str, is_on| {
            let mut gates = Gates::default();
            gates.switch(gate, is_on).expect("the gate can be switched");
            let made = scheduler_settings(&settings, &Options { gates, ..Options::default() });
            let berth_scheduler::Settings { queue, equivalence_cache, publishes_expected_node, .. } = made;
            [queue.pops_from_backoff, equivalence_cache, publishes_expected_node, made.evicts_asynchronously]
        };
        let gates = [
            "SchedulerPopFromBackoffQ",
            "OpportunisticBatching",
            "NominatedNodeNameForExpectation",
            "SchedulerAsyncPreemption",
        ];
        for (position, gate) in gates.iter().enumerate() {
            assert_eq!(made(gate, true), [true; 4], "{gate}");
            assert_eq!(made(gate, false), std::array::from_fn(|other| other != position), "{gate}");
        }
    }

    #[test]
    fn what_changes_nothing_is_told() {
        let fields = |document: Value| {
            let told = without_effect(&document).into_iter();
            told.map(|line| line.split_once(": ").expect("a field").0.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(fields(json!({})), [""; 0]);
        let quiet = json!({
            "parallelism": 16, "enableProfiling": false,
            "clientConnection": {"contentType": "application/json", "acceptContentTypes": ""},
        });
        assert_eq!(fields(quiet), [""; 0]);
        let told = json!({
            "parallelism": 4, "enableProfiling": true, "enableContentionProfiling": true,
            "clientConnection": {"contentType": "application/vnd.kubernetes.protobuf", "acceptContentTypes": "application/cbor"},
        });
        let expected = [
            "parallelism",
            "clientConnection.contentType",
            "clientConnection.acceptContentTypes",
            "enableContentionProfiling",
        ];
        assert_eq!(fields(told), expected);
    }
}
