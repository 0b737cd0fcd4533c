//! All answers of a profile's plugins about one pod, as text that can be compared.
//!
//! Plugins are asked one by one at each point, about all nodes, and then together, as in the scheduler. Answers name
//! nodes and pods and never rows, so that answers about two caches with the same objects can be compared.

use std::{collections::BTreeMap, sync::Arc};

use berth_framework::{
    Call, DryRunCase, Effect, PluginIdx, Point, Profile, Status,
    run::{
        self, Attempt, Decision, Diagnosis, Findings, NoNode, NodeSearch, NominatedPods, PreFilterOutcome, Rejection,
    },
};
use berth_model::{NodeIdx, NodeSet, Pod, PodIdx};
use berth_testing::TestCluster;

use crate::generate::random::Random;

/// Every answer, by point, plugin and node.
pub type Answers = BTreeMap<String, String>;

/// The result for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    RejectedBeforeNodes,
    RejectedByNodes,
    /// No node fits, and pods are evicted.
    Preempts,
    Broken,
    OnlyNode,
    Scored,
}

/// A profile that is asked about one pod.
#[derive(Debug)]
pub struct ProfileRun<'a> {
    pub profile: &'a mut Profile,
    pub cluster: &'a TestCluster,
    pub pod: &'a Pod,
    /// The order in which nodes are visited.
    pub order: &'a [NodeIdx],
    /// The seed for the first nodes, and for the pods that dry runs remove.
    pub seed: u64,
    /// A new cycle number. The next number is used as well.
    pub cycle: u64,
}

fn show(status: &Status) -> String {
    format!("{} {:?}", status.code.as_str(), status.reasons)
}

fn show_effects(effects: &[Effect]) -> String {
    effects.iter().map(show_effect).collect::<Vec<_>>().join("\n")
}

fn show_effect(effect: &Effect) -> String {
    match effect {
        Effect::Patch { kind, namespace, name, subresource, patch, patch_type } => {
            let patch = String::from_utf8_lossy(patch);
            format!("patch {kind} {namespace}/{name} {subresource:?} {patch_type:?} {patch}")
        }
        Effect::Create { kind, namespace, body } => {
            format!("create {kind} in {namespace} {}", String::from_utf8_lossy(body))
        }
        other => format!("{other:?}"),
    }
}

