//! The whole `KubeSchedulerConfiguration`, in the form that the program uses.
//!
//! [`Settings`] is complete: no field is unset, and the value is only made from a document that passed every check. One
//! pass over the JSON tree reads the fields and fills in defaults. Mistakes are collected and returned together.

use std::{collections::BTreeSet, time::Duration};

use berth_framework::Point;
use berth_model::PluginName;
use serde_json::{Map, Value, json};

use crate::{
    error::{ConfigError, Problems},
    extender::{Extender, read_extenders},
    fields::{API_VERSION, Fields},
    in_tree::InTree,
    leader::{LeaderElection, read_leader_election},
    point::PluginCatalogue,
    profile::{DEFAULT_SCHEDULER_NAME, Profile, read_percentage},
};

/// The operator's settings, complete and validated.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The number of workers that examine nodes at the same time; at least 1.
    pub parallelism: u32,
    /// The share of feasible nodes at which filtering stops; 0 adapts to the size of the cluster.
    pub percentage_of_nodes_to_score: u8,
    /// The time for which a pod waits after its first failed attempt.
    pub pod_initial_backoff: Duration,
    /// The longest time for which a pod waits after failed attempts.
    pub pod_max_backoff: Duration,
    /// Whether this scheduler takes part in a leader election, and the settings of the election.
    pub leader_election: LeaderElection,
    /// The connection to the API server.
    pub client_connection: ClientConnection,
    /// Whether `/debug/pprof` is served.
    pub enable_profiling: bool,
    /// Whether profiles include contention.
    pub enable_contention_profiling: bool,
    /// Whether the watches start only once this scheduler leads.
    pub delay_cache_until_active: bool,
    /// The profiles; at least one. Scheduler names are unique, and all profiles have the same queue sort plugin.
    pub profiles: Vec<Profile>,
    /// The extenders, in the order in which they are asked.
    pub extenders: Vec<Extender>,
}

/// The connection to the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientConnection {
    /// The path of a kubeconfig file. An empty path stands for the cluster in which the program runs.
    pub kubeconfig: String,
    /// The value of the header `Accept`. If it is empty, `content_type` is used.
    pub accept_content_types: String,
    /// The format in which objects are sent.
    pub content_type: String,
    /// The average number of requests per second; a negative number means no limit.
    pub qps: f64,
    /// The number of requests that may be sent at one time above the average.
    pub burst: u32,
}

/// Settings of a command that are added to the document that the command reads.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The program that determines the defaults.
    pub program: Program,
    /// The new name of the only profile.
    pub scheduler_name: Option<String>,
    /// Values that replace the document's fields, as in `{"leaderElection": {"leaderElect": false}}`. Lists are
    /// replaced as a whole.
    pub fields: Map<String, Value>,
}

/// The name under which the scheduler was called. The two programs differ in their defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// The program replaces kube-scheduler. It serves `default-scheduler` under kube-scheduler's Lease.
    #[default]
    KubeScheduler,
    /// The program works beside kube-scheduler. Without a document, it serves the pods of the scheduler `berth`. Its
    /// Lease is `berth`. If a profile serves `default-scheduler`, the Lease is kube-scheduler's, because two schedulers
    /// that serve the same pods must not both be active.
    Berth,
}

const KIND: &str = "KubeSchedulerConfiguration";
/// The scheduler name and the Lease of a Berth that runs beside the cluster's own scheduler.
const BERTH: &str = "berth";
const KUBE_SCHEDULER_LEASE: &str = "kube-scheduler";

impl Settings {
    /// Settings with one default profile and kube-scheduler's defaults everywhere. `catalogue` must know the plugins of
    /// the default profile.
    #[must_use]
    pub fn defaults(catalogue: &InTree) -> Self {
        let problems = Problems::default();
        let settings = Self::read(&Fields::new("", None, &problems), &Overrides::default(), catalogue);
        let settled = problems.settle("defaults");
        debug_assert!(settled.is_ok(), "the catalogue lacks plugins of the default profile: {settled:?}");
        settings
    }

    /// Reads a configuration document in YAML or JSON, as kube-scheduler does. `file_name` is only used in error
    /// messages.
    ///
    /// # Errors
    /// [`ConfigError::Syntax`] if the text cannot be parsed, otherwise [`ConfigError::Invalid`] with all mistakes.
    pub fn from_text(file_name: &str, text: &str, catalogue: &dyn PluginCatalogue) -> Result<Self, ConfigError> {
        Self::from_text_and(file_name, text, &Overrides::default(), catalogue)
    }

    /// Reads a document as [`Settings::from_text`] does, and then applies the settings of the command line.
    ///
    /// # Errors
    /// Fails as [`Settings::from_text`] does.
    pub fn from_text_and(
        file_name: &str,
        text: &str,
        overrides: &Overrides,
        catalogue: &dyn PluginCatalogue,
    ) -> Result<Self, ConfigError> {
        let mut document: Value = serde_saphyr::from_str(text)
            .map_err(|source| ConfigError::Syntax { file: file_name.to_owned(), source: Box::new(source) })?;
        let problems = Problems::default();
        read_identity(&Fields::new("", Some(&document), &problems));
        // Otherwise, a document of another kind would be reported as a list of unknown fields, which does not help.
        problems.settle(file_name)?;
        lay_over(&mut document, &overrides.fields);
        Self::read_document(file_name, &document, overrides, catalogue)
    }

