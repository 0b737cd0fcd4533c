//! The answers of components, checked.
//!
//! Each function returns the reason if an answer breaks the contract or the plugin's [`Limits`], and the caller makes a
//! fault of this reason. Sets of nodes are checked against the question, and statuses against the statuses that are
//! allowed in their place.

use berth_framework::{
    ClusterEvent, Code, Effect, Fact, Manifest, Needs, ObjectKind, ObjectRef, PatchType, PermitVerdict,
    PostFilterOutcome, Preemption, RejectedNodes, Removal, Status,
};
use berth_model::{Column, Columns, NodeIdx, NodeSet, PodIdx};

use super::{lower::ACTIONS, names, on_one_line};
use crate::{
    bindings::{
        berth::scheduler::host,
        points::{lifecycle, permit, post_filter},
        shared_facts, types,
    },
    fault::Refused,
    limits::Limits,
};

/// A status of any code.
pub(crate) fn status(status: types::Status, limits: &Limits) -> Result<Status, Refused> {
    if status.reasons.len() > limits.list_items {
        return Err(Refused(format!("a status with {} reasons (limit {})", status.reasons.len(), limits.list_items)));
    }
    let reasons = status.reasons.into_iter().map(|reason| text("a reason", reason, limits));
    Ok(Status { code: code(status.code), reasons: reasons.collect::<Result<_, _>>()? })
}

/// A status in the error case of an answer, where success has no meaning.
pub(crate) fn failure(failure: types::Status, limits: &Limits) -> Result<Status, Refused> {
    let status = status(failure, limits)?;
    match status.code {
        Code::Success | Code::Wait => Err(Refused(format!("an error with code {}", status.code.as_str()))),
        Code::Error | Code::Unschedulable | Code::UnschedulableAndUnresolvable | Code::Skip | Code::Pending => {
            Ok(status)
        }
    }
}

/// The inner result of an answer: the computed value, or the status of a failure.
pub(crate) fn outcome<T>(answer: Result<T, types::Status>, limits: &Limits) -> Result<Result<T, Status>, Refused> {
    match answer {
        Ok(value) => Ok(Ok(value)),
        Err(status) => failure(status, limits).map(Err),
    }
}

/// The facts that a plugin shares.
pub(crate) fn facts(facts: Vec<shared_facts::Fact>, limits: &Limits) -> Result<Vec<Fact>, Refused> {
    let lifted = facts.into_iter().map(|shared_facts::Fact { name, json }| {
        Ok(Fact { name: text("the name of a fact", name, limits)?, json: json.map(Into::into) })
    });
    lifted.collect()
}

/// A set of nodes, which must be members of `of`, the nodes in the question.
pub(crate) fn subset(words: Vec<u64>, of: &NodeSet) -> Result<NodeSet, Refused> {
    let nodes = NodeSet::from_words(words);
    if nodes.is_subset(of) { Ok(nodes) } else { Err(Refused("nodes that it was not asked about".to_owned())) }
}

pub(crate) fn groups(
    answer: Vec<types::RejectedNodes>,
    rejected: &NodeSet,
    limits: &Limits,
) -> Result<Vec<RejectedNodes>, Refused> {
    let lift = |group: types::RejectedNodes| {
        let status = status(group.status, limits)?;
        Ok(RejectedNodes { status, nodes: subset(group.nodes, rejected)? })
    };
    answer.into_iter().map(lift).collect()
}

pub(crate) fn post_filter(
    answer: post_filter::Outcome,
    nodes: &NodeSet,
    limits: &Limits,
) -> Result<PostFilterOutcome, Refused> {
    let nominate = match answer.nomination {
        post_filter::Nomination::Keep => None,
        post_filter::Nomination::Clear => Some(None),
        post_filter::Nomination::Node(row) if nodes.contains(NodeIdx(row)) => Some(Some(NodeIdx(row))),
        post_filter::Nomination::Node(row) => {
            return Err(Refused(format!("a nomination of row {row}, which contains no node")));
        }
    };
    let status = status(answer.status, limits)?;
    Ok(PostFilterOutcome { status, nominate, effects: effects(answer.effects, limits)? })
}

pub(crate) fn verdict(verdict: permit::Verdict, limits: &Limits) -> Result<PermitVerdict, Refused> {
    Ok(match verdict {
        permit::Verdict::Allow => PermitVerdict::Allow,
        permit::Verdict::Wait(milliseconds) => PermitVerdict::Wait(milliseconds),
        permit::Verdict::Deny(status) => PermitVerdict::Deny(failure(status, limits)?),
    })
}