impl ProfileRun<'_> {
    /// All answers, and the pod's node. The replicas must have been synced.
    pub fn answers(&mut self) -> (Answers, Outcome) {
        let mut answers = Answers::new();
        self.pre_enqueue(&mut answers);
        self.one_by_one(&mut answers);
        let outcome = self.together(&mut answers);
        (answers, outcome)
    }

    fn name(&self, plugin: PluginIdx) -> Arc<str> {
        Arc::clone(self.profile.name(plugin))
    }

    fn names(&self, nodes: &NodeSet) -> Vec<String> {
        let mut names: Vec<String> = nodes.iter().map(|node| self.cluster.node_name(node).to_owned()).collect();
        names.sort_unstable();
        names
    }

    fn pre_enqueue(&mut self, answers: &mut Answers) {
        for plugin in self.profile.plugins.at(Point::PreEnqueue).to_vec() {
            let point = self.profile.get(plugin).and_then(|plugin| plugin.pre_enqueue());
            let Some(status) = point.map(|point| point.pre_enqueue(self.pod, self.cluster.cache().table())) else {
                continue;
            };
            answers.insert(format!("preEnqueue {}", self.name(plugin)), show(&status));
        }
        for plugin in self.profile.plugins.at(Point::QueueSort).to_vec() {
            let point = self.profile.get(plugin).and_then(|plugin| plugin.queue_sort());
            let key = point.map(|point| point.sort_key(self.pod, 1_700_000_000_123));
            answers.insert(format!("queueSort {}", self.name(plugin)), format!("{key:?}"));
        }
    }

    /// PreFilter until a plugin rejects the pod; each Filter on all nodes, on its own; and dry runs.
    fn one_by_one(&mut self, answers: &mut Answers) {
        let call = self.cluster.call(self.cycle, self.pod);
        let mut attempt = Attempt::default();
        let outcome = run::pre_filter(self.profile, &call, &mut attempt);
        for answer in attempt.findings().pre_filters() {
            let mut nodes = answer.nodes.clone();
            nodes.iter_mut().for_each(|nodes| nodes.sort_unstable());
            let shown = format!("{} {nodes:?}", show(&answer.status));
            answers.insert(format!("preFilter {}", self.name(answer.plugin)), shown);
        }
        answers.insert("preFilter".to_owned(), format!("{outcome:?}"));
        if matches!(outcome, Ok(PreFilterOutcome::Proceed)) {
            self.filters(&call, attempt.findings(), answers);
            self.dry_runs(&call, attempt.findings(), answers);
        }
        self.profile.end_cycle(call.cycle);
    }

    fn filters(&mut self, call: &Call<'_>, findings: &Findings, answers: &mut Answers) {
        let rejections = run::diagnose_every_plugin(self.profile, call, call.table.nodes(), findings);
        for Rejection { plugin, status, nodes } in rejections {
            for node in self.names(&nodes) {
                answers.insert(format!("filter {} {node}", self.name(plugin)), show(&status));
            }
        }
    }

    /// A few nodes without some of their pods, and with nominated pods.
    fn dry_runs(&mut self, call: &Call<'_>, findings: &Findings, answers: &mut Answers) {
        let mut random = Random::new(self.seed);
        let nominated = self.cluster.nominated_pods(self.pod);
        let mut pods = nominated.competing().to_vec();
        let mut cases = Vec::new();
        let mut slots: Vec<(PodIdx, NodeIdx)> = call.table.pods().iter().map(|(idx, _, node)| (idx, node)).collect();
        slots.sort_unstable_by_key(|(idx, _)| *idx);
        // The choice depends on names, because rows differ between caches.
        let mut nodes: Vec<NodeIdx> = call.table.nodes().iter().collect();
        nodes.sort_unstable_by_key(|node| self.cluster.node_name(*node));
        nodes.retain(|_| random.chance(60));
        for node in nodes {
            let mut on_node: Vec<&Pod> = slots
                .iter()
                .filter(|(_, home)| *home == node)
                .filter_map(|(idx, _)| call.table.pods().get(*idx))
                .map(|(pod, _)| &**pod)
                .collect();
            on_node.sort_unstable_by_key(|pod| pod.uid.clone());
            let mut minus = Vec::new();
            on_node.retain(|_| random.chance(60));
            for pod in on_node {
                minus.push(u32::try_from(pods.len()).unwrap_or(u32::MAX));
                pods.push(pod);
            }
            let with_nominated = nominated.cases().iter().find(|case| case.node == node);
            let plus = with_nominated.map(|case| case.plus.clone()).unwrap_or_default();
            cases.push(DryRunCase { node, minus, plus });
        }
        for plugin in self.profile.plugins.at(Point::Filter).to_vec() {
            if findings.skipped_filters().contains(plugin) || cases.is_empty() {
                continue;
            }
            let name = self.name(plugin);
            let Some(point) = self.profile.get(plugin).and_then(|plugin| plugin.filter()) else { continue };
            // Earlier questions must make no difference, so the pods are asked about in another order, and only some of
            // them.
            let reversed: Vec<&Pod> = pods.iter().rev().copied().collect();
            let (some, _) = cases.split_at(cases.len() / 2);
            let n_named = some.iter().flat_map(|case| case.minus.iter().chain(&case.plus)).max();
            let named = pods.iter().copied().take(n_named.map_or(0, |last| *last as usize + 1)).collect::<Vec<_>>();
            let before = [point.dry_run(call, &reversed, &cases), point.dry_run(call, &named, some)];
            answers.insert(format!("dryRun {name}, before"), format!("{before:?}"));
            match point.dry_run(call, &pods, &cases) {
                Ok(statuses) => {
                    for (case, status) in cases.iter().zip(&statuses) {
                        answers.insert(format!("dryRun {name} {}", self.cluster.node_name(case.node)), show(status));
                    }
                }
                Err(status) => drop(answers.insert(format!("dryRun {name}"), show(&status))),
            }
        }
    }

    /// The cycle as in the scheduler.
    fn together(&mut self, answers: &mut Answers) -> Outcome {
        let call = self.cluster.call(self.cycle + 1, self.pod);
        let mut attempt = Attempt::default();
        let nominated = &self.cluster.nominated_pods(self.pod);
        let start = usize::try_from(self.seed % 64).unwrap_or(0);
        let search = NodeSearch {
            order: self.order,
            start,
            percentage_of_nodes_to_score: 100,
            nominated,
            hint: None,
            extenders: None,
        };
        let Decision { outcome, findings } = run::place(self.profile, &call, &search, None, &mut attempt);
        let outcome = match outcome {
            Ok(node) => {
                answers.insert("chosen".to_owned(), self.cluster.node_name(node).to_owned());
                self.scores(&findings, answers);
                let others = findings.feasible_order().iter().filter(|other| **other != node).take(2);
                for node in others.copied().chain([node]).collect::<Vec<_>>() {
                    self.binding(&call, node, answers);
                }
                if findings.feasible_order().len() > 1 { Outcome::Scored } else { Outcome::OnlyNode }
            }
            Err(NoNode::EmptyCluster) => Outcome::RejectedBeforeNodes,
            Err(NoNode::Broken(status)) => {
                answers.insert("broken".to_owned(), show(&status));
                Outcome::Broken
            }
            Err(NoNode::Rejected(diagnosis)) => self.post_filter(&call, &findings, nominated, *diagnosis, answers),
        };
        self.profile.end_cycle(call.cycle);
        outcome
    }

    fn scores(&self, findings: &Findings, answers: &mut Answers) {
        let order: Vec<&str> = findings.feasible_order().iter().map(|node| self.cluster.node_name(*node)).collect();
        answers.insert("feasible".to_owned(), format!("{order:?}"));
        let skipped: Vec<Arc<str>> = findings.skipped_scores().iter().map(|plugin| self.name(plugin)).collect();
        answers.insert("skipped scores".to_owned(), format!("{skipped:?}"));
        for (node, total) in findings.feasible().iter().zip(findings.totals()) {
            answers.insert(format!("total {}", self.cluster.node_name(node)), total.to_string());
        }
        for scores in findings.plugin_scores() {
            let both = scores.raw().zip(scores.normalized());
            for (node, (raw, normalized)) in findings.feasible().iter().zip(both) {
                let what = format!("score {} {}", self.name(scores.plugin), self.cluster.node_name(node));
                answers.insert(what, format!("{raw} {normalized}"));
            }
        }
    }

    /// Reserve, PreBind and Bind on one node, followed by Unreserve.
    fn binding(&mut self, call: &Call<'_>, node: NodeIdx, answers: &mut Answers) {
        let name = self.cluster.node_name(node);
        let reserved = run::reserve(self.profile, call, node);
        if let Err(refusal) = &reserved {
            answers
                .insert(format!("reserve {name}"), format!("{} {}", self.name(refusal.plugin), show(&refusal.status)));
        } else {
            for plugin in self.profile.plugins.at(Point::PreBind).to_vec() {
                let point = self.profile.get(plugin).and_then(|plugin| plugin.pre_bind_pre_flight());
                if let Some(point) = point {
                    let answer = point.pre_bind_pre_flight(call, node);
                    let answer = answer.map_or_else(|status| show(&status), |flight| format!("{flight:?}"));
                    answers.insert(format!("preBindPreFlight {} {name}", self.name(plugin)), answer);
                }
                let point = self.profile.get(plugin).and_then(|plugin| plugin.pre_bind());
                let Some(answer) = point.map(|point| point.pre_bind(call, node)) else { continue };
                let answer = answer.map_or_else(|status| show(&status), |effects| show_effects(&effects));
                answers.insert(format!("preBind {} {name}", self.name(plugin)), answer);
            }
            answers.insert(format!("bind {name}"), format!("{:?}", run::bind(self.profile, call, node)));
        }
        let effects = run::unreserve(self.profile, call, node);
        let effects: Vec<Effect> = effects.into_iter().map(|(_, effect)| effect).collect();
        answers.insert(format!("unreserve {name}"), show_effects(&effects));
    }

    fn post_filter(
        &mut self,
        call: &Call<'_>,
        findings: &Findings,
        nominated: &NominatedPods<'_>,
        mut diagnosis: Diagnosis,
        answers: &mut Answers,
    ) -> Outcome {
        let before_nodes = diagnosis.pre_filter.is_some();
        run::post_filter(self.profile, call, findings, nominated, None, &mut diagnosis);
        let run = &diagnosis.post_filter;
        answers.insert("message".to_owned(), diagnosis.message());
        let rejectors: Vec<Arc<str>> = diagnosis.rejectors.iter().map(|plugin| self.name(plugin)).collect();
        let pending: Vec<Arc<str>> = diagnosis.pending.iter().map(|plugin| self.name(plugin)).collect();
        answers.insert("rejectors".to_owned(), format!("{rejectors:?} {pending:?}"));
        answers.insert("postFilter".to_owned(), run.status.as_ref().map(show).unwrap_or_default());
        let nominated = run.nominate.map(|node| node.map(|node| self.cluster.node_name(node)));
        answers.insert("nominated".to_owned(), format!("{nominated:?}"));
        let effects: Vec<Effect> = run.effects.iter().map(|(_, effect)| effect.clone()).collect();
        answers.insert("postFilter effects".to_owned(), show_effects(&effects));
        if nominated.flatten().is_some() {
            Outcome::Preempts
        } else if before_nodes {
            Outcome::RejectedBeforeNodes
        } else {
            Outcome::RejectedByNodes
        }
    }
}

/// The differences, one per line.
#[must_use]
pub fn differences(left: (&str, &Answers), right: (&str, &Answers)) -> Vec<String> {
    let keys: std::collections::BTreeSet<&String> = left.1.keys().chain(right.1.keys()).collect();
    let differ = keys.into_iter().filter(|key| left.1.get(*key) != right.1.get(*key));
    let text = |answers: &Answers, key: &String| answers.get(key).cloned().unwrap_or_else(|| "nothing".to_owned());
    differ
        .map(|key| format!("{key}:\n  {}: {}\n  {}: {}", left.0, text(left.1, key), right.0, text(right.1, key)))
        .collect()
}
