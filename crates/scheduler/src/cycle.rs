//! The scheduling cycle: one pod from the queue to a node, or back.

use std::sync::Arc;

use berth_framework::{
    Call, CycleId, Effect, PluginIdx, Status,
    run::{self, Diagnosis, NoNode, NodeSearch, NominatedPods, PostFilterRun},
};
use berth_model::{ClusterTable, NodeIdx, Pod, Time};
use berth_queue::{Queue, QueuedPod};

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
        let table = self.cache.table();
        let nominated = nominated_pods(&self.queue, table, pod);
        let call = Call { cycle, pod, table };
        let signature = self.batching.sign(profile, pod);
        let when = (cycle.0, now);
        let hint = self.batching.hint(profile, (pod, signature.as_ref()), when, table);
        let search = NodeSearch {
            order: self.cache.order(),
            start: self.next_start,
            percentage_of_nodes_to_score: self.settings.percentage_of_nodes_to_score,
            nominated: &nominated,
            hint,
        };
        let result = run::place(profile, &call, &search, &mut self.attempt);
        let n_nodes = search.order.len();
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
        let nominated = nominated_pods(&self.queue, table, pod);
        run::post_filter(profile, &call, &self.attempt, &nominated, diagnosis)
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

/// The nominations that the queue knows, as they are for `pod`.
fn nominated_pods<'a>(queue: &'a Queue, table: &ClusterTable, pod: &Pod) -> NominatedPods<'a> {
    let by_node = queue.nominator().iter();
    NominatedPods::new(table, pod, by_node.flat_map(|(node, pods)| pods.iter().map(move |pod| (node, pod))))
}
