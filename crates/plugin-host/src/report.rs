//! The data about a plugin that operators see, as JSON and as the source of tables.

use std::{collections::BTreeMap, fmt, time::Duration};

use berth_config::FailurePolicy;
use berth_framework::PluginFactory;
use berth_lifecycle::{Component, Fallback, PluginState, PluginStatus, ProbationEnd, Service};
use berth_model::{BinaryId, Digest, Time};
use berth_telemetry::{
    clock,
    notices::{PastEvent, PointLatency},
};
use berth_wasm_host::{FaultKind, PluginStats};
use serde::{Deserialize, Serialize};

use crate::{
    inventory::PluginInventory,
    ready_binary::{Origin, ReadyBinary},
    rules::{Granted, Rules},
};

/// One plugin. Later versions only add fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginReport {
    pub name: String,
    pub version: String,
    /// SHA-256 in hex, `native`, or empty if nothing serves.
    pub digest: String,
    /// The source of the binary that serves, or that is out of service: `native`, `embedded`, `directory` or `registry`.
    /// For a binary that is refused or still loaded, the place where it was found. `none` if no binary is known or an
    /// operator disabled the plugin.
    pub source: String,
    /// The artifact in a registry that serves, with its digest.
    pub reference: Option<String>,
    /// The signers that let the binary serve, by their names in the settings; empty if nothing serves or no signature is
    /// required.
    pub signed_by: Vec<String>,
    pub state: PluginState,
    /// The digest of the binary that serves in each profile; empty if no binary serves.
    pub profiles: BTreeMap<String, String>,
    /// Extension points.
    pub exports: Vec<String>,
    pub needs: NeedsReport,
    pub grants: GrantsReport,
    pub limits: LimitsReport,
    pub failure_policy: String,
    pub calls: u64,
    /// The number of the plugin's faults, by kind of fault.
    pub faults: BTreeMap<String, u64>,
    pub dropped_log_lines: u64,
    /// The number of effects that the plugin asked for without a grant, by kind of effect.
    pub effects_refused: BTreeMap<String, u64>,
    /// The reason for the state. It is absent if the plugin serves, its file is the serving binary, and no point is
    /// missed.
    pub reason: Option<String>,
    /// The lists of the configuration that enable the plugin at a point which the binary that serves does not
    /// implement, each with its mistake.
    pub missed_points: Vec<String>,
    /// The reason of the last failure or of an operator's last change, however old.
    pub last_reason: Option<String>,
    /// The target of a rollback: a digest, or `built-in`.
    pub previous_digest: Option<String>,
    /// The digest of the file's bytes that are not tried again until the file changes.
    pub refused_digest: Option<String>,
    /// The end of the quarantine, in milliseconds since 1970.
    pub quarantined_until: Option<u64>,
    /// The component that is out of service.
    pub quarantined: Option<QuarantinedBinary>,
    /// The component that gets another instance after a fault.
    pub restarting: Option<QuarantinedBinary>,
    /// The remaining probation of the serving binary.
    pub probation: Option<ProbationReport>,
    /// The serving binaries, each once, because profiles may differ.
    pub binaries: Vec<ServingBinary>,
    /// The events in the plugin's life since the start of the process, the newest first. Old entries are dropped.
    pub history: Vec<PastEvent>,
    /// The functions of the component that were running at its last fault, the innermost first. Empty if the call
    /// ended by itself, or if there was no fault.
    pub fault_stack: Vec<String>,
    /// How long calls take at each extension point, beside the binary before.
    pub latencies: Vec<PointLatency>,
}

/// The answer to an operator's order. Later versions only add fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OrderReport {
    #[serde(flatten)]
    pub plugin: PluginReport,
    /// The number of pods that the plugin held at Permit and that go on without its answer, because it was disabled, or
    /// because the previous binary does not implement Permit. It is absent for other orders, and if the scheduling thread
    /// takes longer than a few seconds.
    pub released_from_permit: Option<usize>,
}

/// A problem of a plugin, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Whether pods are not scheduled as intended. Otherwise the complaint is only information.
    pub is_problem: bool,
    pub text: String,
    pub fix: String,
}

