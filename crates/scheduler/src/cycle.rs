//! The scheduling cycle, which takes one pod from the queue to a node, or back.
//!
//! [`Cycle::schedule`] brings the plugins' replicas up to date, lets [`run::place`] decide, asks PostFilter if no node
//! passed, and passes the pod on: to [`Bindings`], or back to the queue (`Context::fail_attempt`).
//!
//! [`Cycle`] has only the data that one attempt leaves for the next: buffers, the answers about earlier pods of a
//! class, the batch of equal pods, and the place at which the next search begins. A swap of plugins ends the answers
//! and the batch ([`Cycle::plugins_replaced`]).
//!
//! # Surprises
//! - The last decision is kept until the next attempt, which reuses its buffers.
//! - The nomination of a preemptor is written before its victims are evicted.
//! - While decisions come fast, only some are recorded with scores and refusals ([`WHOLE_RECORD_EVERY`]).

mod batching;

use std::{borrow::Cow, sync::Arc, time::Duration};

use berth_explain::{DecisionRecord, Made};
use berth_framework::{
    Call, Code, CycleId, Effect, EquivalenceCache, PluginIdx, Point, SearchLength, Status,
    run::{self, Attempt, ClassAnswers, Decision, Diagnosis, Findings, NoNode, NodeSearch, NominatedPods, Refusal},
};
use berth_model::{ClusterTable, Pod};
use berth_queue::{Queue, QueuedPod};

use self::batching::{Batching, CycleView};
use crate::{
    action::{Action, Level, Notice, PodRequest, Request},
    bindings::{Bindings, Choice, Origin},
    context::{Context, EndingCycle, NextPod, PodEvent, PodPlugins, SYNC},
    failure::{AttemptFailure, FailureCause, Nomination},
    metrics::{BatchMetrics, Observation},
    occurrence::Occurrence,
    settings::Settings,
};

/// The time after which a decision is again recorded with scores and refusals. If a pod came every few microseconds,
/// recording all of these would cost as much as deciding, because one record takes some ten microseconds.
const WHOLE_RECORD_EVERY: Duration = Duration::from_millis(4);

/// The duration from which a search for a node is reported as slow.
const SLOW_SEARCH: Duration = Duration::from_millis(100);

/// The last attempt that looked for a node.
#[derive(Debug)]
pub struct LastAttempt {
    /// The number of the attempt. The first attempt has the number 1.
    pub number: u64,
    /// The pod that was tried.
    pub pod: Arc<Pod>,
    /// The decision, with every plugin's answers.
    pub decision: Decision,
}

/// The state that one attempt leaves for the next attempt.
#[derive(Debug, Default)]
pub(crate) struct Cycle {
    attempt: Attempt,
    batching: Batching,
    earlier_answers: EquivalenceCache<ClassAnswers>,
    /// The last attempt. The next attempt reuses the buffers of its decision.
    last: Option<LastAttempt>,
    /// The place at which the next attempt begins to look for nodes.
    next_start: usize,
    n_cycles: u64,
    /// The time at which a decision was last recorded with scores and refusals.
    recorded_at: Option<Duration>,
    /// Whether the log says that pods of groups are scheduled alone.
    has_logged_groups: bool,
}

/// An attempt whose decision is recorded.
struct Recorded<'a> {
    pod: &'a Pod,
    attempt: u32,
    /// The label of the event that brought the pod.
    brought_by: Option<Arc<str>>,
}