    /// The settings of a command without a document.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with all mistakes in the overrides.
    pub fn without_text(overrides: &Overrides, catalogue: &dyn PluginCatalogue) -> Result<Self, ConfigError> {
        let mut document = json!({ "apiVersion": API_VERSION, "kind": KIND });
        if overrides.program == Program::Berth
            && let Some(document) = document.as_object_mut()
        {
            document.insert("profiles".to_owned(), json!([{ "schedulerName": BERTH }]));
        }
        lay_over(&mut document, &overrides.fields);
        Self::read_document("command line", &document, overrides, catalogue)
    }

    fn read_document(
        file_name: &str,
        document: &Value,
        overrides: &Overrides,
        catalogue: &dyn PluginCatalogue,
    ) -> Result<Self, ConfigError> {
        let problems = Problems::default();
        let fields = Fields::new("", Some(document), &problems);
        read_identity(&fields);
        let settings = Self::read(&fields, overrides, catalogue);
        fields.finish();
        problems.settle(file_name)?;
        Ok(settings)
    }

    /// The effective configuration as a document that reads back as the same settings.
    ///
    /// # Errors
    /// Fails if the YAML writer fails, which does not happen with settings that this crate has read.
    pub fn to_yaml(&self) -> Result<String, ConfigError> {
        serde_saphyr::to_string(&self.to_json()).map_err(ConfigError::Render)
    }

    /// The document of [`Settings::to_yaml`] as a JSON tree.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "parallelism": self.parallelism,
            "percentageOfNodesToScore": self.percentage_of_nodes_to_score,
            "podInitialBackoffSeconds": self.pod_initial_backoff.as_secs(),
            "podMaxBackoffSeconds": self.pod_max_backoff.as_secs(),
            "leaderElection": self.leader_election.to_json(),
            "clientConnection": self.client_connection.to_json(),
            "enableProfiling": self.enable_profiling,
            "enableContentionProfiling": self.enable_contention_profiling,
            "delayCacheUntilActive": self.delay_cache_until_active,
            "profiles": self.profiles.iter().map(Profile::to_json).collect::<Vec<_>>(),
            "extenders": self.extenders.iter().map(Extender::to_json).collect::<Vec<_>>(),
        })
    }

    /// Makes NodeResourcesFit skip the resources that extenders manage with `ignoredByScheduler`. If there are such
    /// resources, they replace `ignoredResources` of NodeResourcesFit in every profile (`buildExtenders` in
    /// `pkg/scheduler/scheduler.go`).
    pub fn ignore_managed_resources(&mut self) {
        let managed = self.extenders.iter().flat_map(|extender| &extender.managed_resources);
        let ignored: Vec<&str> =
            managed.filter(|resource| resource.ignored_by_scheduler).map(|resource| resource.name.as_str()).collect();
        if ignored.is_empty() {
            return;
        }
        for profile in &mut self.profiles {
            if let Some(args) = profile.plugin_config.get_mut("NodeResourcesFit").and_then(Value::as_object_mut) {
                args.insert("ignoredResources".to_owned(), json!(ignored));
            }
        }
    }

    fn read(fields: &Fields<'_>, overrides: &Overrides, catalogue: &dyn PluginCatalogue) -> Self {
        let profiles = read_profiles(fields, overrides.scheduler_name.as_deref(), catalogue);
        let lease = lease_name(overrides.program, &profiles);
        let (pod_initial_backoff, pod_max_backoff) = read_backoff(fields);
        let enable_profiling = fields.flag("enableProfiling").unwrap_or(true);
        Self {
            parallelism: read_parallelism(fields),
            percentage_of_nodes_to_score: read_percentage(fields).unwrap_or(0),
            pod_initial_backoff,
            pod_max_backoff,
            leader_election: read_leader_election(fields.object("leaderElection"), lease),
            client_connection: read_client_connection(fields.object("clientConnection")),
            enable_profiling,
            enable_contention_profiling: fields.flag("enableContentionProfiling").unwrap_or(enable_profiling),
            delay_cache_until_active: fields.flag("delayCacheUntilActive").unwrap_or(false),
            profiles,
            extenders: read_extenders(fields),
        }
    }
}

impl ClientConnection {
    fn to_json(&self) -> Value {
        json!({
            "kubeconfig": self.kubeconfig,
            "acceptContentTypes": self.accept_content_types,
            "contentType": self.content_type,
            "qps": self.qps,
            "burst": self.burst,
        })
    }
}

/// The default name of the Lease.
fn lease_name(program: Program, profiles: &[Profile]) -> &'static str {
    let is_default = |profile: &Profile| profile.scheduler_name == DEFAULT_SCHEDULER_NAME;
    match program {
        Program::Berth if !profiles.iter().any(is_default) => BERTH,
        Program::Berth | Program::KubeScheduler => KUBE_SCHEDULER_LEASE,
    }
}