impl PluginReport {
    /// The problems of the plugin.
    pub fn complaints(&self) -> Vec<Complaint> {
        let reason = self.reason.as_deref().unwrap_or("unknown reason");
        let (name, state) = (&self.name, self.state.as_str());
        let complaint = |is_problem, text, fix: &str| Complaint { is_problem, text, fix: fix.to_owned() };
        let by_state = match self.state {
            // No profile uses a plugin in the state `Unused`.
            PluginState::Serving | PluginState::Probation | PluginState::Unused => None,
            PluginState::Quarantined | PluginState::Restarting | PluginState::Refused => {
                let replace = match self.source.as_str() {
                    "registry" => "push another version to its registry",
                    _ => "replace its file",
                };
                let fix = format!("{replace}; `berth plugin describe` says more");
                Some(complaint(true, format!("plugin {name} is {state}: {reason}"), &fix))
            }
            PluginState::Loading => {
                let fix = "wait, then run `berth plugin list` again";
                Some(complaint(false, format!("plugin {name} is being loaded"), fix))
            }
            PluginState::Missing => {
                let fix = "put its file into the plugins directory, or disable it in the profile";
                Some(complaint(false, format!("plugin {name} is missing"), fix))
            }
            PluginState::Disabled => {
                let fix = format!("run `berth plugin enable {name}` to enable it again");
                Some(complaint(false, format!("plugin {name} is disabled by an operator"), &fix))
            }
        };
        let has_refused_file = self.refused_digest.is_some() && self.state == PluginState::Serving;
        let of_file = has_refused_file.then(|| {
            complaint(
                false,
                format!("plugin {name} serves, but its newest binary was refused: {reason}"),
                "replace the refused binary",
            )
        });
        let of_points = self.missed_points.iter().map(|missed| {
            complaint(
                true,
                format!("plugin {name} does not run at an extension point where the configuration enables it: {missed}"),
                "remove the plugin from this extension point in the profile, or install a version that implements the point",
            )
        });
        let is_used = !self.profiles.is_empty();
        by_state.into_iter().chain(of_file).chain(of_points).filter(|_| is_used).collect()
    }
}

/// A component that is out of service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuarantinedBinary {
    pub version: String,
    pub digest: String,
    /// The time in RFC 3339.
    pub until: String,
}

/// The end of a probation: a time or a number of calls, depending on the settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProbationReport {
    /// The time in RFC 3339.
    pub until: Option<String>,
    /// Whether the binary has answered no question about a pod since it arrived or last faulted. The probation lasts
    /// until the binary has answered such a question.
    pub awaits_answer: bool,
    /// The number of calls that are left in the probation.
    pub calls_left: Option<u64>,
}

/// The text continues `on probation until`.
impl fmt::Display for ProbationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { until, awaits_answer, calls_left } = self;
        match (until, calls_left) {
            (Some(until), _) => f.write_str(until)?,
            (None, Some(calls)) => write!(f, "{calls} more calls")?,
            (None, None) => {}
        }
        if *awaits_answer { f.write_str(", and until it answers a question about a pod") } else { Ok(()) }
    }
}

