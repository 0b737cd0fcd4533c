//! The scheduling cycle: one pod from the queue to a node, or back.

mod batching;

use std::{sync::Arc, time::Duration};

use berth_framework::{
    Call, CycleId, Effect, PluginIdx, SchedulingTime, Status,
    run::{self, Attempt, Boards, Diagnosis, NoNode, NodeSearch, NominatedPods, PostFilterRun},
};
use berth_model::{ClusterTable, NodeIdx, Pod};
use berth_queue::{Queue, QueuedPod};

use self::batching::Batching;
use crate::{
    action::{Action, Level, Notice, PodRequest, Request},
    bindings::{Bindings, Choice, Origin},
    context::{Context, PodEvent},
    failure::{AttemptFailure, Nomination},
    metrics::{BatchMetrics, Observation},
    settings::Settings,
};

/// A search for a node that takes longer is told of.
const SLOW_SEARCH: Duration = Duration::from_millis(100);

/// What one attempt leaves for the next.
#[derive(Debug, Default)]
pub(crate) struct Cycle {
    attempt: Attempt,
    batching: Batching,
    boards: Boards,
    /// Where the next attempt begins to look for nodes.
    next_start: usize,
    n_cycles: u64,
}

impl Cycle {
    /// Tries one pod.
    pub(crate) fn schedule(
        &mut self,
        record: QueuedPod,
        settings: &Settings,
        bindings: &mut Bindings,
        context: &mut Context,
    ) {
        let pod = Arc::clone(&record.pod);
        if !is_to_be_tried(&pod, context) {
            return context.queue.done(&pod.uid);
        }
        self.n_cycles += 1;
        let cycle = CycleId(self.n_cycles);
        let started = context.outbox.instant();
        context.time.begin_step();
        let by_plugins = context.time.taken_by_plugins();
        if let Err(failure) = catch_up(&pod, bindings, context) {
            context.end_cycle(pod.scheduler_name, cycle);
            return context.fail_attempt(record, started, failure);
        }
        let found = self.find_node(&pod, cycle, settings, context);
        self.tell_if_slow(&pod, started, context);
        match found {
            Ok(row) => {
                context.outbox.time(started, |duration| Observation::Algorithm { duration });
                let n_feasible = self.attempt.feasible_order.len().max(1);
                let n_evaluated = self.attempt.n_visited.max(n_feasible);
                bindings.begin(record, Choice { cycle, started, row, n_evaluated, n_feasible }, context);
            }
            Err(no_node) => self.found_none(record, (cycle, started), no_node, bindings, context),
        }
        charge_search(&pod, (started, by_plugins), context);
    }

    /// Other plugins than those that ranked the nodes will be asked.
    pub(crate) fn plugins_replaced(&mut self) {
        self.batching.forget();
        self.boards.clear();
    }

    /// How many pods found that others like them had come before.
    pub(crate) fn n_with_board(&self) -> u64 {
        self.boards.n_uses()
    }

    pub(crate) fn last_attempt(&self) -> &Attempt {
        &self.attempt
    }

    pub(crate) fn n_cycles(&self) -> u64 {
        self.n_cycles
    }

    pub(crate) fn batch_metrics(&self) -> BatchMetrics {
        self.batching.metrics()
    }

    fn find_node(
        &mut self,
        pod: &Arc<Pod>,
        cycle: CycleId,
        settings: &Settings,
        context: &mut Context,
    ) -> Result<NodeIdx, NoNode> {
        let Some(profile) = context.profiles.get_mut(pod.scheduler_name) else {
            return Err(NoNode::Broken(Status::error("no profile")));
        };
        let table = context.cache.table();
        let nominated = nominated_pods(&context.queue, table, pod);
        let call = Call { cycle, now: context.outbox.now(), pod, table };
        let started = context.outbox.instant();
        // An extender may tell pods apart that are alike for the plugins.
        let has_extenders = context.extenders.is_some();
        let signature = if has_extenders { None } else { self.batching.sign(profile, pod, cycle) };
        let when = (cycle.0, context.outbox.now());
        let hint = self.batching.hint(profile, (pod, signature.as_ref()), when, table);
        let (scheduler_name, hinted) = (pod.scheduler_name, hint.is_some());
        context.outbox.time(started, |duration| Observation::NodeHint { scheduler_name, hinted, duration });
        let search = NodeSearch {
            order: context.cache.order(),
            start: self.next_start,
            percentage_of_nodes_to_score: settings.percentage_of_nodes_to_score,
            nominated: &nominated,
            hint,
            extenders: context.extenders.as_deref(),
        };
        let boards = settings.keeps_boards.then_some(&mut self.boards);
        let result = run::place(profile, &call, &search, boards, &mut self.attempt);
        let n_nodes = search.order.len();
        self.next_start = (self.next_start + self.attempt.n_visited).checked_rem(n_nodes).unwrap_or(0);
        match &result {
            Ok(node) => {
                let started = context.outbox.instant();
                self.batching.placed(profile, (pod, signature), when, (*node, &self.attempt, table));
                context.outbox.time(started, |duration| Observation::ResultsStored { scheduler_name, duration });
            }
            Err(_) => self.batching.failed(profile),
        }
        result
    }

