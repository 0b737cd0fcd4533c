//! What a `PluginHostConfiguration` document says, field by field, nothing filled in.
//!
//! Values are checked by the types of their fields while they are read, so that the parser can tell the line of
//! whatever is wrong. Unknown fields are refused.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;

use super::{
    EffectKind, Execution, FailurePolicy, PLUGIN_HOST_API_VERSION, PluginGrants, PluginLimits, PluginSettings,
    Probation, ProbationSpan, Quarantine,
};

const KIND: &str = "PluginHostConfiguration";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Document {
    #[serde(rename = "apiVersion")]
    _api_version: ApiVersion,
    #[serde(rename = "kind")]
    _kind: Kind,
    #[serde(default)]
    pub(super) defaults: Settings,
    #[serde(default)]
    pub(super) plugins: Entries,
    #[serde(default)]
    pub(super) profiles: Profiles,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct ApiVersion;

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Kind;

/// The entries of `plugins`, each name once.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "Vec<Entry>")]
pub(super) struct Entries(pub(super) Vec<Entry>);

/// The entries of `profiles`, each name once.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "Vec<Profile>")]
pub(super) struct Profiles(pub(super) Vec<Profile>);

// `flatten` and `deny_unknown_fields` exclude each other, hence the fields of `Settings` once more.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawEntry {
    name: Name,
    #[serde(default)]
    limits: Limits,
    grants: Option<Grants>,
    failure_policy: Option<Policy>,
    execution: Option<Run>,
    quarantine: Option<RawQuarantine>,
    probation: Option<ProbationField>,
}

#[derive(Debug, Deserialize)]
#[serde(from = "RawEntry")]
pub(super) struct Entry {
    pub(super) name: Name,
    pub(super) settings: Settings,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Profile {
    pub(super) scheduler_name: Name,
    pub(super) execution: Run,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Settings {
    #[serde(default)]
    limits: Limits,
    grants: Option<Grants>,
    failure_policy: Option<Policy>,
    execution: Option<Run>,
    quarantine: Option<RawQuarantine>,
    probation: Option<ProbationField>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Limits {
    call_milliseconds: Option<Count>,
    memory: Option<Bytes>,
    output_bytes: Option<Bytes>,
    output_elements: Option<Count>,
    log_lines_per_second: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Grants {
    #[serde(default)]
    reads: Vec<ObjectKind>,
    #[serde(default)]
    effects: Vec<Effect>,
    #[serde(default)]
    pod_json: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawQuarantine {
    faults: Option<Count>,
    window_seconds: Option<Count>,
    backoff_seconds: Option<Count>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawProbation {
    seconds: Option<u32>,
    calls: Option<u64>,
    faults: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "RawProbation")]
struct ProbationField {
    span: Option<ProbationSpan>,
    faults: Option<u32>,
}

/// Not empty.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Name(pub(super) String);

/// From 1 on.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "u32")]
struct Count(u32);

/// A quantity such as `64Mi`, or a number of bytes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "BytesField")]
struct Bytes(u64);

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum BytesField {
    Number(u64),
    Text(String),
}

/// `apiVersion/kind`: `v1/ConfigMap`, `apps/v1/Deployment`.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct ObjectKind(String, String);

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Effect {
    Bind,
    Patch,
    Create,
    Delete,
    Evict,
    WaitingPods,
    Activate,
    Nominate,
    Event,
    Wait,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum Policy {
    Fail,
    Ignore,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Run {
    Auto,
    Native,
    Wasm,
}

impl Settings {
    /// What is said here, and `base` where nothing is.
    pub(super) fn over(self, base: &PluginSettings) -> PluginSettings {
        let quarantine = self.quarantine.map_or(base.quarantine, |quarantine| quarantine.over(base.quarantine));
        let probation = self.probation.map_or(base.probation, |probation| Probation {
            span: probation.span.unwrap_or(base.probation.span),
            faults: probation.faults.unwrap_or(base.probation.faults),
        });
        PluginSettings {
            limits: self.limits.over(base.limits),
            grants: self.grants.map(PluginGrants::from).or_else(|| base.grants.clone()),
            failure_policy: self.failure_policy.map_or(base.failure_policy, FailurePolicy::from),
            execution: self.execution.map(Execution::from).or(base.execution),
            quarantine,
            probation,
        }
    }
}

impl Limits {
    fn over(&self, base: PluginLimits) -> PluginLimits {
        let milliseconds = |count: Count| Duration::from_millis(u64::from(count.0));
        PluginLimits {
            call_time: self.call_milliseconds.map_or(base.call_time, milliseconds),
            memory_bytes: self.memory.map_or(base.memory_bytes, |bytes| bytes.0),
            output_bytes: self.output_bytes.map_or(base.output_bytes, |bytes| bytes.0),
            output_elements: self.output_elements.map_or(base.output_elements, |count| count.0),
            log_lines_per_second: self.log_lines_per_second.unwrap_or(base.log_lines_per_second),
        }
    }
}

impl RawQuarantine {
    fn over(&self, base: Quarantine) -> Quarantine {
        let seconds = |count: Count| Duration::from_secs(u64::from(count.0));
        Quarantine {
            faults: self.faults.map_or(base.faults, |count| count.0),
            window: self.window_seconds.map_or(base.window, seconds),
            backoff: self.backoff_seconds.map_or(base.backoff, seconds),
        }
    }
}

impl From<RawEntry> for Entry {
    fn from(raw: RawEntry) -> Self {
        let RawEntry { name, limits, grants, failure_policy, execution, quarantine, probation } = raw;
        Self { name, settings: Settings { limits, grants, failure_policy, execution, quarantine, probation } }
    }
}

impl From<Grants> for PluginGrants {
    fn from(grants: Grants) -> Self {
        let reads = grants.reads.into_iter().map(|ObjectKind(api_version, kind)| (api_version, kind)).collect();
        let effects = grants.effects.into_iter().map(EffectKind::from).collect();
        Self { reads, effects, pod_json: grants.pod_json }
    }
}

impl From<Effect> for EffectKind {
    fn from(effect: Effect) -> Self {
        match effect {
            Effect::Bind => Self::Bind,
            Effect::Patch => Self::Patch,
            Effect::Create => Self::Create,
            Effect::Delete => Self::Delete,
            Effect::Evict => Self::Evict,
            Effect::WaitingPods => Self::WaitingPods,
            Effect::Activate => Self::Activate,
            Effect::Nominate => Self::Nominate,
            Effect::Event => Self::Event,
            Effect::Wait => Self::Wait,
        }
    }
}

impl From<Policy> for FailurePolicy {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::Fail => Self::Fail,
            Policy::Ignore => Self::Ignore,
        }
    }
}

impl From<Run> for Execution {
    fn from(run: Run) -> Self {
        match run {
            Run::Auto => Self::Auto,
            Run::Native => Self::Native,
            Run::Wasm => Self::Wasm,
        }
    }
}

impl TryFrom<String> for ApiVersion {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let expected = PLUGIN_HOST_API_VERSION;
        if text == expected { Ok(Self) } else { Err(format!("apiVersion {text:?} is not supported, use {expected:?}")) }
    }
}

impl TryFrom<String> for Kind {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == KIND { Ok(Self) } else { Err(format!("kind {text:?} is not supported, use {KIND:?}")) }
    }
}

impl TryFrom<Vec<Entry>> for Entries {
    type Error = String;

    fn try_from(entries: Vec<Entry>) -> Result<Self, String> {
        once_each(entries.iter().map(|entry| &entry.name), "plugins")?;
        Ok(Self(entries))
    }
}

impl TryFrom<Vec<Profile>> for Profiles {
    type Error = String;

    fn try_from(profiles: Vec<Profile>) -> Result<Self, String> {
        once_each(profiles.iter().map(|profile| &profile.scheduler_name), "profiles")?;
        Ok(Self(profiles))
    }
}

fn once_each<'a>(names: impl Iterator<Item = &'a Name>, list: &str) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for Name(name) in names {
        if !seen.insert(name) {
            return Err(format!("{list} names {name:?} twice, keep one of the entries"));
        }
    }
    Ok(())
}

impl TryFrom<RawProbation> for ProbationField {
    type Error = String;

