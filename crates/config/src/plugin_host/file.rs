//! The content of a `PluginHostConfiguration` document, field by field. No defaults are filled in.
//!
//! The types of the fields check their values while they are read, so that the parser can name the line of a mistake.
//! Unknown fields are refused.

use std::{collections::BTreeSet, fmt, time::Duration};

use berth_model::Digest;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    Execution, FailurePolicy, FileSettings, PLUGIN_HOST_API_VERSION, PluginGrants, PluginLimits, PluginSettings,
    PluginTermsError, Probation, ProbationSpan, Quarantine, SchedulingThreadSettings,
    grants::GrantsFields,
    provenance::{RegistryEntries, RuleEntries, SignerEntries, SourceEntry},
};

const KIND: &str = "PluginHostConfiguration";

/// The reason why a field does not accept a value. The parser adds the place.
#[derive(Debug, thiserror::Error)]
pub(super) enum FieldError {
    #[error("apiVersion {0:?} is not supported: use {expected:?}", expected = PLUGIN_HOST_API_VERSION)]
    ApiVersion(String),
    #[error("kind {0:?} is not supported: use {expected:?}", expected = KIND)]
    Kind(String),
    #[error("{list} names {name:?} twice: keep one of the entries")]
    NamedTwice { list: &'static str, name: String },
    #[error("a name must not be empty")]
    EmptyName,
    #[error("must be at least 1")]
    Zero,
    #[error("invalid amount of memory {0}: expected an amount such as 64Mi, 1Gi or 1000000")]
    Memory(BytesField),
    #[error("probation has both seconds and calls: keep one of these fields")]
    TwoProbationSpans,
    #[error(
        "invalid SHA-256 digest {0:?}: expected 64 hexadecimal digits, as `berth plugin list` and sha256sum show them"
    )]
    Digest(String),
}

/// Fields that are lists, each with a list that it may have.
const LISTS: [(&str, &str); 6] = [
    ("deniedDigests", "[DIGEST]"),
    ("effects", "[bind]"),
    ("plugins", "[{name: NAME, grants: {effects: [bind]}}]"),
    ("profiles", "[{schedulerName: NAME, execution: wasm}]"),
    ("reads", "[v1/ConfigMap]"),
    ("rules", "[{apiGroups: [\"\"], kinds: [ConfigMap], verbs: [patch]}]"),
];

/// The reason why a document cannot be read.
#[derive(Debug)]
pub(super) struct Misread {
    /// The path of the field, such as `defaults.grants`. The parser's message does not name the field.
    pub(super) field: String,
    pub(super) reason: Box<serde_saphyr::Error>,
}

/// Reads a document in YAML or JSON.
pub(super) fn read_document<T: DeserializeOwned>(text: &str) -> Result<T, Misread> {
    let mut field = String::new();
    let read = serde_saphyr::with_deserializer_from_str(text, |deserializer| {
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            field = error.path().to_string();
            error.into_inner()
        })
    });
    read.map_err(|reason| Misread { field, reason: Box::new(reason) })
}