pub(crate) fn effects(effects: Vec<types::Effect>, limits: &Limits) -> Result<Vec<Effect>, Refused> {
    if effects.len() > limits.list_items {
        return Err(Refused(format!("{} effects (limit {})", effects.len(), limits.list_items)));
    }
    let n_named: usize = effects.iter().map(n_named).sum();
    if n_named > limits.list_items {
        let limit = limits.list_items;
        return Err(Refused(format!("{n_named} pods to activate and objects to wait for (limit {limit})")));
    }
    effects.into_iter().map(|effect| self::effect(effect, limits)).collect()
}

/// The maximum bytes of the words with which a plugin explains its answers.
const MAX_WORDS_BYTES: usize = 1024;

/// The words with which a plugin explains its answers, on one line. Each run of blanks and control characters becomes a
/// space, and three dots replace the end of a text that is too long.
pub(crate) fn words(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_WORDS_BYTES);
    let kept = text.get(..end).unwrap_or_default();
    let is_gap = |character: char| character.is_control() || character.is_whitespace();
    let mut words = kept.split(is_gap).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    if end < text.len() {
        words.push_str("...");
    }
    words
}

/// The maximum number of kinds that a manifest may name. Each is watched.
const MAX_KINDS: usize = 64;

/// The maximum number of columns that a manifest may name. Each key is a column of every node.
const MAX_COLUMNS: usize = 256;

/// The longest key of a label: a name of 63 characters after a prefix of 253.
const MAX_KEY: usize = 317;

pub(crate) fn manifest(manifest: lifecycle::Manifest, limits: &Limits) -> Result<Manifest, Refused> {
    let name = text("its name", manifest.name, limits)?;
    let version = text("its version", manifest.version, limits)?;
    let lengths = [
        ("events", manifest.events_to_register.as_ref().map_or(0, Vec::len), MAX_KINDS),
        ("kinds of objects", manifest.objects.len(), MAX_KINDS),
        ("columns", manifest.columns.len(), MAX_COLUMNS),
    ];
    for (what, length, limit) in lengths {
        if length > limit {
            return Err(Refused(format!("{length} {what} (limit {limit})")));
        }
    }
    for column in &manifest.columns {
        if let lifecycle::Column::Label(key) | lifecycle::Column::Annotation(key) = column
            && key.len() > MAX_KEY
        {
            return Err(Refused(format!("a key of {} bytes (limit {MAX_KEY})", key.len())));
        }
    }
    for event in manifest.events_to_register.iter().flatten() {
        names::resource(&event.resource)?;
    }
    for kind in &manifest.objects {
        names::api_version_and_kind(&kind.api_version, &kind.kind)?;
    }
    let events_to_register = manifest.events_to_register.map(|events| events.into_iter().map(cluster_event).collect());
    let objects = manifest.objects.into_iter();
    let mut needs = column_needs(manifest.columns);
    (needs.pods, needs.pod_json) = (manifest.pods, manifest.pod_json);
    needs.objects = objects.map(|kind| ObjectKind { api_version: kind.api_version, kind: kind.kind }).collect();
    // The operator alone decides what a component may do.
    let (effects, rules) = (Vec::new(), Vec::new());
    Ok(Manifest { name, version, needs, events_to_register, effects, rules })
}

fn column_needs(columns: Vec<lifecycle::Column>) -> Needs {
    let mut needs = Needs::default();
    let mut all_labels = false;
    for column in columns {
        let column = match column {
            lifecycle::Column::Name => Column::Name,
            lifecycle::Column::Unschedulable => Column::Unschedulable,
            lifecycle::Column::Labels => {
                all_labels = true;
                Column::Labels
            }
            lifecycle::Column::Label(key) => {
                needs.label_keys.push(key);
                Column::Labels
            }
            lifecycle::Column::Taints => Column::Taints,
            lifecycle::Column::Allocatable => Column::Allocatable,
            lifecycle::Column::Requested => Column::Requested,
            lifecycle::Column::NonZeroRequested => Column::NonZeroRequested,
            lifecycle::Column::PodCount => Column::PodCount,
            lifecycle::Column::Images => Column::Images,
            lifecycle::Column::HostPorts => Column::HostPorts,
            lifecycle::Column::DeclaredFeatures => Column::DeclaredFeatures,
            lifecycle::Column::Annotation(key) => {
                needs.annotation_keys.push(key);
                Column::Annotations
            }
        };
        Columns::insert(&mut needs.columns, column);
    }
    if all_labels {
        needs.label_keys.clear();
    }
    needs
}

fn cluster_event(event: types::ClusterEvent) -> ClusterEvent {
    let bits = ACTIONS.iter().filter(|(_, action)| event.actions.contains(*action)).map(|(bit, _)| bit);
    ClusterEvent { resource: event.resource, actions: bits.sum() }
}

/// The longest wait of a pod in PreBind, even if a component asks for more: an hour.
const MAX_WAIT_MS: u64 = 3_600_000;

