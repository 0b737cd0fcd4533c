//! The operator's settings for plugins: reads `PluginHostConfiguration` documents into complete [`PluginHostSettings`].
//!
//! The module `file` holds the content of a document, and every field of the document may be absent. This module has
//! the settings that the program uses. An entry of `plugins` replaces values of `defaults`, and the values of
//! `defaults` replace the constants below. Only [`PluginSettings::grants`] and [`PluginSettings::execution`] may be
//! unset, because their values depend on the kind of plugin.

mod file;
mod grants;
mod provenance;
#[cfg(feature = "schema")]
mod schema;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use berth_framework::{ObjectKind, ObjectRule, Permission};
pub use berth_model::plugin_policy::{Execution, FailurePolicy, Probation, ProbationSpan, Quarantine};
use berth_model::{Digest, PluginName};
use serde::de::Error as _;
use serde_json::Value;

use self::file::{Document, Misread, PluginEntry, SettingsFields, advice_on_list, read_document};
pub use self::provenance::{
    KeylessSettings, KeylessSubject, PluginSource, ProvenanceSettings, RegistrySettings, SignatureRule,
    SignatureSource, SignerIdentity, SignerSettings, Unsigned,
};

/// The group and version of the document.
pub const PLUGIN_HOST_API_VERSION: &str = "berth.dev/v1alpha1";

/// The scheduling thread waits for every call. A good plugin answers in microseconds, and a plugin with an interpreter
/// answers in a few milliseconds.
const CALL_TIME: Duration = Duration::from_millis(50);
/// An interpreter takes a second to start, and filling a replica of the largest cluster also takes a second. Only the
/// pods of the plugin wait during this time.
const LIFECYCLE_TIME: Duration = Duration::from_secs(10);
/// Every pod waits during this time. Compiled languages fill a replica of the largest cluster in less time.
const SCHEDULING_THREAD_TIME: Duration = Duration::from_secs(1);
/// Preemption asks each Filter plugin about every node.
const POST_FILTER_TIME: Duration = Duration::from_secs(1);
/// The value is half of the thread's time. The pods of other profiles get at least the other half.
const TIME_PER_SECOND: Duration = Duration::from_millis(500);
/// A burst of events may delay everything else for this long.
const BURST: Duration = Duration::from_secs(1);
/// A replica of 15,000 nodes takes 2 MiB as columns and 22 MiB as strings.
const MEMORY_BYTES: u64 = 256 << 20;
/// Scores of 100,000 nodes take 800 kB.
const OUTPUT_BYTES: u64 = 16 << 20;
/// One status has at most this many reasons, and one answer has at most this many effects: no person reads more.
const OUTPUT_ELEMENTS: u32 = 1024;
/// A reader of the log can follow a plugin with this number of lines. More lines would hide the scheduler's own lines.
const LOG_LINES_PER_SECOND: u32 = 20;
/// A plugin that fails for every pod reaches this number within a few pods. A plugin that fails less than once in two
/// minutes does not reach it.
const QUARANTINE_FAULTS: u32 = 5;
const QUARANTINE_WINDOW: Duration = Duration::from_secs(600);
/// A hundred calls that exceed their time limit take this time.
const QUARANTINE_LOST: Duration = Duration::from_secs(5);
/// The time is long enough for an operator to read the report, and short enough that pods do not wait long after the
/// cause has passed.
const QUARANTINE_BACKOFF: Duration = Duration::from_secs(30);
/// A busy cluster calls a plugin thousands of times in a minute.
const PROBATION_PERIOD: Duration = Duration::from_secs(60);
/// One timeout on a loaded machine is not reason enough to go back to the old version.
const PROBATION_FAULTS: u32 = 2;

/// The limit is several times the size of a plugin that contains an interpreter of Python or JavaScript.
const FILE_BYTES: u64 = 128 << 20;
const COMPILE_CPU_TIME: Duration = Duration::from_secs(120);
const COMPILE_MEMORY_BYTES: u64 = 4 << 30;

