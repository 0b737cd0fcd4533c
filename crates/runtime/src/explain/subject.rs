//! A pod of the copy in the form of an explanation.

use std::sync::Arc;

use berth_explain::{Holder, PodIdentity, PodState, Retry, Subject, WaitsFor};
use berth_framework::{ClusterEvent, PluginIdx, Profile, Status, run::Refusal};
use berth_model::{Sym, Time};
use berth_queue::{QueuedPod, SubQueue, Waiting};
use berth_scheduler::{BindingStage, ClusterView, PodHolder, PodPlace, PodView};

/// The pod and its state.
pub(super) fn subject(view: &ClusterView, pod: PodView<'_>) -> Subject {
    let record = match pod.place() {
        PodPlace::Queued(waiting) => Some(&waiting.record),
        PodPlace::Binding(binding) => Some(&binding.record),
        PodPlace::Assumed { .. } | PodPlace::Bound { .. } | PodPlace::Unscheduled => None,
    };
    let rejected_by = record.iter().flat_map(|record| record.rejectors.iter().chain(&record.pending));
    let nominated = pod.nominated_node();
    Subject {
        pod: PodIdentity {
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            uid: pod.pod().uid.to_string(),
        },
        scheduler_name: pod.scheduler_name().to_owned(),
        priority: pod.priority(),
        state: state(view, pod),
        attempts: record.map_or(0, |record| record.attempts),
        rejected_by: rejected_by.map(ToString::to_string).collect(),
        nominated_node: (!nominated.is_empty()).then(|| nominated.to_owned()),
        holders: holders(view, pod),
        retries: Vec::new(),
    }
}

fn state(view: &ClusterView, pod: PodView<'_>) -> PodState {
    let text = |node: Sym| view.table().symbols.text(node).to_owned();
    match pod.place() {
        PodPlace::Bound { node } => PodState::Bound { node: text(*node) },
        PodPlace::Assumed { node } => PodState::Binding { node: text(*node), waits_for: WaitsFor::Watch },
        PodPlace::Binding(binding) => {
            let waits_for = match binding.stage {
                BindingStage::Permit(_) => WaitsFor::Permit,
                BindingStage::PreBind(_) => WaitsFor::PreBind,
                BindingStage::Bind => WaitsFor::Bind,
                BindingStage::Shutdown => WaitsFor::Shutdown,
            };
            PodState::Binding { node: text(binding.node), waits_for }
        }
        PodPlace::Queued(waiting) => queued(view, waiting),
        PodPlace::Unscheduled => PodState::Unscheduled,
    }
}

fn queued(view: &ClusterView, waiting: &Waiting) -> PodState {
    let Waiting { record, queue, backoff_until } = waiting;
    let now = view.as_of();
    let is_active = *queue == SubQueue::Active;
    PodState::Queued {
        queue: if record.gated_by.is_some() { "gated" } else { queue.as_str() }.to_owned(),
        since_milliseconds: now.since(record.queued_at),
        backoff_ends_in_milliseconds: backoff_until.map(|until| until.since(now)),
        behind: is_active.then(|| n_before(view, record)),
    }
}

/// The number of pods in activeQ that PrioritySort puts before the pod.
fn n_before(view: &ClusterView, record: &QueuedPod) -> usize {
    let key = |record: &QueuedPod| (std::cmp::Reverse(record.pod.priority), record.queued_at);
    let is_before = |pod: &PodView<'_>| match pod.place() {
        PodPlace::Queued(other) => other.queue == SubQueue::Active && key(&other.record) < key(record),
        PodPlace::Binding(_) | PodPlace::Assumed { .. } | PodPlace::Bound { .. } | PodPlace::Unscheduled => false,
    };
    view.pods().filter(is_before).count()
}

fn holders(view: &ClusterView, pod: PodView<'_>) -> Vec<Holder> {
    let now = view.as_of();
    match pod.place() {
        PodPlace::Queued(waiting) => {
            let since_milliseconds = now.since(waiting.record.queued_at);
            let gate = waiting.record.gated_by.iter().map(|plugin| Holder {
                point: Some("PreEnqueue".to_owned()),
                plugin: plugin.to_string(),
                since_milliseconds,
                ends_in_milliseconds: None,
                message: None,
                would_let_go: false,
            });
            let after_faults = view.held_owner(pod.pod()).map(|held| Holder {
                point: None,
                plugin: held.plugin.clone(),
                since_milliseconds,
                ends_in_milliseconds: Some(held.until.since(now)),
                message: Some(held.message.clone()),
                would_let_go: false,
            });
            gate.chain(after_faults).collect()
        }
        PodPlace::Binding(binding) => match &binding.stage {
            BindingStage::Permit(plugins) => plugins.iter().map(|held| after_reserve("Permit", held, now)).collect(),
            BindingStage::PreBind(plugins) => plugins.iter().map(|held| after_reserve("PreBind", held, now)).collect(),
            BindingStage::Bind | BindingStage::Shutdown => Vec::new(),
        },
        PodPlace::Assumed { .. } | PodPlace::Bound { .. } | PodPlace::Unscheduled => Vec::new(),
    }
}

/// A plugin that holds a pod which has a node.
fn after_reserve(point: &str, held: &PodHolder, now: Time) -> Holder {
    Holder {
        point: Some(point.to_owned()),
        plugin: held.plugin.to_string(),
        since_milliseconds: now.since(held.since),
        ends_in_milliseconds: Some(held.until.since(now)),
        message: held.message.clone(),
        would_let_go: false,
    }
}

/// The plugin for which the profile's pods wait, because nothing serves in its place.
pub(super) fn out_of_service(now: Time, profile: &mut Profile, waiting: &Waiting) -> Option<Holder> {
    let Refusal { plugin, status } = profile.out_of_service()?;
    Some(Holder {
        point: None,
        plugin: profile.name(plugin).to_string(),
        since_milliseconds: now.since(waiting.record.queued_at),
        ends_in_milliseconds: None,
        message: Some(status.message()),
        would_let_go: false,
    })
}

/// The plugin that would keep a pod out of activeQ if the pod was created, and the events after which it would be asked
/// again.
pub(super) fn gate(profile: &mut Profile, plugin: PluginIdx, status: &Status) -> (Holder, Vec<Retry>) {
    let name = Arc::clone(profile.name(plugin));
    let holder = Holder {
        point: Some("PreEnqueue".to_owned()),
        plugin: name.to_string(),
        since_milliseconds: 0,
        ends_in_milliseconds: None,
        message: Some(status.message()),
        would_let_go: false,
    };
    (holder, retries(profile, &[name]))
}

/// Writes `Node/Add|UpdateNodeLabel`.
fn event(event: &ClusterEvent) -> String {
    format!("{}/{}", event.resource, event.action_names().join("|"))
}

/// The events for which the plugins that rejected the pod are registered.
pub(super) fn retries(profile: &mut Profile, rejected_by: &[Arc<str>]) -> Vec<Retry> {
    let mut retries = Vec::new();
    for name in rejected_by {
        let Some(plugin) = profile.find(name).and_then(|plugin| profile.get(plugin)) else { continue };
        let events = match &plugin.manifest().events_to_register {
            // No binary serves. Only a binary brings the pod back.
            _ if plugin.version().binary.is_none() => Vec::new(),
            Some(events) => events.iter().map(event).collect(),
            None => vec!["any event".to_owned()],
        };
        retries.push(Retry { plugin: name.to_string(), events });
    }
    retries
}
