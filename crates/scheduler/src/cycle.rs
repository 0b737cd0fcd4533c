//! The scheduling cycle: one pod from the queue to a node, or back.

use std::sync::Arc;

use berth_framework::{
    Call, CycleId, DryRunCase, Effect, PluginIdx, Status,
    run::{self, Circumstances, Diagnosis, NoNode, Nominated, Nominations, PostFilterRun},
};
use berth_model::{ClusterTable, NodeIdx, Pod, Time};
use berth_queue::QueuedPod;

use crate::{
    action::{Action, Level},
    failure::{Defeat, Nomination},
    scheduler::Scheduler,
};

impl Scheduler {
    pub(crate) fn schedule(&mut self, record: QueuedPod, now: Time) {
        let pod = Arc::clone(&record.pod);
        if !self.profiles.serves(pod.scheduler_name) {
            let message = format!("no profile serves pod {}", self.full_name(&pod));
            self.log(Level::Error, message);
            return self.queue.done(&pod.uid);
        }
        if pod.terminating {
            let note = format!("skip schedule deleting pod: {}", self.full_name(&pod));
            self.failed_scheduling_event(&pod, note);
            return self.queue.done(&pod.uid);
        }
        if self.cache.pod(&pod.uid).is_some() {
            return self.queue.done(&pod.uid);
        }
        let cycle = self.next_cycle();
        if let Err(defeat) = self.catch_up(&pod) {
            self.end_cycle(pod.scheduler_name, cycle);
            return self.defeated(record, defeat, now);
        }
        match self.find_node(&pod, cycle, now) {
            Ok(node) => self.begin_binding(record, cycle, node, now),
            Err(no_node) => self.found_none(record, cycle, no_node, now),
        }
    }

    /// Feeds the plugins' replicas what has changed. A plugin that is out of service holds the pod back until another
    /// binary takes its place: what the others would say, PostFilter among them, must not count without it.
    fn catch_up(&mut self, pod: &Pod) -> Result<(), Defeat> {
        self.cache.settle();
        let Some(profile) = self.profiles.get_mut(pod.scheduler_name) else { return Ok(()) };
        let Err((plugin, status)) = profile.sync(&self.cache) else { return Ok(()) };
        if !status.code.is_rejected() {
            let text = format!("syncing plugin \"{}\": {}", profile.name(plugin), status.message());
            return Err(Defeat::broken(Status::error(text)));
        }
        let n_all_nodes = self.cache.order().len();
        let mut diagnosis = Diagnosis { n_all_nodes, pre_filter_message: status.message(), ..Diagnosis::default() };
        diagnosis.blame(plugin, status.code);
        let status = Status::new(status.code, [diagnosis.message()]);
        let nomination = Nomination::Set(crate::pending::NO_NODE);
        Err(Defeat { status, diagnosis: Some(Box::new(diagnosis)), nomination })
    }

    fn find_node(&mut self, pod: &Arc<Pod>, cycle: CycleId, now: Time) -> Result<NodeIdx, NoNode> {
        let Some(profile) = self.profiles.get_mut(pod.scheduler_name) else {
            return Err(NoNode::Broken(Status::error("no profile")));
        };
        let claims = claims(&self.queue, &self.cache, pod);
        let pods: Vec<&Pod> = claims.pods.iter().map(|pod| &**pod).collect();
        let table = self.cache.table();
        let call = Call { cycle, pod, table };
        let signature = self.batching.sign(profile, pod);
        let when = (cycle.0, now);
        let hint = self.batching.hint(profile, (pod, signature.as_ref()), when, table);
        let circumstances = Circumstances {
            order: self.cache.order(),
            start: self.next_start,
            percentage_of_nodes_to_score: self.settings.percentage_of_nodes_to_score,
            nominated: Nominated { pods: &pods, cases: &claims.cases },
            hint,
        };
        let result = run::place(profile, &call, &circumstances, &mut self.attempt);
        let n_nodes = circumstances.order.len();
        self.next_start = (self.next_start + self.attempt.n_visited).checked_rem(n_nodes).unwrap_or(0);
        match &result {
            Ok(node) => {
                self.batching.placed(profile, (pod, signature), when, (*node, &self.attempt, table));
            }
            Err(_) => self.batching.failed(profile),
        }
        result
    }