    fn tell_if_slow(&self, pod: &Arc<Pod>, started: Option<Duration>, context: &mut Context) {
        let (Some(started), Some(now)) = (started, context.outbox.instant()) else { return };
        let total = now.saturating_sub(started);
        if total <= SLOW_SEARCH {
            return;
        }
        let filtered = self.attempt.filtered_at.unwrap_or(now);
        let mut steps = vec![("Computing predicates done".into(), filtered.saturating_sub(started))];
        if !self.attempt.totals.is_empty() {
            steps.push(("Prioritizing done".into(), now.saturating_sub(filtered)));
        }
        context.outbox.notice(Notice::SlowSearch { pod: context.pod_ref(pod), total, steps });
    }

    fn found_none(
        &mut self,
        record: QueuedPod,
        (cycle, started): (CycleId, Option<Duration>),
        no_node: NoNode,
        bindings: &mut Bindings,
        context: &mut Context,
    ) {
        let mut requests = Vec::new();
        let failure = match no_node {
            NoNode::EmptyCluster => AttemptFailure {
                status: Status::unresolvable("no nodes available to schedule pods"),
                diagnosis: None,
                nomination: Nomination::Clear,
            },
            NoNode::Broken(status) => AttemptFailure::error(&status),
            NoNode::Rejected(mut diagnosis) => {
                let run = self.post_filter(&record.pod, cycle, &mut diagnosis, context);
                let nomination = match run.nominate {
                    None => Nomination::Keep,
                    Some(None) => Nomination::Clear,
                    Some(Some(node)) => Nomination::Set(context.cache.table().name(node)),
                };
                requests = follow_post_filter(&record.pod, cycle, run.effects, bindings, context);
                let status = Status::unschedulable(diagnosis.message());
                AttemptFailure { status, diagnosis: Some(diagnosis), nomination }
            }
        };
        context.outbox.time(started, |duration| Observation::Algorithm { duration });
        context.end_cycle(record.pod.scheduler_name, cycle);
        context.fail_attempt(record, started, failure);
        // The nomination is written before the victims are evicted.
        for request in requests {
            context.outbox.push(Action::Pod(request));
        }
    }

    /// Nothing fits: asks the PostFilter plugins for a way out.
    fn post_filter(
        &self,
        pod: &Arc<Pod>,
        cycle: CycleId,
        diagnosis: &mut Diagnosis,
        context: &mut Context,
    ) -> PostFilterRun {
        let table = context.cache.table();
        let nominated = nominated_pods(&context.queue, table, pod);
        let Some(profile) = context.profiles.get_mut(pod.scheduler_name) else { return PostFilterRun::default() };
        let call = Call { cycle, now: context.outbox.now(), pod, table };
        let asked = (&nominated, context.extenders.as_deref());
        run::post_filter(profile, &call, &self.attempt, asked, diagnosis)
    }
}

/// Charges the cycle to the pod's namespace if it took long, without what its plugins are charged for.
fn charge_search(pod: &Pod, (started, by_plugins): (Option<Duration>, Duration), context: &Context) {
    let (Some(started), Some(now)) = (started, context.outbox.instant()) else { return };
    let by_plugins = context.time.taken_by_plugins().saturating_sub(by_plugins);
    let took = now.saturating_sub(started).saturating_sub(by_plugins);
    if took > SchedulingTime::LONG_SEARCH {
        context.time.searched(&context.shared_text(pod.namespace), took);
    }
}