/// The list field that has a value of another type, with an example of a list.
pub(super) fn advice_on_list(field: &str, error: &serde_saphyr::Error) -> Option<String> {
    let serde_saphyr::Error::Unexpected { expected: "sequence start", .. } = error.without_snippet() else {
        return None;
    };
    let name = field.rsplit('.').next()?;
    let example = LISTS.iter().find(|(list, _)| *list == name).map_or("[A, B]", |(_, example)| *example);
    Some(format!("{field}: write a list, as in {example}"))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Document {
    #[serde(rename = "apiVersion")]
    _api_version: ApiVersion,
    #[serde(rename = "kind")]
    _kind: Kind,
    /// Limits for the files of the plugins directory before they run.
    #[serde(default)]
    pub(super) files: FileFields,
    /// Limits for the use of each second of the scheduling thread while other pods wait.
    #[serde(default)]
    pub(super) scheduling_thread: SchedulingThreadFields,
    /// SHA-256 digests of binaries that never serve, under any name.
    #[serde(default)]
    pub(super) denied_digests: Vec<DeniedDigest>,
    /// The settings of registries.
    #[serde(default)]
    pub(super) registries: RegistryEntries,
    /// The signers whose signatures may count.
    #[serde(default)]
    pub(super) signers: SignerEntries,
    /// The signers that must have signed a binary, by the source of the binary.
    #[serde(default)]
    pub(super) signatures: RuleEntries,
    /// Settings for plugins whose own entry lacks the field.
    #[serde(default)]
    pub(super) defaults: SettingsFields,
    /// The settings of single plugins.
    #[serde(default)]
    pub(super) plugins: PluginEntries,
    /// How plugins run in single profiles.
    #[serde(default)]
    pub(super) profiles: ProfileEntries,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(extend("const" = PLUGIN_HOST_API_VERSION)))]
#[serde(try_from = "String")]
struct ApiVersion;

#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(extend("const" = KIND)))]
#[serde(try_from = "String")]
struct Kind;

/// SHA-256 in hex, with or without `sha256:` before it.
#[derive(Debug, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(extend("pattern" = "^(sha256:)?[0-9a-fA-F]{64}$"))
)]
#[serde(try_from = "String")]
pub(super) struct DeniedDigest(#[cfg_attr(feature = "schema", schemars(with = "String"))] pub(super) Digest);

/// The entries of `plugins`, each name once.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Vec<PluginEntry>")]
pub(super) struct PluginEntries(pub(super) Vec<PluginEntry>);

/// The entries of `profiles`, each name once.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Vec<ProfileEntry>")]
pub(super) struct ProfileEntries(pub(super) Vec<ProfileEntry>);

// `flatten` and `deny_unknown_fields` exclude each other, so this type repeats the fields of `SettingsFields`.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PluginEntryFields {
    /// The plugin's name, as profiles refer to it.
    name: Name,
    /// The source of the plugin's binary, if it is not the plugins directory.
    source: Option<SourceEntry>,
    /// The limits of each instance.
    #[serde(default)]
    limits: LimitsFields,
    /// The objects that the plugin may see, and the effects that it may ask for.
    grants: Option<GrantsFields>,
    /// The treatment of pods while the plugin is out of service.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::failure_policy"))]
    failure_policy: Option<FailurePolicy>,
    /// How the plugin runs.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::execution"))]
    execution: Option<Execution>,
    /// The conditions under which a failing plugin is taken out of service.
    quarantine: Option<QuarantineFields>,
    /// The time or number of calls for which a new binary must work.
    probation: Option<CheckedProbation>,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "PluginEntryFields")]