/// The largest request that kube-apiserver accepts (`MaxRequestBodyBytes`).
const MAX_BODY_BYTES: usize = 3 << 20;

fn effect(effect: types::Effect, limits: &Limits) -> Result<Effect, Refused> {
    Ok(match effect {
        types::Effect::Bind => Effect::Bind,
        types::Effect::Patch(types::Patch { object, subresource, body, patch_type }) => {
            let ObjectRef { kind, namespace, name } = object_ref(object)?;
            subresource.as_deref().map_or(Ok(()), names::subresource)?;
            let patch_type = match patch_type {
                types::PatchType::Merge => PatchType::Merge,
                types::PatchType::StrategicMerge => PatchType::StrategicMerge,
            };
            Effect::Patch { kind, namespace, name, subresource, patch: self::body(body)?, patch_type }
        }
        types::Effect::Create(types::NewObject { kind, namespace, body }) => {
            names::kind_ref(&kind)?;
            names::namespace(&namespace)?;
            Effect::Create { kind, namespace, body: self::body(body)? }
        }
        types::Effect::Delete(object) => {
            let ObjectRef { kind, namespace, name } = object_ref(object)?;
            Effect::Delete { kind, namespace, name }
        }
        types::Effect::Evict(types::Eviction { pod: types::PodRef { namespace, name, uid }, message }) => {
            let message = text("an eviction's message", message, limits)?;
            names::namespace(&namespace)?;
            names::object_name(&name)?;
            names::uid(&uid)?;
            Effect::Evict { namespace, name, uid, message }
        }
        types::Effect::Allow(uid) => {
            names::uid(&uid)?;
            Effect::Allow { uid }
        }
        types::Effect::Reject((uid, reason)) => {
            names::uid(&uid)?;
            Effect::Reject { uid, reason: text("a reason", reason, limits)? }
        }
        types::Effect::Activate(uids) => {
            uids.iter().try_for_each(|uid| names::uid(uid))?;
            Effect::Activate { uids }
        }
        types::Effect::Nominate((uid, node)) => {
            names::uid(&uid)?;
            node.as_deref().map_or(Ok(()), names::object_name)?;
            Effect::Nominate { uid, node }
        }
        types::Effect::Event(types::Event { warning, reason, action, note }) => {
            let reason = text("an event's reason", reason, limits)?;
            let action = text("its action", action, limits)?;
            Effect::Event { warning, reason, action, note: text("its note", note, limits)? }
        }
        types::Effect::Wait(types::Wait { objects, timeout_ms, timeout_message }) => {
            let timeout_message = text("a time-out's message", timeout_message, limits)?;
            let objects = objects.into_iter().map(object_ref).collect::<Result<_, _>>()?;
            Effect::Wait { objects, timeout_ms: timeout_ms.min(MAX_WAIT_MS), timeout_message }
        }
    })
}

fn object_ref(object: types::ObjectRef) -> Result<ObjectRef, Refused> {
    let types::ObjectRef { kind, namespace, name } = object;
    names::kind_ref(&kind)?;
    names::namespace(&namespace)?;
    names::object_name(&name)?;
    Ok(ObjectRef { kind, namespace, name })
}

/// An object or a patch as JSON.
fn body(body: Vec<u8>) -> Result<Vec<u8>, Refused> {
    if body.len() > MAX_BODY_BYTES {
        return Err(Refused(format!("an object of {} bytes (limit {MAX_BODY_BYTES})", body.len())));
    }
    Ok(body)
}

/// The number of pods or objects that an effect lists.
fn n_named(effect: &types::Effect) -> usize {
    match effect {
        types::Effect::Activate(uids) => uids.len(),
        types::Effect::Wait(wait) => wait.objects.len(),
        types::Effect::Bind
        | types::Effect::Patch(_)
        | types::Effect::Create(_)
        | types::Effect::Delete(_)
        | types::Effect::Evict(_)
        | types::Effect::Allow(_)
        | types::Effect::Reject(_)
        | types::Effect::Nominate(_)
        | types::Effect::Event(_) => 0,
    }
}

/// The removals about which a component asks.
pub(crate) fn removals(cases: Vec<host::Removal>) -> Vec<Removal> {
    let removal =
        |case: host::Removal| Removal { node: NodeIdx(case.node), pods: case.pods.into_iter().map(PodIdx).collect() };
    cases.into_iter().map(removal).collect()
}

/// The preemptions about which a component asks extenders.
pub(crate) fn preemptions(preemptions: Vec<host::Preemption>) -> Vec<Preemption> {
    let preemption = |it: host::Preemption| {
        let victims = it.victims.into_iter().map(PodIdx).collect();
        Preemption { node: NodeIdx(it.node), victims, n_violations: it.violations }
    };
    preemptions.into_iter().map(preemption).collect()
}