    fn try_from(raw: RawProbation) -> Result<Self, String> {
        let seconds = raw.seconds.map(|seconds| ProbationSpan::Time(Duration::from_secs(u64::from(seconds))));
        let calls = raw.calls.map(ProbationSpan::Calls);
        if seconds.is_some() && calls.is_some() {
            return Err("probation lasts seconds or calls, keep one of them".to_owned());
        }
        Ok(Self { span: seconds.or(calls), faults: raw.faults })
    }
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.is_empty() { Err("a name must not be empty".to_owned()) } else { Ok(Self(text)) }
    }
}

impl TryFrom<u32> for Count {
    type Error = String;

    fn try_from(count: u32) -> Result<Self, String> {
        if count == 0 { Err("must be at least 1".to_owned()) } else { Ok(Self(count)) }
    }
}

impl TryFrom<BytesField> for Bytes {
    type Error = String;

    fn try_from(field: BytesField) -> Result<Self, String> {
        match field {
            BytesField::Number(bytes) => Some(bytes),
            BytesField::Text(ref text) => bytes(text),
        }
        .filter(|bytes| *bytes > 0)
        .map(Self)
        .ok_or_else(|| format!("{field:?} is not an amount of memory such as 64Mi, 1Gi or 1000000"))
    }
}

/// The part of Kubernetes' quantities that amounts of memory are written in: whole numbers with a unit.
fn bytes(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 6] =
        [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (number, factor) = unit.unwrap_or((text, 1));
    number.parse::<u64>().ok()?.checked_mul(factor)
}

impl TryFrom<String> for ObjectKind {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.rsplit_once('/') {
            Some((api_version, kind)) if !api_version.is_empty() && !kind.is_empty() => {
                Ok(Self(api_version.to_owned(), kind.to_owned()))
            }
            Some(_) | None => {
                Err(format!("{text:?} is not apiVersion/kind, such as v1/ConfigMap or apps/v1/Deployment"))
            }
        }
    }
}