impl Cycle {
    /// Tries one pod.
    pub(crate) fn schedule(
        &mut self,
        NextPod { mut record, search, .. }: NextPod,
        settings: &Settings,
        bindings: &mut Bindings,
        context: &mut Context,
    ) {
        let (pod, attempt) = (Arc::clone(&record.pod), record.attempts);
        let brought_by = record.brought_by.clone();
        context.note(4, |context| Occurrence::PodPopped(context.pod_name(&pod)));
        if !is_to_be_tried(&pod, context) {
            return context.queue_mut().done(&pod.uid);
        }
        if attempt == 1 {
            self.tell_of_group(&pod, context);
        }
        self.n_cycles += 1;
        context.note_attempt(&pod, self.n_cycles);
        let cycle = CycleId(self.n_cycles);
        let start = context.begin_search();
        let started = start.at;
        let sync = context.start_step(pod.scheduler_name, cycle);
        let caught_up = catch_up(&pod, context);
        let code = if caught_up.is_ok() { Code::Success } else { Code::Error };
        context.end_step(pod.scheduler_name, sync, SYNC, code);
        if let Err(failure) = caught_up {
            context.end_cycle(pod.scheduler_name, cycle);
            let ending = EndingCycle { cycle, started, number: attempt, node: None };
            return context.fail_attempt(record, ending, &failure);
        }
        let search = CycleSearch { cycle, length: search };
        let mut decision = self.decide(&pod, search, settings, context);
        tell_if_slow(&pod, cycle, started, &decision.findings, context);
        let Decision { outcome, findings } = &mut decision;
        if let Err(NoNode::Rejected(diagnosis)) = outcome {
            post_filter(&pod, search, findings, diagnosis, context);
        }
        context.charge_search(&mut record, start);
        match outcome {
            Ok(row) => {
                context.observe_since(started, |duration| Observation::Algorithm { duration });
                let n_feasible = findings.feasible_order().len().max(1);
                let n_evaluated = findings.sample().n_visited.max(n_feasible);
                bindings.begin(record, Choice { cycle, started, row: *row, n_evaluated, n_feasible }, context);
            }
            Err(no_node) => FailedSearch { cycle, started, no_node }.end(record, bindings, context),
        }
        if settings.records_decisions {
            self.record(&decision, Recorded { pod: &pod, attempt, brought_by }, context);
        }
        self.last = Some(LastAttempt { number: self.n_cycles, pod, decision });
    }

    /// Logs that a pod with `spec.schedulingGroup` is scheduled alone. While its feature gate GenericWorkload is off,
    /// kube-scheduler ignores the field as well, and logs nothing.
    fn tell_of_group(&mut self, pod: &Pod, context: &mut Context) {
        let Some(group) = context.pending_pod(&pod.uid).and_then(|pending| pending.pod_group.clone()) else { return };
        let note = format!("The pod is scheduled alone: its PodGroup {group} is ignored, as without GenericWorkload");
        context.pod_event(pod, PodEvent::SCHEDULED_ALONE, note);
        if !std::mem::replace(&mut self.has_logged_groups, true) {
            let name = context.full_name(pod);
            let rest = "pods of PodGroups are scheduled alone, as kube-scheduler does while GenericWorkload is off";
            context.log(Level::Warn, format!("{name} is in the PodGroup {group}: {rest}"));
        }
    }

    /// Records a decision for explanations.
    fn record(&mut self, decision: &Decision, recorded: Recorded<'_>, context: &mut Context) {
        let Recorded { pod, attempt, brought_by } = recorded;
        let now = context.instant();
        let elapsed = now.zip(self.recorded_at).map(|(now, then)| now.saturating_sub(then));
        let is_whole = elapsed.is_none_or(|elapsed| elapsed >= WHOLE_RECORD_EVERY);
        if is_whole {
            self.recorded_at = now;
        }
        let cycle = CycleId(self.n_cycles);
        context.record_decision(pod, |profile, table, at| {
            let brought_by = brought_by.as_ref();
            DecisionRecord::of(decision, &Made { pod, profile, table, at, attempt, brought_by, cycle, is_whole })
        });
    }

    /// Forgets the answers of the old plugins, because plugins were replaced.
    pub(crate) fn plugins_replaced(&mut self) {
        self.batching.forget();
        self.earlier_answers.clear();
    }

    /// The number of pods for which answers about earlier pods of their class were available.
    pub(crate) fn n_with_earlier_answers(&self) -> u64 {
        self.earlier_answers.n_hits()
    }

    pub(crate) fn last_attempt(&self) -> Option<&LastAttempt> {
        self.last.as_ref()
    }

    pub(crate) fn next_start(&self) -> usize {
        self.next_start
    }

    /// Begins the next search at `next_start`, and forgets the batch of the previous pod.
    pub(crate) fn begin_again_at(&mut self, next_start: usize) {
        self.next_start = next_start;
        self.batching.forget();
    }

    pub(crate) fn n_cycles(&self) -> u64 {
        self.n_cycles
    }

    pub(crate) fn batch_metrics(&self) -> BatchMetrics {
        self.batching.metrics()
    }

