//! The recorded cases in the form of the files.

use std::collections::BTreeMap;

use berth_model::api;
use serde::Deserialize;
use serde_json::Value;

/// A cluster, a pending pod, and the decisions of kube-scheduler.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    pub id: String,
    #[serde(default)]
    pub features: Vec<String>,
    /// One `profiles` entry of a configuration file; the default profile if absent.
    #[serde(default)]
    pub profile: Option<Value>,
    #[serde(default)]
    pub objects: Objects,
    /// Feature gates that differ from the default.
    #[serde(default)]
    pub gates: BTreeMap<String, bool>,
    /// The pending pod, which is not among the objects.
    pub pod: api::Pod,
    pub expect: Expect,
    /// The events. Each is independent: the event's object is already known, and all others are as in `objects`.
    #[serde(default)]
    pub events: Vec<RecordedEvent>,
    #[serde(default)]
    pub hints: Vec<RecordedHint>,
}

/// The objects that Berth's plugins read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Objects {
    pub nodes: Vec<api::Node>,
    /// Bound pods, and unbound pods with a nomination.
    pub pods: Vec<api::Pod>,
    /// All other objects, by their plural in lower case.
    #[serde(flatten)]
    pub others: BTreeMap<String, Vec<Value>>,
}

/// A change to an object.
#[derive(Clone, Debug, Deserialize)]
pub struct RecordedEvent {
    pub(crate) resource: String,
    pub(crate) old: Option<Value>,
    pub(crate) new: Option<Value>,
}

/// The answer of the hint function of one plugin about one event.
#[derive(Clone, Debug, Deserialize)]
pub struct RecordedHint {
    pub(crate) plugin: String,
    /// The index of the event.
    pub(crate) ev: usize,
    pub(crate) action: String,
    /// `Queue` or `QueueSkip`.
    pub(crate) hint: String,
}

/// The recorded answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Expect {
    pub outcome: String,
    #[serde(default)]
    pub gated: bool,
    /// Refusals by plugin.
    #[serde(default)]
    pub pre_enqueue: BTreeMap<String, Verdict>,
    /// The answer of PreFilter of a plugin that gates the pod.
    #[serde(default)]
    pub prefilter_when_gated: BTreeMap<String, Verdict>,
    pub prefilter: Option<PreFilter>,
    /// The verdict on each node; absent if PreFilter rejected the pod.
    pub filter: Option<BTreeMap<String, NodeVerdict>>,
    #[serde(default)]
    pub feasible: Vec<String>,
    pub score: Option<Scores>,
    #[serde(default)]
    pub acceptable_nodes: Vec<String>,
    /// The message before PostFilter.
    pub fit_error: Option<String>,
    #[serde(default)]
    pub unschedulable_plugins: Vec<String>,
    pub cycle_error: Option<String>,
    /// The message after PostFilter. The pod's condition has the same message.
    pub condition_message: Option<String>,
    pub postfilter: Option<PostFilter>,
    #[serde(default)]
    /// The volumes that unbound claims get on each feasible node.
    pub volumes: BTreeMap<String, VolumeChoices>,
    /// The writes for each claim of the pod on each feasible node. Absent if the pod has no claims.
    pub devices: Option<BTreeMap<String, BTreeMap<String, Value>>>,
    /// The reason why PreBind of DynamicResources fails on the only acceptable node.
    pub pre_bind_error: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VolumeChoices {
    /// The names of existing volumes, by claim.
    #[serde(rename = "static")]
    pub chosen: BTreeMap<String, String>,
    /// The claims for which a volume must be created.
    pub provision: Vec<String>,
}

/// A status, and for PreFilter the nodes that the plugin allows.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    pub code: String,
    #[serde(default)]
    pub reasons: Vec<String>,
    #[serde(default)]
    pub has_node_set: bool,
    #[serde(default)]
    pub nodes: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreFilter {
    /// The answer of each plugin on its own.
    pub plugins: BTreeMap<String, Verdict>,
    pub result: PreFilterResult,
    #[serde(default)]
    pub skipped_filters: Vec<String>,
}

/// The framework's result from the PreFilter plugins' answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreFilterResult {
    pub code: String,
    #[serde(default)]
    pub plugin: String,
    #[serde(default)]
    pub reasons: Vec<String>,
    #[serde(default)]
    pub all_nodes: bool,
    #[serde(default)]
    pub node_names: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeVerdict {
    pub code: String,
    /// The first plugin that does not pass, in the order of the profile.
    #[serde(default)]
    pub plugin: String,
    #[serde(default)]
    pub reasons: Vec<String>,
    #[serde(default)]
    pub nominated_pods_present: bool,
    /// Every plugin that rejects the node, on its own and without nominated pods.
    #[serde(default)]
    pub failing: BTreeMap<String, Verdict>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Scores {
    #[serde(default)]
    pub weights: BTreeMap<String, i64>,
    #[serde(default)]
    pub skipped: Vec<String>,
    #[serde(default)]
    pub nodes: BTreeMap<String, NodeScores>,
    #[serde(default)]
    pub best: Vec<String>,
    pub error: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeScores {
    pub raw: BTreeMap<String, i64>,
    pub norm: BTreeMap<String, i64>,
    pub total: i64,
}

/// The result of PostFilter.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PostFilter {
    pub eligible: bool,
    pub not_eligible_reason: Option<String>,
    #[serde(default)]
    pub potential_nodes: Vec<String>,
    #[serde(default)]
    pub candidates: Vec<Candidate>,
    #[serde(default)]
    pub rejected: BTreeMap<String, Verdict>,
    /// The best candidates. Any one of them may be chosen.
    #[serde(default)]
    pub best: Vec<String>,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The answers without DynamicResources.
    #[serde(rename = "withoutDRA")]
    pub without_claims: Option<WithoutClaims>,
    /// The allocated claims of the pod. Any one of them may be deallocated.
    #[serde(default)]
    pub deallocatable_claims: Vec<String>,
    /// The claim that was deallocated, unless there were several.
    #[serde(default)]
    pub claims_after: BTreeMap<String, Value>,
    /// The claims for extended resources that were deleted.
    #[serde(default)]
    pub deleted_claims: Vec<String>,
}

/// A node on which preemption helps.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    pub node: String,
    /// `namespace/name`, from the most to the least important.
    pub victims: Vec<String>,
    #[serde(default)]
    pub pdb_violations: usize,
}

/// The result of the whole phase.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    pub code: String,
    #[serde(default)]
    pub reasons: Vec<String>,
    /// `None` keeps the pod's nomination, an empty text clears it, and `<one of best>` is any of these nodes.
    pub nominated_node_name: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WithoutClaims {
    #[serde(flatten)]
    pub outcome: Outcome,
    pub condition_message: Option<String>,
}