/// If plugins took more time, the pods of other profiles would wait for longer than users would accept.
const PLUGINS_PER_SECOND: Duration = Duration::from_millis(300);
/// One namespace takes at most half of the time from the other namespaces.
const NAMESPACE_PER_SECOND: Duration = Duration::from_millis(500);
/// One search may delay all other pods for this long.
const SEARCH: Duration = Duration::from_millis(250);

/// The operator's settings for plugins, complete and validated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginHostSettings {
    files: FileSettings,
    scheduling_thread: SchedulingThreadSettings,
    denied_digests: BTreeSet<Digest>,
    provenance: ProvenanceSettings,
    defaults: PluginSettings,
    plugins: BTreeMap<PluginName, PluginSettings>,
    execution_of_profiles: BTreeMap<String, Execution>,
}

/// The permissions and limits of one plugin, and the treatment of failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSettings {
    /// The limits of each instance of the plugin.
    pub limits: PluginLimits,
    /// The grants in the plugin's own entry; `None` if the entry has no grants.
    pub grants: Option<PluginGrants>,
    /// The treatment of pods while the plugin is out of service.
    pub failure_policy: FailurePolicy,
    /// The execution in the plugin's own entry; `None` if the entry has no execution.
    pub execution: Option<Execution>,
    /// The conditions under which a failing plugin is taken out of service.
    pub quarantine: Quarantine,
    /// The time or number of calls for which a new binary must work without too many faults.
    pub probation: Probation,
    /// The source of the plugin's binary in its own entry; `None` for the plugins directory.
    pub source: Option<PluginSource>,
}

/// The limits of an instance. An instance that exceeds any limit except the log rate commits a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginLimits {
    /// The processor time of one call.
    pub call_time: Duration,
    /// The processor time of `describe`, `configure`, `snapshot`, `restore` or a full delta.
    pub lifecycle_time: Duration,
    /// The processor time of a call of the kinds in [`Self::lifecycle_time`], if the scheduling thread waits for it.
    pub scheduling_thread_time: Duration,
    /// The processor time of `post-filter` with its dry runs.
    pub post_filter_time: Duration,
    /// The time of all calls on the scheduling thread together in each second.
    pub time_per_second: Duration,
    /// The amount of `time_per_second` that may be saved up.
    pub burst: Duration,
    /// The size of all linear memories of an instance together.
    pub memory_bytes: u64,
    /// The maximum number of bytes in one answer.
    pub output_bytes: u64,
    /// The maximum number of reasons in one status, or of effects in one answer.
    pub output_elements: u32,
    /// The maximum number of log lines per second. Further lines are dropped and counted.
    pub log_lines_per_second: u32,
}

/// The limits for a file of the plugins directory before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSettings {
    pub max_bytes: u64,
    /// The processor time for compilation, on all processors together.
    pub compile_cpu_time: Duration,
    /// The memory in bytes to which the process that compiles the file can write.
    pub compile_memory_bytes: u64,
}

/// The part of each second of the scheduling thread that may be used while other pods wait. A whole second is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulingThreadSettings {
    /// The time that all plugins together may use. The program's own time does not count.
    pub plugins_per_second: Duration,
    /// The time that long searches for nodes for the pods of one namespace may use.
    pub namespace_per_second: Duration,
    /// The time that one search for a node may use, even if no other pods wait.
    pub search: Duration,
}

/// The grants of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginGrants {
    /// The kinds of objects that the plugin may see completely.
    pub reads: Vec<ObjectKind>,
    /// The kinds of effects on pods and on the scheduler that are carried out for the plugin.
    pub effects: Vec<Permission>,
    /// The objects that the plugin may change, and the allowed changes.
    pub rules: Vec<ObjectRule>,
    /// Whether the plugin may see pending pods completely, including environment variables.
    pub pod_json: bool,
}