    fn decide(
        &mut self,
        pod: &Arc<Pod>,
        CycleSearch { cycle, length }: CycleSearch,
        settings: &Settings,
        context: &mut Context,
    ) -> Decision {
        if let Some(last) = self.last.take() {
            self.attempt.recycle(last.decision);
        }
        let Some(plugins) = context.plugins_of(pod.scheduler_name) else {
            let outcome = Err(NoNode::Broken(Status::error("no profile")));
            return Decision { outcome, findings: Findings::default() };
        };
        let PodPlugins { profile, cache, queue, extenders, time, outbox } = plugins;
        let table = cache.table();
        let nominated = nominated_pods(queue, table, pod);
        let call = Call { deadline: time.search_deadline(length), ..Call::new(cycle, outbox.now(), pod, table) };
        let started = outbox.instant();
        // An extender may distinguish pods that plugins treat as equal.
        let signature = if extenders.is_some() { None } else { self.batching.sign(profile, pod, cycle) };
        let view = CycleView { cycle, now: outbox.now(), table };
        let hint = self.batching.hint(profile, pod, signature.as_ref(), view);
        let (scheduler_name, hinted) = (pod.scheduler_name, hint.is_some());
        outbox.observe_since(started, |duration| Observation::NodeHint { scheduler_name, hinted, duration });
        let search = NodeSearch {
            order: cache.order(),
            start: self.next_start,
            percentage_of_nodes_to_score: settings.percentage_of_nodes_to_score,
            nominated: &nominated,
            hint,
            extenders,
        };
        let cache = settings.equivalence_cache.then_some(&mut self.earlier_answers);
        let decision = run::place(profile, &call, &search, cache, &mut self.attempt);
        let (n_visited, n_nodes) = (decision.findings.sample().n_visited, search.order.len());
        self.next_start = (self.next_start + n_visited).checked_rem(n_nodes).unwrap_or(0);
        match &decision.outcome {
            Ok(node) => {
                let started = outbox.instant();
                let step = profile.meter().start_step(cycle);
                self.batching.placed(profile, pod, signature, *node, &decision.findings, view);
                profile.meter().end_step(&step, "StoreResults", Code::Success);
                outbox.observe_since(started, |duration| Observation::ResultsStored { scheduler_name, duration });
            }
            Err(_) => self.batching.failed(profile),
        }
        decision
    }
}

fn tell_if_slow(pod: &Arc<Pod>, cycle: CycleId, started: Option<Duration>, findings: &Findings, context: &mut Context) {
    let (Some(started), Some(now)) = (started, context.instant()) else { return };
    let total = now.saturating_sub(started);
    if total <= SLOW_SEARCH {
        return;
    }
    let filtered = findings.filtered_at().unwrap_or(now);
    let mut steps = vec![("Computing predicates done".into(), filtered.saturating_sub(started))];
    if !findings.totals().is_empty() {
        steps.push(("Prioritizing done".into(), now.saturating_sub(filtered)));
    }
    let pod = context.pod_ref(pod);
    context.notice(Notice::SlowSearch { cycle, pod, total, steps });
}

/// The cycle of a search for a node, and the maximum length of the search.
#[derive(Clone, Copy)]
struct CycleSearch {
    cycle: CycleId,
    length: SearchLength,
}

/// A cycle that found no node.
struct FailedSearch<'a> {
    cycle: CycleId,
    started: Option<Duration>,
    no_node: &'a NoNode,
}

impl FailedSearch<'_> {
    fn end(self, record: QueuedPod, bindings: &mut Bindings, context: &mut Context) {
        let Self { cycle, started, no_node } = self;
        let mut requests = Vec::new();
        let failure = match no_node {
            NoNode::EmptyCluster => AttemptFailure { cause: FailureCause::EmptyCluster, nomination: Nomination::Clear },
            NoNode::Broken(status) => AttemptFailure::error(status),
            NoNode::Rejected(diagnosis) => {
                let run = &diagnosis.post_filter;
                let nomination = match run.nominate {
                    None => Nomination::Keep,
                    Some(None) => Nomination::Clear,
                    Some(Some(node)) => Nomination::Set(context.table().name(node)),
                };
                requests = follow_post_filter(&record.pod, cycle, run.effects.clone(), bindings, context);
                note_post_filter(&record.pod, run.status.as_ref(), nomination, &requests, context);
                AttemptFailure { cause: FailureCause::Rejected(Cow::Borrowed(diagnosis)), nomination }
            }
        };
        context.observe_since(started, |duration| Observation::Algorithm { duration });
        context.end_cycle(record.pod.scheduler_name, cycle);
        let ending = EndingCycle { cycle, started, number: record.attempts, node: None };
        context.fail_attempt(record, ending, &failure);
        // The nomination must be written before the victims are evicted.
        for request in requests {
            context.act(Action::Pod(request));
        }
    }
}

/// Asks the PostFilter plugins to help a pod that fits on no node.
fn post_filter(
    pod: &Arc<Pod>,
    search: CycleSearch,
    findings: &Findings,
    diagnosis: &mut Diagnosis,
    context: &mut Context,
) {
    let Some(plugins) = context.plugins_of(pod.scheduler_name) else { return };
    let PodPlugins { profile, cache, queue, extenders, time, outbox } = plugins;
    let table = cache.table();
    let nominated = nominated_pods(queue, table, pod);
    let deadline = time.search_deadline(search.length);
    let call = Call { deadline, ..Call::new(search.cycle, outbox.now(), pod, table) };
    run::post_filter(profile, &call, findings, &nominated, extenders, diagnosis);
}