fn code(code: types::Code) -> Code {
    match code {
        types::Code::Success => Code::Success,
        types::Code::Error => Code::Error,
        types::Code::Unschedulable => Code::Unschedulable,
        types::Code::UnschedulableAndUnresolvable => Code::UnschedulableAndUnresolvable,
        types::Code::Wait => Code::Wait,
        types::Code::Skip => Code::Skip,
        types::Code::Pending => Code::Pending,
    }
}

/// A text for people, in conditions, events and lists.
fn text(what: &str, text: String, limits: &Limits) -> Result<String, Refused> {
    if text.len() > limits.text_bytes {
        return Err(Refused(format!("{what} of {} bytes (limit {})", text.len(), limits.text_bytes)));
    }
    Ok(on_one_line(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(columns: Vec<lifecycle::Column>) -> Result<Manifest, Refused> {
        let manifest = lifecycle::Manifest {
            name: "Mine".to_owned(),
            version: "1\u{1b}[2J".to_owned(),
            columns,
            pods: false,
            pod_json: false,
            objects: Vec::new(),
            events_to_register: None,
        };
        self::manifest(manifest, &Limits::default())
    }

    #[test]
    fn words_are_one_line_of_a_bounded_length() {
        assert_eq!(words("  team red has 4 GPUs\r\n\u{1b}[2Jleft\n"), "team red has 4 GPUs [2Jleft");
        assert_eq!(words("\n \t"), "");
        let full = "x".repeat(MAX_WORDS_BYTES);
        assert_eq!(words(&full), full);
        assert_eq!(words(&format!("{full}x")), format!("{full}..."));
        let wide = "ü".repeat(MAX_WORDS_BYTES);
        assert_eq!(words(&format!("x{wide}")), format!("x{}...", "ü".repeat(MAX_WORDS_BYTES / 2 - 1)));
    }

    #[test]
    fn an_answer_names_so_many_pods_and_no_more() {
        let limits = Limits::default();
        let activate = |n: usize| types::Effect::Activate(vec!["uid".to_owned(); n]);
        let half = limits.list_items / 2;
        assert_eq!(effects(vec![activate(half), activate(half)], &limits).unwrap().len(), 2);
        let refused = effects(vec![activate(half), activate(half), activate(1)], &limits).unwrap_err();
        assert_eq!(refused.0, "1025 pods to activate and objects to wait for (limit 1024)");
    }

    /// Each column would be kept for every node and in every instance.
    #[test]
    fn a_manifest_names_so_many_columns_and_no_more() {
        let label = |length: usize| lifecycle::Column::Label("k".repeat(length));
        let described_by = |n: usize| described(std::iter::repeat_with(|| label(MAX_KEY)).take(n).collect());
        assert_eq!(described_by(MAX_COLUMNS).unwrap().needs.label_keys.len(), MAX_COLUMNS);
        assert_eq!(described_by(MAX_COLUMNS + 1).unwrap_err().0, "257 columns (limit 256)");
        assert_eq!(described(vec![label(MAX_KEY + 1)]).unwrap_err().0, "a key of 318 bytes (limit 317)");
    }

    #[test]
    fn a_node_that_is_nominated_is_there() {
        let nodes: NodeSet = [NodeIdx(1)].into_iter().collect();
        let nominated = |nomination| {
            let status = types::Status { code: types::Code::Success, reasons: Vec::new() };
            let outcome = post_filter::Outcome { status, nomination, effects: Vec::new() };
            self::post_filter(outcome, &nodes, &Limits::default()).map(|outcome| outcome.nominate)
        };
        assert_eq!(nominated(post_filter::Nomination::Node(1)).unwrap(), Some(Some(NodeIdx(1))));
        let refused = nominated(post_filter::Nomination::Node(0)).unwrap_err();
        assert_eq!(refused.0, "a nomination of row 0, which contains no node");
    }

    /// `kubectl` and logs show texts unchanged.
    #[test]
    fn texts_for_people_steer_no_terminal() {
        assert_eq!(described(Vec::new()).unwrap().version, "1\\u{1b}[2J");
        let forged = types::Status { code: types::Code::Unschedulable, reasons: vec!["full\r\n0/9 nodes".to_owned()] };
        assert_eq!(status(forged, &Limits::default()).unwrap().reasons, ["full\\r\\n0/9 nodes"]);
        let event = types::Event {
            warning: false,
            reason: "Done".to_owned(),
            action: "Looking".to_owned(),
            note: "größer\u{9b}5n".to_owned(),
        };
        let Ok(Effect::Event { note, .. }) = effect(types::Effect::Event(event), &Limits::default()) else { panic!() };
        assert_eq!(note, "größer\\u{9b}5n");
    }
}