pub(super) struct PluginEntry {
    pub(super) name: Name,
    pub(super) source: Option<SourceEntry>,
    pub(super) settings: SettingsFields,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ProfileEntry {
    /// The `schedulerName` of the profile.
    pub(super) scheduler_name: Name,
    /// The way in which plugins run in this profile if their own entries do not set it.
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::execution"))]
    pub(super) execution: Execution,
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SettingsFields {
    /// The limits of each instance.
    #[serde(default)]
    limits: LimitsFields,
    /// The objects that the plugin may see, and the effects that it may ask for.
    grants: Option<GrantsFields>,
    /// The treatment of pods while the plugin is out of service.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::failure_policy"))]
    failure_policy: Option<FailurePolicy>,
    /// How the plugin runs.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::execution"))]
    execution: Option<Execution>,
    /// The conditions under which a failing plugin is taken out of service.
    quarantine: Option<QuarantineFields>,
    /// The time or number of calls for which a new binary must work.
    probation: Option<CheckedProbation>,
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct FileFields {
    /// Bytes, or a quantity such as `64Mi`.
    max_size: Option<Bytes>,
    /// The processor time for compiling one file.
    compile_seconds: Option<Count>,
    /// The memory of the process that compiles a file.
    compile_memory: Option<Bytes>,
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SchedulingThreadFields {
    /// The time of all plugins together, except the program's own plugins.
    plugins_milliseconds_per_second: Option<Count>,
    /// The time of long searches for nodes for the pods of one namespace.
    namespace_milliseconds_per_second: Option<Count>,
    search_milliseconds: Option<Count>,
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LimitsFields {
    /// Processor time of one call.
    call_milliseconds: Option<Count>,
    /// The processor time of `describe`, `configure`, `snapshot`, `restore` or a full delta.
    lifecycle_milliseconds: Option<Count>,
    /// The processor time of one of these calls if the scheduling thread waits for it.
    scheduling_thread_milliseconds: Option<Count>,
    /// The processor time of `post-filter` with its dry runs.
    post_filter_milliseconds: Option<Count>,
    /// The time of all calls on the scheduling thread together, in each second.
    milliseconds_per_second: Option<Count>,
    /// The amount of `millisecondsPerSecond` that may be saved up.
    burst_milliseconds: Option<Count>,
    /// Linear memory of an instance: bytes, or a quantity such as `64Mi`.
    memory: Option<Bytes>,
    /// The maximum number of bytes in one answer.
    output_bytes: Option<Bytes>,
    /// The maximum number of reasons in one status, or of effects in one answer.
    output_elements: Option<Count>,
    /// Further log lines are dropped and counted.
    log_lines_per_second: Option<u32>,
}

/// A document's limits and grants. Its other fields are ignored.
#[derive(Debug, Deserialize)]
struct TermsFields {
    limits: Option<LimitsFields>,
    grants: Option<GrantsFields>,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct QuarantineFields {
    /// The number of faults within the window that takes the plugin out of service.
    faults: Option<Count>,
    /// The length of the window, which is the time for which a fault counts.
    window_seconds: Option<Count>,
    /// The processor time that faults may lose within the window before the plugin goes out of service.
    lost_milliseconds: Option<Count>,
    /// The length of the first quarantine; each further quarantine lasts twice as long.
    backoff_seconds: Option<Count>,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ProbationFields {
    /// The length of a probation. Use either this field or `calls`.
    seconds: Option<u32>,
    /// The number of calls that a probation lasts. Use either this field or `seconds`.
    calls: Option<u64>,
    /// The number of faults that are tolerated.
    faults: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "ProbationFields")]
struct CheckedProbation {
    #[cfg_attr(feature = "schema", schemars(skip))]
    span: Option<ProbationSpan>,
    faults: Option<u32>,
}

/// A text that is not empty.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(extend("minLength" = 1)))]
#[serde(try_from = "String")]
pub(super) struct Name(pub(super) String);

/// A number of at least 1.
#[derive(Clone, Copy, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(extend("minimum" = 1)))]
#[serde(try_from = "u32")]
struct Count(u32);

/// A quantity such as `64Mi`, or a number of bytes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "BytesField")]
struct Bytes(u64);

#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(super) enum BytesField {
    Number(u64),
    Text(String),
}

impl fmt::Display for BytesField {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(formatter),
            Self::Text(text) => write!(formatter, "{text:?}"),
        }
    }
}

impl SettingsFields {
    pub(super) fn of_terms(limits: &Value, grants: &Value) -> Result<Self, PluginTermsError> {
        let limits = Option::<LimitsFields>::deserialize(limits).map_err(PluginTermsError::Limits)?;
        let grants = Option::<GrantsFields>::deserialize(grants).map_err(PluginTermsError::Grants)?;
        Ok(Self { limits: limits.unwrap_or_default(), grants, ..Self::default() })
    }

    pub(super) fn of_terms_in(text: &str) -> Result<Self, PluginTermsError> {
        let TermsFields { limits, grants } =
            read_document(text).map_err(|Misread { field, reason }| PluginTermsError::Text { field, reason })?;
        Ok(Self { limits: limits.unwrap_or_default(), grants, ..Self::default() })
    }

    /// The values of this document, and the values of `base` for fields that the document does not set.
    pub(super) fn over(self, base: &PluginSettings) -> PluginSettings {
        let quarantine = self.quarantine.map_or(base.quarantine, |quarantine| quarantine.over(base.quarantine));
        let probation = self.probation.map_or(base.probation, |probation| Probation {
            span: probation.span.unwrap_or(base.probation.span),
            faults: probation.faults.unwrap_or(base.probation.faults),
        });
        PluginSettings {
            limits: self.limits.over(base.limits),
            grants: self.grants.map(PluginGrants::from).or_else(|| base.grants.clone()),
            failure_policy: self.failure_policy.unwrap_or(base.failure_policy),
            execution: self.execution.or(base.execution),
            quarantine,
            probation,
            source: None,
        }
    }
}

impl FileFields {
    pub(super) fn over_default(&self) -> FileSettings {
        let default = FileSettings::default();
        let seconds = |count: Count| Duration::from_secs(u64::from(count.0));
        FileSettings {
            max_bytes: self.max_size.map_or(default.max_bytes, |bytes| bytes.0),
            compile_cpu_time: self.compile_seconds.map_or(default.compile_cpu_time, seconds),
            compile_memory_bytes: self.compile_memory.map_or(default.compile_memory_bytes, |bytes| bytes.0),
        }
    }
}

impl SchedulingThreadFields {
    pub(super) fn over_default(&self) -> SchedulingThreadSettings {
        let default = SchedulingThreadSettings::default();
        let milliseconds = |count: Count| Duration::from_millis(u64::from(count.0));
        SchedulingThreadSettings {
            plugins_per_second: self.plugins_milliseconds_per_second.map_or(default.plugins_per_second, milliseconds),
            namespace_per_second: self
                .namespace_milliseconds_per_second
                .map_or(default.namespace_per_second, milliseconds),
            search: self.search_milliseconds.map_or(default.search, milliseconds),
        }
    }
}

impl LimitsFields {
    fn over(&self, base: PluginLimits) -> PluginLimits {
        let milliseconds = |count: Count| Duration::from_millis(u64::from(count.0));
        PluginLimits {
            call_time: self.call_milliseconds.map_or(base.call_time, milliseconds),
            lifecycle_time: self.lifecycle_milliseconds.map_or(base.lifecycle_time, milliseconds),
            scheduling_thread_time: self
                .scheduling_thread_milliseconds
                .map_or(base.scheduling_thread_time, milliseconds),
            post_filter_time: self.post_filter_milliseconds.map_or(base.post_filter_time, milliseconds),
            time_per_second: self.milliseconds_per_second.map_or(base.time_per_second, milliseconds),
            burst: self.burst_milliseconds.map_or(base.burst, milliseconds),
            memory_bytes: self.memory.map_or(base.memory_bytes, |bytes| bytes.0),
            output_bytes: self.output_bytes.map_or(base.output_bytes, |bytes| bytes.0),
            output_elements: self.output_elements.map_or(base.output_elements, |count| count.0),
            log_lines_per_second: self.log_lines_per_second.unwrap_or(base.log_lines_per_second),
        }
    }
}

impl QuarantineFields {
    fn over(&self, base: Quarantine) -> Quarantine {
        let seconds = |count: Count| Duration::from_secs(u64::from(count.0));
        Quarantine {
            faults: self.faults.map_or(base.faults, |count| count.0),
            window: self.window_seconds.map_or(base.window, seconds),
            lost: self.lost_milliseconds.map_or(base.lost, |count| Duration::from_millis(u64::from(count.0))),
            backoff: self.backoff_seconds.map_or(base.backoff, seconds),
        }
    }
}

impl From<PluginEntryFields> for PluginEntry {
    fn from(fields: PluginEntryFields) -> Self {
        let PluginEntryFields { name, source, limits, grants, failure_policy, execution, quarantine, probation } =
            fields;
        let settings = SettingsFields { limits, grants, failure_policy, execution, quarantine, probation };
        Self { name, source, settings }
    }
}

impl TryFrom<String> for ApiVersion {
    type Error = FieldError;

    fn try_from(text: String) -> Result<Self, FieldError> {
        if text == PLUGIN_HOST_API_VERSION { Ok(Self) } else { Err(FieldError::ApiVersion(text)) }
    }
}

impl TryFrom<String> for Kind {
    type Error = FieldError;

    fn try_from(text: String) -> Result<Self, FieldError> {
        if text == KIND { Ok(Self) } else { Err(FieldError::Kind(text)) }
    }
}

impl TryFrom<Vec<PluginEntry>> for PluginEntries {
    type Error = FieldError;

    fn try_from(entries: Vec<PluginEntry>) -> Result<Self, FieldError> {
        once_each(entries.iter().map(|entry| &entry.name), "plugins")?;
        Ok(Self(entries))
    }
}

impl TryFrom<Vec<ProfileEntry>> for ProfileEntries {
    type Error = FieldError;

    fn try_from(profiles: Vec<ProfileEntry>) -> Result<Self, FieldError> {
        once_each(profiles.iter().map(|profile| &profile.scheduler_name), "profiles")?;
        Ok(Self(profiles))
    }
}

fn once_each<'a>(names: impl Iterator<Item = &'a Name>, list: &'static str) -> Result<(), FieldError> {
    let mut seen = BTreeSet::new();
    for Name(name) in names {
        if !seen.insert(name) {
            return Err(FieldError::NamedTwice { list, name: name.clone() });
        }
    }
    Ok(())
}

impl TryFrom<ProbationFields> for CheckedProbation {
    type Error = FieldError;

    fn try_from(fields: ProbationFields) -> Result<Self, FieldError> {
        let seconds = fields.seconds.map(|seconds| ProbationSpan::Time(Duration::from_secs(u64::from(seconds))));
        let calls = fields.calls.map(ProbationSpan::Calls);
        if seconds.is_some() && calls.is_some() {
            return Err(FieldError::TwoProbationSpans);
        }
        Ok(Self { span: seconds.or(calls), faults: fields.faults })
    }
}

impl TryFrom<String> for Name {
    type Error = FieldError;

    fn try_from(text: String) -> Result<Self, FieldError> {
        if text.is_empty() { Err(FieldError::EmptyName) } else { Ok(Self(text)) }
    }
}

impl TryFrom<String> for DeniedDigest {
    type Error = FieldError;

    fn try_from(text: String) -> Result<Self, FieldError> {
        let digits = text.strip_prefix("sha256:").unwrap_or(&text);
        digits.parse().map(Self).map_err(|_| FieldError::Digest(text))
    }
}

impl TryFrom<u32> for Count {
    type Error = FieldError;

    fn try_from(count: u32) -> Result<Self, FieldError> {
        if count == 0 { Err(FieldError::Zero) } else { Ok(Self(count)) }
    }
}

impl TryFrom<BytesField> for Bytes {
    type Error = FieldError;

    fn try_from(field: BytesField) -> Result<Self, FieldError> {
        match field {
            BytesField::Number(bytes) => Some(bytes),
            BytesField::Text(ref text) => bytes(text),
        }
        .filter(|bytes| *bytes > 0)
        .map(Self)
        .ok_or(FieldError::Memory(field))
    }
}

/// Reads the part of Kubernetes' quantities that is used for amounts of memory: whole numbers with a unit.
fn bytes(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 6] =
        [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (number, factor) = unit.unwrap_or((text, 1));
    number.parse::<u64>().ok()?.checked_mul(factor)
}
