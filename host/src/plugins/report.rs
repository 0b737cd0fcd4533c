//! What an operator is shown of a plugin, as JSON and as the source of tables.

use std::collections::BTreeMap;

use berth_config::FailurePolicy;
use berth_framework::PluginFactory;
use serde::{Deserialize, Serialize};

use super::{
    binary::{Binary, Source},
    entry::{Choice, Entry, Previous},
    roster::Roster,
    rules::Rules,
};

/// One plugin. Fields are only ever added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PluginReport {
    pub name: String,
    pub version: String,
    /// SHA-256 in hex, `native`, or empty when nothing serves.
    pub digest: String,
    /// `native`, `embedded`, `directory`, or `none`.
    pub source: String,
    pub state: State,
    /// By profile, the digest of what serves there; empty when nothing does.
    pub profiles: BTreeMap<String, String>,
    /// Extension points.
    pub exports: Vec<String>,
    pub needs: Needs,
    pub grants: Grants,
    pub limits: Limits,
    pub failure_policy: String,
    pub calls: u64,
    /// By kind.
    pub faults: BTreeMap<String, u64>,
    pub dropped_log_lines: u64,
    /// By kind of effect, how often it asked for what it was not granted.
    pub effects_refused: BTreeMap<String, u64>,
    /// Why something last went wrong, or was changed by an operator.
    pub last_reason: Option<String>,
    /// What a rollback would bring back: a digest, or `built-in`.
    pub previous_digest: Option<String>,
    /// The file's bytes that are not tried again until the file changes.
    pub refused_digest: Option<String>,
    /// When the quarantine ends, in milliseconds since 1970.
    pub quarantined_until: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Serving,
    /// Serving, and the binary before it is kept ready.
    Probation,
    Quarantined,
    /// Nothing serves, as the file is no plugin or may not be one.
    Refused,
    #[default]
    Missing,
    Disabled,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Needs {
    pub columns: Vec<String>,
    /// Pods on nodes.
    pub pods: bool,
    /// The JSON of pending pods.
    pub pod_json: bool,
    /// `apiVersion/kind`.
    pub objects: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Grants {
    /// `apiVersion/kind`.
    pub reads: Vec<String>,
    pub effects: Vec<String>,
    /// The JSON of pending pods.
    pub pod_json: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Limits {
    pub call_milliseconds: u64,
    pub memory_bytes: u64,
    pub output_bytes: u64,
    pub output_elements: u32,
    pub log_lines_per_second: u32,
}

impl State {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            State::Serving => "serving",
            State::Probation => "probation",
            State::Quarantined => "quarantined",
            State::Refused => "refused",
            State::Missing => "missing",
            State::Disabled => "disabled",
        }
    }
}

/// All plugins, by name.
pub(crate) fn all(roster: &Roster) -> Vec<PluginReport> {
    roster.entries().map(|(name, entry)| report(roster, name, entry)).collect()
}

/// One plugin, if it is known.
pub(crate) fn one(roster: &Roster, name: &str) -> Option<PluginReport> {
    roster.get(name).map(|entry| report(roster, name, entry))
}

fn report(roster: &Roster, name: &str, entry: &Entry) -> PluginReport {
    let rules = &roster.rules;
    // Profiles may differ; the first one stands for all.
    let profile = entry.serving.keys().next().map_or("", String::as_str);
    let choice = entry.choose(name, profile, rules);
    let settings = rules.plugin(name);
    let mut report = PluginReport {
        name: name.to_owned(),
        source: "none".to_owned(),
        state: state(entry, &choice),
        profiles: entry.serving.iter().map(|(profile, serving)| (profile.clone(), serving.taken.clone())).collect(),
        grants: grants(roster, name),
        limits: limits(rules, name),
        failure_policy: match settings.failure_policy {
            FailurePolicy::Fail => "Fail".to_owned(),
            FailurePolicy::Ignore => "Ignore".to_owned(),
        },
        last_reason: entry.last_reason.clone(),
        previous_digest: match &entry.previous {
            Previous::Nothing => None,
            Previous::BuiltIn => Some("built-in".to_owned()),
            Previous::Binary(binary) => Some(binary.digest()),
        },
        refused_digest: entry.refused.as_ref().map(|refused| refused.digest.clone()).filter(|it| !it.is_empty()),
        quarantined_until: entry.quarantine.as_ref().map(|sentence| sentence.until.0),
        ..PluginReport::default()
    };
    if let Choice::Serve(binary) = &choice {
        report.describe(&*binary.factory);
        report.source = source(binary.source).to_owned();
    }
    // A quarantined binary does not serve, but its figures say why.
    let counted = [&entry.installed, &entry.embedded].into_iter().flatten().find(|binary| match &choice {
        Choice::Serve(serving) => serving.digest() == binary.digest(),
        Choice::Skip(_) | Choice::Hold(_) => true,
    });
    if let Some(binary) = counted {
        report.count(binary);
    }
    report
}

impl PluginReport {
    fn describe(&mut self, factory: &dyn PluginFactory) {
        let (version, manifest) = (factory.version(), factory.manifest());
        (self.version, self.digest) = (version.version, version.digest);
        self.exports = factory.points().iter().map(|point| point.as_str().to_owned()).collect();
        (self.needs.pods, self.needs.pod_json) = (manifest.needs.pods, manifest.needs.pod_json);
        self.needs.columns = manifest.needs.columns.iter().map(|column| format!("{column:?}")).collect();
        let objects = manifest.needs.objects.iter();
        self.needs.objects = objects.map(|kind| format!("{}/{}", kind.api_version, kind.kind)).collect();
    }

    fn count(&mut self, binary: &Binary) {
        let Some(figures) = &binary.figures else { return };
        self.calls = figures.calls();
        self.faults = figures.faults().into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect();
        self.dropped_log_lines = figures.dropped_log_lines();
    }
}

fn state(entry: &Entry, choice: &Choice) -> State {
    match choice {
        _ if entry.disabled => State::Disabled,
        Choice::Serve(binary) if entry.probation.is_some() && binary.source == Source::Directory => State::Probation,
        Choice::Serve(_) => State::Serving,
        Choice::Skip(_) | Choice::Hold(_) if entry.quarantine.is_some() => State::Quarantined,
        Choice::Skip(_) | Choice::Hold(_) if entry.refused.is_some() => State::Refused,
        Choice::Skip(_) | Choice::Hold(_) => State::Missing,
    }
}

fn source(source: Source) -> &'static str {
    match source {
        Source::Native => "native",
        Source::Embedded => "embedded",
        Source::Directory => "directory",
    }
}

fn grants(roster: &Roster, name: &str) -> Grants {
    let granted = roster.granted(name);
    Grants {
        reads: granted.reads.iter().map(|kind| format!("{}/{}", kind.api_version, kind.kind)).collect(),
        effects: granted.effects.iter().map(|effect| effect.as_str().to_owned()).collect(),
        pod_json: granted.pod_json,
    }
}

fn limits(rules: &Rules, name: &str) -> Limits {
    let limits = rules.plugin(name).limits;
    Limits {
        call_milliseconds: u64::try_from(limits.call_time.as_millis()).unwrap_or(u64::MAX),
        memory_bytes: limits.memory_bytes,
        output_bytes: limits.output_bytes,
        output_elements: limits.output_elements,
        log_lines_per_second: limits.log_lines_per_second,
    }
}