/// Whether there is still something to decide about a pod that the queue gave out; if that is worth telling, it is told.
fn is_to_be_tried(pod: &Arc<Pod>, context: &mut Context) -> bool {
    if !context.profiles.serves(pod.scheduler_name) {
        let message = format!("no profile serves pod {}", context.full_name(pod));
        context.outbox.log(Level::Error, message);
        return false;
    }
    if pod.terminating {
        let note = format!("skip schedule deleting pod: {}", context.full_name(pod));
        context.pod_event(pod, PodEvent::FAILED_SCHEDULING, note);
        return false;
    }
    context.cache.pod(&pod.uid).is_none()
}

/// Sends the plugins' replicas what has changed, if all may take time for another pod and know of those before. A plugin
/// that is out of service holds the pod back until another binary takes its place: the answers of the other plugins,
/// PostFilter among them, must not count without it.
fn catch_up(pod: &Pod, bindings: &Bindings, context: &mut Context) -> Result<(), AttemptFailure> {
    context.cache.settle();
    if let Some(status) = bindings.obstacle(pod.scheduler_name) {
        return Err(AttemptFailure::error(&status));
    }
    let Some(profile) = context.profiles.get_mut(pod.scheduler_name) else { return Ok(()) };
    if let Err((_, status)) = profile.have_time() {
        return Err(AttemptFailure::error(&status));
    }
    check_hold(pod, context)?;
    let Some(profile) = context.profiles.get_mut(pod.scheduler_name) else { return Ok(()) };
    let Err((plugin, status)) = profile.sync(&context.cache) else { return Ok(()) };
    if !status.code.is_rejected() {
        let text = format!("syncing plugin \"{}\": {}", profile.name(plugin), status.message());
        return Err(AttemptFailure::error(&Status::error(text)));
    }
    Err(waits_for(plugin, &status, context))
}

/// Holds the pod back if a plugin keeps faulting over pods of its owner, unless it may do without that plugin.
fn check_hold(pod: &Pod, context: &mut Context) -> Result<(), AttemptFailure> {
    if context.isolation.is_empty() {
        return Ok(());
    }
    let owner = context.owner_of(pod);
    let Some(hold) = context.isolation.hold(&owner, context.outbox.now()) else { return Ok(()) };
    let status = Status::unresolvable(hold.message());
    let Some(profile) = context.profiles.get_mut(pod.scheduler_name) else { return Ok(()) };
    // A plugin that the profile no longer has faults no more.
    let Some(plugin) = profile.find(hold.plugin) else { return Ok(()) };
    if profile.get(plugin).is_some_and(|instance| instance.pass_over()) {
        return Ok(());
    }
    context.isolation.wait(&owner, pod.uid.clone());
    Err(waits_for(plugin, &status, context))
}

/// The pod is turned down in the name of this plugin, whatever the others would say.
fn waits_for(plugin: PluginIdx, status: &Status, context: &Context) -> AttemptFailure {
    let n_all_nodes = context.cache.order().len();
    let mut diagnosis = Diagnosis { n_all_nodes, pre_filter_message: status.message(), ..Diagnosis::default() };
    diagnosis.blame(plugin, status.code);
    let status = Status::new(status.code, [diagnosis.message()]);
    AttemptFailure { status, diagnosis: Some(Box::new(diagnosis)), nomination: Nomination::Clear }
}

/// Does what PostFilter plugins want of the scheduler, and gives back what the host must do for them. If that evicts pods,
/// the preemptor is held back until they have been told to leave.
fn follow_post_filter(
    pod: &Arc<Pod>,
    cycle: CycleId,
    effects: Vec<(PluginIdx, Effect)>,
    bindings: &mut Bindings,
    context: &mut Context,
) -> Vec<PodRequest> {
    let mut requests = Vec::new();
    for (plugin, effects) in bindings.carry_out(pod, cycle, effects, context) {
        let name = context.plugin_name(pod.scheduler_name, plugin);
        let n_victims = context.preemptions.begin(&pod.uid, (cycle, context.outbox.instant()), &name, &effects);
        let effects = Origin { pod, cycle, plugin }.request(context, effects);
        let request = if n_victims > 0 {
            context.outbox.observe(Observation::Preemption { victims: n_victims });
            Request::AwaitedEffects(effects)
        } else {
            Request::Effects(effects)
        };
        requests.push(PodRequest { pod: context.pod_ref(pod), request });
    }
    requests
}

/// The nominations that the queue knows, as they are for `pod`.
fn nominated_pods<'a>(queue: &'a Queue, table: &ClusterTable, pod: &Pod) -> NominatedPods<'a> {
    let by_node = queue.nominator().iter();
    NominatedPods::new(table, pod, by_node.flat_map(|(node, pods)| pods.iter().map(move |pod| (node, pod))))
}