    fn found_none(&mut self, record: QueuedPod, cycle: CycleId, no_node: NoNode, now: Time) {
        let mut follow_up = Vec::new();
        let defeat = match no_node {
            NoNode::EmptyCluster => Defeat {
                status: Status::unresolvable("no nodes available to schedule pods"),
                diagnosis: None,
                nomination: Nomination::Set(crate::pending::NO_NODE),
            },
            NoNode::Broken(status) => Defeat::broken(status),
            NoNode::Rejected(mut diagnosis) => {
                let run = self.post_filter(&record.pod, cycle, &mut diagnosis);
                let nominate =
                    |node: Option<NodeIdx>| node.map(|node| self.cache.table().name(node)).unwrap_or_default();
                let nomination = run.nominate.map_or(Nomination::Keep, |node| Nomination::Set(nominate(node)));
                follow_up = self.follow_up(&record.pod, cycle, run.effects, now);
                let status = Status::unschedulable(diagnosis.message());
                Defeat { status, diagnosis: Some(diagnosis), nomination }
            }
        };
        self.end_cycle(record.pod.scheduler_name, cycle);
        self.defeated(record, defeat, now);
        // The nomination is written before the victims are touched.
        self.actions.extend(follow_up);
    }

    /// Nothing fits: asks PostFilter plugins for a way out.
    fn post_filter(&mut self, pod: &Arc<Pod>, cycle: CycleId, diagnosis: &mut Diagnosis) -> PostFilterRun {
        let table = self.cache.table();
        let Some(profile) = self.profiles.get_mut(pod.scheduler_name) else { return PostFilterRun::default() };
        let call = Call { cycle, pod, table };
        let claims = claims(&self.queue, &self.cache, pod);
        let pods: Vec<&Pod> = claims.pods.iter().map(|pod| &**pod).collect();
        let rivals = Nominated { pods: &pods, cases: &claims.cases };
        let all: Vec<(NodeIdx, Arc<Pod>)> = nominations(&self.queue, table);
        let nominations = Nominations { rivals, all: &all };
        run::post_filter(profile, &call, &self.attempt, &nominations, diagnosis)
    }

    /// Does what PostFilter plugins want of the scheduler, and gives back what others must do for them. From here on the
    /// pod is held back until its victims have been told to leave.
    fn follow_up(
        &mut self,
        pod: &Arc<Pod>,
        cycle: CycleId,
        effects: Vec<(PluginIdx, Effect)>,
        now: Time,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        for (plugin, effects) in self.perform_own_of_each(pod, effects, now) {
            let evicts = self.begin_preemption(pod, cycle, plugin, &effects);
            actions.push(match evicts {
                true => self.awaited_effects(pod, cycle, plugin, effects),
                false => self.effects(pod, cycle, plugin, effects),
            });
        }
        actions
    }
}

/// Pods nominated to nodes that count against `pod`: of its priority or above, and not itself.
struct Claims {
    pods: Vec<Arc<Pod>>,
    cases: Vec<DryRunCase>,
}

/// Every nomination, in the order of nodes and priority.
fn nominations(queue: &berth_queue::Queue, table: &ClusterTable) -> Vec<(NodeIdx, Arc<Pod>)> {
    let known = queue.nominator().iter().filter_map(|(node, pods)| Some((table.find(node)?, pods)));
    let mut all: Vec<_> = known.flat_map(|(node, pods)| pods.iter().map(move |pod| (node, Arc::clone(pod)))).collect();
    all.sort_by(|(left, one), (right, other)| {
        (left, -i64::from(one.priority), &one.uid).cmp(&(right, -i64::from(other.priority), &other.uid))
    });
    all
}

fn claims(queue: &berth_queue::Queue, cache: &berth_cache::Cache, pod: &Pod) -> Claims {
    let mut claims = Claims { pods: Vec::new(), cases: Vec::new() };
    if queue.nominator().is_empty() {
        return claims;
    }
    for (node, nominated) in queue.nominator().iter() {
        let Some(node) = cache.table().find(node) else { continue };
        let mut case = DryRunCase { node, ..DryRunCase::default() };
        for other in nominated.iter().filter(|other| other.priority >= pod.priority && other.uid != pod.uid) {
            case.plus.push(u32::try_from(claims.pods.len()).unwrap_or(u32::MAX));
            claims.pods.push(Arc::clone(other));
        }
        if !case.plus.is_empty() {
            claims.cases.push(case);
        }
    }
    claims.cases.sort_unstable_by_key(|case| case.node);
    claims
}