/// Whether a pod that the queue returned must still be tried. If the pod is being deleted or no profile serves it, this
/// is reported.
fn is_to_be_tried(pod: &Arc<Pod>, context: &mut Context) -> bool {
    if !context.profiles().serves(pod.scheduler_name) {
        let message = format!("no profile serves pod {}", context.full_name(pod));
        context.log(Level::Error, message);
        return false;
    }
    if pod.terminating {
        context.note(3, |context| Occurrence::DeletingPodSkipped(context.pod_name(pod)));
        let note = format!("skip schedule deleting pod: {}", context.full_name(pod));
        context.pod_event(pod, PodEvent::FAILED_SCHEDULING, note);
        return false;
    }
    context.cache().pod(&pod.uid).is_none()
}

/// Sends the changes to the plugins' replicas. A plugin that is out of service holds the pod back until another binary
/// replaces the plugin. Without this plugin, the answers of the other plugins, including PostFilter, must not count.
fn catch_up(pod: &Pod, context: &mut Context) -> Result<(), Box<AttemptFailure<'static>>> {
    context.cache_mut().settle();
    if let Some(refusal) = context.hold(pod) {
        return Err(waits_for(refusal, context).into());
    }
    let Err(refusal) = context.sync(pod.scheduler_name) else { return Ok(()) };
    let Refusal { plugin, status } = &refusal;
    if !status.code.is_rejected() {
        let text =
            format!("syncing plugin \"{}\": {}", context.plugin_name(pod.scheduler_name, *plugin), status.message());
        return Err(AttemptFailure::error(&Status::error(text)).into());
    }
    Err(waits_for(refusal, context).into())
}

/// Rejects the pod in the name of this plugin, regardless of the answers of other plugins.
fn waits_for(Refusal { plugin, status }: Refusal, context: &Context) -> AttemptFailure<'static> {
    let n_all_nodes = context.cache().order().len();
    let mut diagnosis = Diagnosis { n_all_nodes, ..Diagnosis::default() };
    diagnosis.blame(plugin, status.code);
    diagnosis.pre_filter = Some(status);
    AttemptFailure { cause: FailureCause::Rejected(Cow::Owned(diagnosis)), nomination: Nomination::Clear }
}

/// Notes the node on which pods are evicted, and the status of the PostFilter plugins, if any was called.
fn note_post_filter(
    pod: &Pod,
    status: Option<&Status>,
    nomination: Nomination,
    requests: &[PodRequest],
    context: &mut Context,
) {
    let evicts = requests.iter().any(|request| matches!(request.request, Request::AwaitedEffects(_)));
    if let Nomination::Set(node) = nomination
        && evicts
    {
        context.note(2, |context| Occurrence::PreemptionTarget {
            pod: context.pod_name(pod),
            node: context.shared_text(node),
        });
    }
    if let Some(status) = status {
        context.note(5, |context| Occurrence::PostFilterRan { pod: context.pod_name(pod), status: status.message() });
    }
}

/// Carries out the effects of PostFilter plugins on the scheduler, and returns requests for all other effects. If the
/// plugins evict pods, the preemptor is held back until the evictions have been requested.
fn follow_post_filter(
    pod: &Arc<Pod>,
    cycle: CycleId,
    effects: Vec<(PluginIdx, Effect)>,
    bindings: &mut Bindings,
    context: &mut Context,
) -> Vec<PodRequest> {
    let mut requests = Vec::new();
    for (plugin, effects) in bindings.carry_out(pod, effects, context) {
        let name = context.plugin_name(pod.scheduler_name, plugin);
        let evicts = context.begin_evictions(&pod.uid, cycle, &name, &effects);
        let effects = Origin { pod, cycle, point: Point::PostFilter, plugin }.request(context, effects);
        let request = if evicts { Request::AwaitedEffects(effects) } else { Request::Effects(effects) };
        requests.push(context.pod_request(pod, request));
    }
    requests
}

/// The nominations in the queue, as the cycle of `pod` sees them.
fn nominated_pods<'a>(queue: &'a Queue, table: &ClusterTable, pod: &Pod) -> NominatedPods<'a> {
    let by_node = queue.nominator().iter();
    NominatedPods::new(table, pod, by_node.flat_map(|(node, pods)| pods.iter().map(move |pod| (node, pod))))
}