/// A document that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {}{source}", advice.as_ref().map(|advice| format!("{advice}: ")).unwrap_or_default())]
pub struct PluginHostConfigError {
    /// The name that the caller gave to the text.
    pub file: String,
    /// The field and the value to write in it, if the problem does not name them.
    pub advice: Option<String>,
    /// The problem, with the field, line and column.
    #[source]
    pub source: Box<serde_saphyr::Error>,
}

impl Default for PluginSettings {
    fn default() -> Self {
        Self {
            limits: PluginLimits::default(),
            grants: None,
            failure_policy: FailurePolicy::default(),
            execution: None,
            quarantine: Quarantine {
                faults: QUARANTINE_FAULTS,
                window: QUARANTINE_WINDOW,
                lost: QUARANTINE_LOST,
                backoff: QUARANTINE_BACKOFF,
            },
            probation: Probation { span: ProbationSpan::Time(PROBATION_PERIOD), faults: PROBATION_FAULTS },
            source: None,
        }
    }
}

/// Limits or grants of one plugin in a file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PluginTermsError {
    /// The JSON of `limits` cannot be read.
    #[error("limits")]
    Limits(#[source] serde_json::Error),
    /// The JSON of `grants` cannot be read.
    #[error("grants")]
    Grants(#[source] serde_json::Error),
    /// The text cannot be read. The reason contains the line.
    #[error("{field}: {reason}")]
    Text { field: String, reason: Box<serde_saphyr::Error> },
}

impl PluginSettings {
    /// The defaults, changed by `limits` and `grants` as in an entry of `plugins`. `null` leaves the defaults.
    ///
    /// # Errors
    /// `limits` or `grants` has a field or a value that an entry cannot have.
    pub fn with_terms(limits: &Value, grants: &Value) -> Result<Self, PluginTermsError> {
        let fields = SettingsFields::of_terms(limits, grants)?;
        Ok(fields.over(&Self::default()))
    }

    /// The defaults, changed by the terms of a document that has `limits` and `grants` at its top. Its other fields are
    /// ignored.
    ///
    /// # Errors
    /// [`PluginTermsError::Text`], with the field and the line.
    pub fn with_terms_in(text: &str) -> Result<Self, PluginTermsError> {
        let fields = SettingsFields::of_terms_in(text)?;
        Ok(fields.over(&Self::default()))
    }
}

impl Default for FileSettings {
    fn default() -> Self {
        Self { max_bytes: FILE_BYTES, compile_cpu_time: COMPILE_CPU_TIME, compile_memory_bytes: COMPILE_MEMORY_BYTES }
    }
}

impl Default for SchedulingThreadSettings {
    fn default() -> Self {
        Self { plugins_per_second: PLUGINS_PER_SECOND, namespace_per_second: NAMESPACE_PER_SECOND, search: SEARCH }
    }
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self {
            call_time: CALL_TIME,
            lifecycle_time: LIFECYCLE_TIME,
            scheduling_thread_time: SCHEDULING_THREAD_TIME,
            post_filter_time: POST_FILTER_TIME,
            time_per_second: TIME_PER_SECOND,
            burst: BURST,
            memory_bytes: MEMORY_BYTES,
            output_bytes: OUTPUT_BYTES,
            output_elements: OUTPUT_ELEMENTS,
            log_lines_per_second: LOG_LINES_PER_SECOND,
        }
    }
}