/// Merges objects, and replaces everything else.
fn lay_over(document: &mut Value, fields: &Map<String, Value>) {
    for (name, value) in fields {
        match (&mut document[name], value) {
            (below @ Value::Object(_), Value::Object(fields)) => lay_over(below, fields),
            (below, value) => *below = value.clone(),
        }
    }
}

fn read_identity(fields: &Fields<'_>) {
    for (name, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        match fields.text(name) {
            Some(found) if found == expected => {}
            Some(found) => fields.problems.unsupported(&fields.at(name), found, &[expected]),
            None => fields.required(name, &format!("begin the document with \"{name}: {expected}\"")),
        }
    }
}

fn read_parallelism(fields: &Fields<'_>) -> u32 {
    // The default is kube-scheduler's.
    let parallelism = fields.whole32("parallelism").unwrap_or(16);
    if parallelism <= 0 {
        fields.invalid("parallelism", parallelism, "should be an integer value greater than zero");
    }
    u32::try_from(parallelism).unwrap_or(1)
}

fn read_backoff(fields: &Fields<'_>) -> (Duration, Duration) {
    let initial = fields.whole("podInitialBackoffSeconds").unwrap_or(1);
    let max = fields.whole("podMaxBackoffSeconds").unwrap_or(10);
    if initial <= 0 {
        fields.invalid("podInitialBackoffSeconds", initial, "must be greater than 0");
    }
    if max < initial {
        fields.invalid("podMaxBackoffSeconds", max, "must be greater than or equal to PodInitialBackoffSeconds");
    }
    let seconds = |seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    (seconds(initial), seconds(max))
}

fn read_client_connection(fields: Fields<'_>) -> ClientConnection {
    let burst = fields.whole32("burst").filter(|burst| *burst != 0).unwrap_or(100);
    if burst < 0 {
        fields.invalid("burst", burst, "must be non-negative");
    }
    let content_type = fields.text("contentType").filter(|text| !text.is_empty());
    let connection = ClientConnection {
        kubeconfig: fields.text("kubeconfig").unwrap_or_default().to_owned(),
        accept_content_types: fields.text("acceptContentTypes").unwrap_or_default().to_owned(),
        content_type: content_type.unwrap_or("application/vnd.kubernetes.protobuf").to_owned(),
        qps: fields.number("qps").filter(|qps| *qps != 0.0).unwrap_or(50.0),
        burst: u32::try_from(burst).unwrap_or(0),
    };
    fields.finish();
    connection
}

fn read_profiles(fields: &Fields<'_>, scheduler_name: Option<&str>, catalogue: &dyn PluginCatalogue) -> Vec<Profile> {
    let mut entries = fields.objects("profiles");
    if entries.is_empty() {
        entries.push(Fields::new("profiles[0]", None, fields.problems));
    }
    let fallback_name = (entries.len() == 1).then_some(DEFAULT_SCHEDULER_NAME);
    let mut profiles: Vec<_> =
        entries.into_iter().map(|entry| Profile::read(entry, fallback_name, catalogue)).collect();
    check_together(&profiles, fields.problems);
    match (scheduler_name, profiles.as_mut_slice()) {
        (None, _) => {}
        (Some(name), [profile]) => name.clone_into(&mut profile.scheduler_name),
        (Some(name), profiles) => {
            let why = "--scheduler-name renames the profile of a configuration with one profile, but this configuration has several";
            let names: Vec<_> = profiles.iter().map(|profile| profile.scheduler_name.as_str()).collect();
            fields.invalid("profiles", names, &format!("{why}: leave out --scheduler-name {name}"));
        }
    }
    profiles
}

/// Pods of all profiles wait in one queue, so all profiles must have the same order.
fn check_together(profiles: &[Profile], problems: &Problems) {
    let mut names = BTreeSet::new();
    for (idx, profile) in profiles.iter().enumerate() {
        let name = profile.scheduler_name.as_str();
        if !name.is_empty() && !names.insert(name) {
            problems.duplicate(&format!("profiles[{idx}].schedulerName"), name);
        }
    }
    let Some((first, others)) = profiles.split_first() else { return };
    let queue_sort = first.plugins.at(Point::QueueSort);
    for (idx, other) in (1..).zip(others) {
        let found = other.plugins.at(Point::QueueSort);
        if found != queue_sort {
            let why = "queue sort plugins must be the same for all profiles";
            let found: Vec<&str> = found.iter().map(PluginName::as_str).collect();
            problems.invalid(&format!("profiles[{idx}].plugins.queueSort"), found, why);
        }
        for name in queue_sort {
            if other.plugin_config.get(name) != first.plugin_config.get(name) {
                let why = "args of the queue sort plugin must be the same for all profiles";
                problems.invalid(&format!("profiles[{idx}].pluginConfig"), name.as_str(), why);
            }
        }
    }
}

#[cfg(test)]
mod guide;
#[cfg(test)]
mod tests;
