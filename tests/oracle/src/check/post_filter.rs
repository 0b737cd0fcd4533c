//! Compares PostFilter: whether the pod may preempt, the victims on each node, the chosen node, and the message.
//!
//! A node is examined alone: the plugins get the answer that no other node can be helped. The victims can then be read
//! from the plugin's effects, and a component can be asked in the same way. The number of budgets that a candidate
//! violates is not visible directly, but the plugin's preference between two candidates shows it.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow};
use berth_framework::{
    Code, Effect, PluginIdx, Removal, Status,
    run::{self, Diagnosis, NoNode, NodeSearch, PostFilterRun, Rejection},
};
use berth_model::{NodeSet, PluginName};

use super::{CYCLE, Check, show, show_status};
use crate::{
    case::{Outcome, PostFilter, Verdict},
    findings::Findings,
};

const PREEMPTION: &str = "DefaultPreemption";
const CLAIMS: &str = "DynamicResources";
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

impl Check<'_> {
    pub(super) fn post_filter(&mut self, findings: &mut Findings) {
        let case = self.case;
        let Some(expected) = &case.expect.postfilter else { return };
        if let Some(plugin) = self.missing_filter() {
            findings.leave_out(&plugin);
            return;
        }
        let diagnosis = match self.place() {
            Ok(diagnosis) => diagnosis,
            Err(error) => return findings.differ("postfilter", "a pod that fits nowhere", error.to_string()),
        };
        self.dry_run_potential_nodes(expected);
        self.whole_phase(expected, diagnosis.clone(), findings);
        if self.subject.profile.find(PREEMPTION).is_none() {
            return;
        }
        self.eligibility(expected, &diagnosis, findings);
        if !expected.eligible {
            return;
        }
        for candidate in &expected.candidates {
            let victims: Vec<String> =
                candidate.victims.iter().filter(|victim| !self.is_leaving(victim)).cloned().collect();
            let got = self.ask(&[&candidate.node]);
            findings.compare(format!("victims on {}", candidate.node), &victims, &evicted(&got));
            findings.compare(
                format!("candidate {}", candidate.node),
                &Some(candidate.node.clone()),
                &self.choice(&got),
            );
        }
        for (node, verdict) in &expected.rejected {
            self.rejected_node(node, verdict, findings);
        }
        self.ranking(expected, findings);
    }

    /// The recorder made dry runs before PostFilter, so that the data that a Filter plugin records in dry runs was
    /// known.
    fn dry_run_potential_nodes(&mut self, expected: &PostFilter) {
        let victims_are_known = |verdict: &Verdict| verdict.reasons != [NO_VICTIMS];
        let rejected = expected.rejected.iter().filter(|(_, verdict)| victims_are_known(verdict)).map(|(node, _)| node);
        for node in expected.candidates.iter().map(|candidate| &candidate.node).chain(rejected) {
            // The result of a dry run is compared later.
            let _ = self.without_lesser_pods(node);
        }
    }

    /// A missing plugin with an answer about this pod.
    fn missing_filter(&self) -> Option<PluginName> {
        let plugins = self.case.expect.prefilter.as_ref().map(|prefilter| &prefilter.plugins);
        let skips = |name: &str| plugins.and_then(|it| it.get(name)).is_some_and(|verdict| verdict.code == "Skip");
        let speaks = |name: &&PluginName| **name == PREEMPTION || self.subject.has_filter(name) && !skips(name);
        self.subject.missing().find(speaks).cloned()
    }

    /// The scheduling cycle as in the scheduler. If the pod is not rejected, the error names its node.
    fn place(&mut self) -> Result<Diagnosis> {
        let nominated = self.cluster.nominated_pods(&self.pod);
        let order = self.cluster.cache().order();
        let nominated = &nominated;
        let search =
            NodeSearch { order, start: 0, percentage_of_nodes_to_score: 100, nominated, hint: None, extenders: None };
        let call = self.cluster.call(CYCLE, &self.pod);
        let decision = run::place(&mut self.subject.profile, &call, &search, None, &mut self.attempt);
        let outcome = decision.outcome.clone();
        self.attempt.recycle(decision);
        match outcome {
            Err(NoNode::Rejected(diagnosis)) => Ok(*diagnosis),
            Err(NoNode::EmptyCluster) => Err(anyhow!("no nodes")),
            Err(NoNode::Broken(status)) => Err(anyhow!(show_status("", &status))),
            Ok(node) => Err(anyhow!("node {}", self.cluster.node_name(node))),
        }
    }

    fn ask_plugins(&mut self, mut diagnosis: Diagnosis) -> Diagnosis {
        let nominated = self.cluster.nominated_pods(&self.pod);
        run::post_filter(
            &mut self.subject.profile,
            &self.cluster.call(CYCLE, &self.pod),
            self.attempt.findings(),
            &nominated,
            None,
            &mut diagnosis,
        );
        diagnosis
    }

    fn whole_phase(&mut self, expected: &PostFilter, diagnosis: Diagnosis, findings: &mut Findings) {
        let diagnosis = self.ask_plugins(diagnosis);
        let run = &diagnosis.post_filter;
        let (outcome, message) = if self.subject.lacks(CLAIMS) {
            let Some(without) = &expected.without_claims else {
                return findings.leave_out(CLAIMS);
            };
            (&without.outcome, &without.condition_message)
        } else {
            (&expected.outcome, &self.case.expect.condition_message)
        };
        let message = message.as_deref().map(with_sorted_errors);
        findings.compare("conditionMessage", &message, &Some(with_sorted_errors(&diagnosis.message())));
        let shown = run.status.as_ref().map(|status| show_status("", status)).unwrap_or_default();
        let expected_shown = show(&outcome.code, "", &outcome.reasons);
        findings.compare("postfilter", &with_sorted_errors(&expected_shown), &with_sorted_errors(&shown));
        self.claims_after(expected, run, findings);
        self.nomination(outcome, expected, run, findings);
    }

    fn nomination(&self, outcome: &Outcome, expected: &PostFilter, run: &PostFilterRun, findings: &mut Findings) {
        let got = match run.nominate {
            None => None,
            Some(None) => Some(String::new()),
            Some(Some(_)) => self.choice(run),
        };
        let is_any = outcome.nominated_node_name.as_deref() == Some("<one of best>");
        if is_any && got.as_ref().is_some_and(|node| expected.best.contains(node)) {
            findings.compare("nominatedNodeName", &got, &got);
        } else {
            findings.compare("nominatedNodeName", &outcome.nominated_node_name, &got);
        }
    }

    fn eligibility(&mut self, expected: &PostFilter, diagnosis: &Diagnosis, findings: &mut Findings) {
        let run = self.ask_plugins(diagnosis.clone()).post_filter;
        let reasons = run.status.map(|status| status.reasons).unwrap_or_default();
        let why_not = reasons.iter().find_map(|it| it.strip_prefix("preemption: ").filter(|it| it.starts_with("not ")));
        findings.compare("notEligibleReason", &expected.not_eligible_reason.as_deref(), &why_not);
        if expected.eligible {
            let potential: Vec<String> = self.potential_nodes(diagnosis);
            let mut expected_potential = expected.potential_nodes.clone();
            expected_potential.sort_unstable();
            findings.compare("potentialNodes", &expected_potential, &potential);
        }
    }

    fn potential_nodes(&self, diagnosis: &Diagnosis) -> Vec<String> {
        let mut absent = self.cluster.table().nodes().clone();
        let mut potential = NodeSet::default();
        for Rejection { status, nodes, .. } in &diagnosis.rejections {
            absent.subtract(nodes);
            if status.code == Code::Unschedulable {
                potential.union(nodes);
            }
        }
        if diagnosis.absent.as_ref().is_some_and(|status| status.code == Code::Unschedulable) {
            potential.union(&absent);
        }
        self.node_names(&potential)
    }

    /// Calls PostFilter with preemption allowed only on these nodes.
    fn ask(&mut self, nodes: &[&str]) -> PostFilterRun {
        let names: Vec<String> = nodes.iter().map(|&node| node.to_owned()).collect();
        let rejection = Rejection {
            plugin: PluginIdx::NOBODY,
            status: Status::unschedulable("asked about"),
            nodes: self.nodes_called(&names),
        };
        let diagnosis = Diagnosis {
            n_all_nodes: self.cluster.table().n_nodes(),
            rejections: vec![rejection],
            absent: Some(Status::unresolvable("not asked about")),
            ..Diagnosis::default()
        };
        self.ask_plugins(diagnosis).post_filter
    }

    fn rejected_node(&mut self, node: &str, verdict: &Verdict, findings: &mut Findings) {
        let run = self.ask(&[node]);
        let got = run.status.and_then(|status| status.reasons.last().cloned()).unwrap_or_default();
        let expected = if verdict.code == "Error" {
            format!("preemption: {}", verdict.reasons.join(", "))
        } else {
            let n_nodes = self.cluster.table().n_nodes();
            let status = Status::new(Code::Unschedulable, verdict.reasons.clone());
            let others = Status::unresolvable(NOT_HELPFUL);
            let text = run::histogram([(&status, 1), (&others, n_nodes - 1)]);
            format!("preemption: 0/{n_nodes} nodes are available: {text}.")
        };
        findings.compare(format!("no candidate {node}"), &expected, &got);
        if verdict.reasons != [NO_VICTIMS] {
            let got = self.without_lesser_pods(node).unwrap_or_else(|status| show_status("error", &status));
            findings.compare(format!("dry run {node}"), &show(&verdict.code, "", &verdict.reasons), &got);
        }
    }

    /// The answer of the filters about a node without all pods of lower priority.
    fn without_lesser_pods(&mut self, node: &str) -> std::result::Result<String, Status> {
        let nodes = self.nodes_called(&[node.to_owned()]);
        let nominated = self.cluster.nominated_pods(&self.pod);
        let call = self.cluster.call(CYCLE, &self.pod);
        let lesser = |node| call.table.pods().on(node).filter(|(_, pod)| pod.priority < call.pod.priority);
        let removals: Vec<Removal> =
            nodes.iter().map(|node| Removal { node, pods: lesser(node).map(|(idx, _)| idx).collect() }).collect();
        let statuses = run::dry_run(&mut self.subject.profile, &call, self.attempt.findings(), &nominated, &removals)?;
        Ok(statuses.iter().map(|status| show_status("", status)).collect())
    }

    /// Each of the best candidates wins if the other best candidates are excluded, and wins against each worse
    /// candidate alone. The better of two candidates violates fewer budgets.
    fn ranking(&mut self, expected: &PostFilter, findings: &mut Findings) {
        let best: BTreeSet<&str> = expected.best.iter().map(String::as_str).collect();
        let rest: Vec<&str> =
            expected.candidates.iter().map(|it| it.node.as_str()).filter(|node| !best.contains(node)).collect();
        for &winner in &best {
            let field: Vec<&str> = rest.iter().copied().chain([winner]).collect();
            self.compare_winner(&field, winner, findings);
        }
        if let Some(&winner) = best.first() {
            rest.iter().for_each(|loser| self.compare_winner(&[loser, winner], winner, findings));
        }
        let mut by_violations: Vec<_> = expected.candidates.iter().collect();
        by_violations.sort_by_key(|candidate| candidate.pdb_violations);
        for pair in by_violations.windows(2) {
            if let [fewer, more] = pair
                && fewer.pdb_violations < more.pdb_violations
            {
                self.compare_winner(&[&more.node, &fewer.node], &fewer.node, findings);
            }
        }
    }

    fn compare_winner(&mut self, field: &[&str], winner: &str, findings: &mut Findings) {
        let run = self.ask(field);
        findings.compare(format!("best of {field:?}"), &Some(winner.to_owned()), &self.choice(&run));
    }

    fn choice(&self, run: &PostFilterRun) -> Option<String> {
        run.nominate?.map(|node| self.cluster.node_name(node).to_owned())
    }

    /// Whether a victim, `namespace/name`, is already being deleted, so that it is not evicted.
    pub(super) fn is_leaving(&self, victim: &str) -> bool {
        let is_it =
            |metadata: &berth_model::api::ObjectMeta| format!("{}/{}", metadata.namespace, metadata.name) == victim;
        let pod = self.case.objects.pods.iter().find(|pod| is_it(&pod.metadata));
        pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_some())
    }
}

fn evicted(run: &PostFilterRun) -> Vec<String> {
    let victim = |(_, effect): &(PluginIdx, Effect)| match effect {
        Effect::Evict { namespace, name, .. } => Some(format!("{namespace}/{name}")),
        _ => None,
    };
    run.effects.iter().filter_map(victim).collect()
}

/// Errors about nodes in a list are in the order in which the recorder's threads found them.
fn with_sorted_errors(text: &str) -> String {
    let Some((before, errors)) = text.split_once("preemption: [running ") else { return text.to_owned() };
    let Some((errors, after)) = errors.rsplit_once(']') else { return text.to_owned() };
    let mut errors: Vec<&str> = errors.split(", running ").collect();
    errors.sort_unstable();
    format!("{before}preemption: [running {}]{after}", errors.join(", running "))
}