impl PluginHostSettings {
    /// Reads a document in YAML or JSON. `file_name` is only used in error messages.
    ///
    /// # Errors
    /// The first mistake, with its place.
    pub fn from_text(file_name: &str, text: &str) -> Result<Self, PluginHostConfigError> {
        let invalid = |advice, source| PluginHostConfigError { file: file_name.to_owned(), advice, source };
        let document: Document = read_document(text)
            .map_err(|Misread { field, reason }| invalid(advice_on_list(&field, &reason), reason))?;
        let Document { registries, signers, signatures, .. } = document;
        let provenance = provenance::settings(registries, signers, signatures)
            .map_err(|error| invalid(None, Box::new(serde_saphyr::Error::custom(error))))?;
        let defaults = document.defaults.over(&PluginSettings::default());
        let over_defaults = |entry: PluginEntry| {
            // Grants and execution of `defaults` do not become the plugin's own, because other sources take precedence
            // over them.
            let base = PluginSettings { grants: None, execution: None, ..defaults.clone() };
            let source = entry.source.map(|source| source.0);
            (PluginName::from(entry.name.0), PluginSettings { source, ..entry.settings.over(&base) })
        };
        let plugins = document.plugins.0.into_iter().map(over_defaults).collect();
        let execution_of_profiles =
            document.profiles.0.into_iter().map(|profile| (profile.scheduler_name.0, profile.execution));
        let files = document.files.over_default();
        let scheduling_thread = document.scheduling_thread.over_default();
        let denied_digests = document.denied_digests.into_iter().map(|denied| denied.0).collect();
        let execution_of_profiles = execution_of_profiles.collect();
        Ok(Self { files, scheduling_thread, denied_digests, provenance, plugins, execution_of_profiles, defaults })
    }

    /// The settings of the plugin of this name.
    #[must_use]
    pub fn plugin(&self, name: &str) -> PluginSettings {
        let own = self.plugins.get(name).cloned();
        own.unwrap_or_else(|| PluginSettings { grants: None, execution: None, ..self.defaults.clone() })
    }

    /// The limits for the files of the plugins directory.
    #[must_use]
    pub fn files(&self) -> FileSettings {
        self.files
    }

    /// The parts of the scheduling thread's time that plugins and namespaces may use.
    #[must_use]
    pub fn scheduling_thread(&self) -> SchedulingThreadSettings {
        self.scheduling_thread
    }

    /// The digests of binaries that never serve, under any name and from any source.
    #[must_use]
    pub fn denied_digests(&self) -> &BTreeSet<Digest> {
        &self.denied_digests
    }

    /// The sources of plugins, and the signers that must have signed them.
    #[must_use]
    pub fn provenance(&self) -> &ProvenanceSettings {
        &self.provenance
    }

    /// The plugins that are pulled from an OCI registry, with their sources.
    pub fn sources(&self) -> impl Iterator<Item = (&PluginName, &PluginSource)> {
        self.plugins.iter().filter_map(|(name, settings)| Some((name, settings.source.as_ref()?)))
    }

    /// The grants in `defaults` for plugins that have no grants of their own.
    #[must_use]
    pub fn default_grants(&self) -> PluginGrants {
        self.defaults.grants.clone().unwrap_or_default()
    }

    /// How a plugin runs in a profile: natively or as a component. The plugin's own entry comes first, then the
    /// profile's entry, then `on_command_line`, then `defaults`.
    #[must_use]
    pub fn execution(&self, plugin: &str, scheduler_name: &str, on_command_line: Option<Execution>) -> Execution {
        let own = self.plugins.get(plugin).and_then(|settings| settings.execution);
        own.or_else(|| self.execution_of_profiles.get(scheduler_name).copied())
            .or(on_command_line)
            .or(self.defaults.execution)
            .unwrap_or_default()
    }

    /// The plugins that have an entry.
    pub fn named(&self) -> impl Iterator<Item = &PluginName> {
        self.plugins.keys()
    }

    /// Whether these settings allow any plugin to see pending pods completely.
    #[must_use]
    pub fn grants_pod_json(&self) -> bool {
        let grants = self.plugins.values().chain([&self.defaults]).filter_map(|plugin| plugin.grants.as_ref());
        grants.into_iter().any(|grants| grants.pod_json)
    }

    /// The profiles that have an entry, by `schedulerName`.
    pub fn profiles(&self) -> impl Iterator<Item = &str> {
        self.execution_of_profiles.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests;