/// A binary, the profiles in which it serves, and its grants in each of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServingBinary {
    pub version: String,
    /// SHA-256 in hex, or `native`.
    pub digest: String,
    /// `native`, `embedded`, or `directory`.
    pub source: String,
    pub profiles: Vec<String>,
    pub grants: GrantsReport,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NeedsReport {
    pub columns: Vec<String>,
    /// The keys of the labels of nodes that the plugin reads. If the plugin names no key and reads the column, it reads
    /// all labels.
    pub label_keys: Vec<String>,
    /// The keys of the annotations of nodes that the plugin reads.
    pub annotation_keys: Vec<String>,
    /// Whether the plugin needs pods on nodes.
    pub pods: bool,
    /// Whether the plugin needs the JSON of pending pods.
    pub pod_json: bool,
    /// `apiVersion/kind`.
    pub objects: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrantsReport {
    /// `apiVersion/kind`.
    pub reads: Vec<String>,
    pub effects: Vec<String>,
    /// The objects that the plugin may change, each as a rule in the form of a configuration.
    pub rules: Vec<String>,
    /// Whether the plugin may read the JSON of pending pods.
    pub pod_json: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitsReport {
    pub call_milliseconds: u64,
    pub post_filter_milliseconds: u64,
    pub lifecycle_milliseconds: u64,
    pub scheduling_thread_milliseconds: u64,
    /// The milliseconds of each second on the scheduling thread that all calls together may take.
    pub milliseconds_per_second: u64,
    pub burst_milliseconds: u64,
    pub memory_bytes: u64,
    pub output_bytes: u64,
    pub output_elements: u32,
    pub log_lines_per_second: u32,
}

/// All plugins, by name.
pub(crate) fn all(inventory: &PluginInventory) -> Vec<PluginReport> {
    inventory.names().filter_map(|name| one(inventory, name)).collect()
}

/// One plugin, if it is known.
pub(crate) fn one(inventory: &PluginInventory, name: &str) -> Option<PluginReport> {
    let rules = inventory.rules();
    let status = inventory.status(name)?;
    let text = |binary: Option<BinaryId>| binary.map_or_else(String::new, |binary| binary.to_string());
    let profiles = status.profiles.iter();
    let missed_points: Vec<String> =
        status.profiles.iter().flat_map(|(profile, _)| inventory.missed_points(name, profile)).collect();
    let missed = (!missed_points.is_empty()).then(|| missed_points.join("; "));
    let mut report = PluginReport {
        name: name.to_owned(),
        digest: text(status.service.id()),
        source: current_source(rules, name, &status).to_owned(),
        state: status.state,
        profiles: profiles.map(|(profile, binary)| ((*profile).to_owned(), text(*binary))).collect(),
        grants: GrantsReport::from(&inventory.granted(name, status.service.id())),
        limits: limits(rules, name),
        failure_policy: match rules.plugin(name).failure_policy {
            FailurePolicy::Fail => "Fail".to_owned(),
            FailurePolicy::Ignore => "Ignore".to_owned(),
        },
        reason: status.reason.clone().or(missed),
        missed_points,
        last_reason: status.last_reason.map(str::to_owned),
        previous_digest: status.fallback.map(|fallback| match fallback {
            Fallback::BuiltIn => "built-in".to_owned(),
            Fallback::Component(component) => component.digest.to_string(),
        }),
        refused_digest: status.refused_digest.map(|digest| digest.to_string()),
        quarantined_until: status.quarantine.map(|quarantine| clock::wall(quarantine.until)),
        quarantined: status.quarantine.map(|it| out_of_service(it.digest, it.until, status.component)),
        restarting: status.restart.map(|it| out_of_service(it.digest, it.at, status.component)),
        probation: status.probation_end.map(|end| match end {
            ProbationEnd::At { moment, awaits_answer } => {
                ProbationReport { until: Some(rfc3339(moment)), awaits_answer, calls_left: None }
            }
            ProbationEnd::AfterCalls(calls) => {
                ProbationReport { calls_left: Some(calls), ..ProbationReport::default() }
            }
        }),
        binaries: binaries(inventory, name, &status),
        ..PluginReport::default()
    };
    if let Some(binary) = status.service.binary() {
        report.describe(&*binary.factory());
        let origin = binary.origin().cloned().unwrap_or_default();
        (report.reference, report.signed_by) = (origin.reference, origin.signed_by);
    }
    if let Some(stats) = status.component.and_then(|component| component.binary.stats()) {
        report.count(stats);
    }
    Some(report)
}

fn out_of_service(digest: Digest, until: Time, component: Option<&Component<ReadyBinary>>) -> QuarantinedBinary {
    let component = component.filter(|component| component.digest == digest);
    QuarantinedBinary {
        version: component.map_or_else(String::new, |component| component.binary.factory().version().version),
        digest: digest.to_string(),
        until: rfc3339(until),
    }
}

fn rfc3339(time: Time) -> String {
    clock::rfc3339(clock::wall(time))
}

fn binaries(inventory: &PluginInventory, name: &str, status: &PluginStatus<'_, ReadyBinary>) -> Vec<ServingBinary> {
    let mut binaries: Vec<ServingBinary> = Vec::new();
    for (profile, _) in &status.profiles {
        let service = inventory.service(name, profile);
        let Some((service, binary)) = service.as_ref().and_then(|service| Some((service, service.binary()?))) else {
            continue;
        };
        let digest = service.id().map_or_else(String::new, |id| id.to_string());
        match binaries.iter_mut().find(|known| known.digest == digest) {
            Some(known) => known.profiles.push((*profile).to_owned()),
            None => binaries.push(ServingBinary {
                version: binary.factory().version().version,
                digest,
                source: source(service).to_owned(),
                profiles: vec![(*profile).to_owned()],
                grants: GrantsReport::from(&inventory.granted(name, service.id())),
            }),
        }
    }
    binaries
}

impl PluginReport {
    fn describe(&mut self, factory: &dyn PluginFactory) {
        let manifest = factory.manifest();
        self.version = factory.version().version;
        self.exports = factory.points().iter().map(|point| point.shown().to_owned()).collect();
        (self.needs.pods, self.needs.pod_json) = (manifest.needs.pods, manifest.needs.pod_json);
        self.needs.columns = manifest.needs.columns.iter().map(|column| format!("{column:?}")).collect();
        self.needs.label_keys.clone_from(&manifest.needs.label_keys);
        self.needs.annotation_keys.clone_from(&manifest.needs.annotation_keys);
        let objects = manifest.needs.objects.iter();
        self.needs.objects = objects.map(|kind| format!("{}/{}", kind.api_version, kind.kind)).collect();
    }

    fn count(&mut self, stats: &PluginStats) {
        self.calls = stats.calls();
        self.faults = FaultKind::ALL.into_iter().map(|kind| (kind.as_str().to_owned(), stats.faults(kind))).collect();
        self.dropped_log_lines = stats.dropped_log_lines();
    }
}

impl From<&Granted> for GrantsReport {
    fn from(granted: &Granted) -> Self {
        Self {
            reads: granted.read_names().collect(),
            effects: granted.effect_names().collect(),
            rules: granted.rule_names().collect(),
            pod_json: granted.pod_json,
        }
    }
}

/// The source of the binary that the plugin's state is about.
fn current_source(rules: &Rules, name: &str, status: &PluginStatus<'_, ReadyBinary>) -> &'static str {
    match status.state {
        PluginState::Quarantined | PluginState::Restarting => status.available.as_ref().map_or("none", source),
        PluginState::Refused | PluginState::Loading if rules.provenance.sources.contains_key(name) => "registry",
        PluginState::Refused | PluginState::Loading => "directory",
        PluginState::Serving
        | PluginState::Unused
        | PluginState::Probation
        | PluginState::Missing
        | PluginState::Disabled => source(&status.service),
    }
}

fn source(service: &Service<ReadyBinary>) -> &'static str {
    match service {
        Service::Native(_) => "native",
        Service::Embedded(_) => "embedded",
        Service::Directory(component) => match component.binary.origin() {
            Some(Origin { reference: Some(_), .. }) => "registry",
            Some(Origin { reference: None, .. }) | None => "directory",
        },
        Service::Pass(_) | Service::Hold(_) => "none",
    }
}

fn limits(rules: &Rules, name: &str) -> LimitsReport {
    let limits = rules.plugin(name).limits;
    let milliseconds = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    LimitsReport {
        call_milliseconds: milliseconds(limits.call_time),
        post_filter_milliseconds: milliseconds(limits.post_filter_time),
        lifecycle_milliseconds: milliseconds(limits.lifecycle_time),
        scheduling_thread_milliseconds: milliseconds(limits.scheduling_thread_time),
        milliseconds_per_second: milliseconds(limits.time_per_second),
        burst_milliseconds: milliseconds(limits.burst),
        memory_bytes: limits.memory_bytes,
        output_bytes: limits.output_bytes,
        output_elements: limits.output_elements,
        log_lines_per_second: limits.log_lines_per_second,
    }
}
