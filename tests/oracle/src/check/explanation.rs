//! Compares the results of `berth explain` about a pod: every plugin's verdict on every node, its counts, the scores,
//! and the result of a preemption.

use std::collections::{BTreeMap, BTreeSet};

use berth_explain::{Analysis, CYCLES, Question, RankedNode, analyze};
use berth_model::NodeIdx;

use super::{Check, show, show_status};
use crate::{
    case::{NodeVerdict, PreFilter, Scores, Verdict},
    findings::Findings,
};

/// The maximum number of nodes of a cluster that are asked about by name. Counts are of all nodes.
const MAX_ASKED: usize = 32;

/// Verdicts on a node by plugin, as `code | message`.
type Verdicts = BTreeMap<String, String>;

impl Check<'_> {
    /// A gated pod is skipped, because the queue knows which plugin holds the pod.
    pub(super) fn explanation(&mut self, findings: &mut Findings) {
        if let Err(refusal) = self.subject.profile.sync(self.cluster.cache()) {
            let got = show_status(&self.subject.name(refusal.plugin), &refusal.status);
            return findings.differ("sync", "Success", got);
        }
        let expected = &self.case.expect;
        if expected.gated || !expected.pre_enqueue.is_empty() {
            return;
        }
        if let Some(plugin) = self.subject.missing().next() {
            return findings.leave_out(plugin);
        }
        let analysis = self.analyze(None);
        // The record contains scores even if only one node fits; the scheduling cycle does not.
        let breaks_in_scoring = expected.score.as_ref().is_some_and(|score| score.error.is_some());
        if !breaks_in_scoring || expected.feasible.len() > 1 {
            findings.compare("error", &expected.cycle_error, &analysis.error);
        }
        if analysis.error.is_some() {
            return;
        }
        let Some(pre_filter) = &expected.prefilter else { return };
        if pre_filter.result.code != "Success" {
            return rejected_pod(pre_filter, &analysis, findings);
        }
        findings.compare("rejection of the pod", &None, &analysis.pod_rejected);
        let Some(verdicts) = &expected.filter else { return };
        let restricting = restricting(pre_filter);
        let by_node: BTreeMap<&String, Verdicts> =
            verdicts.iter().map(|(node, verdict)| (node, self.refusals_at(node, verdict, &restricting))).collect();
        counts(&by_node, verdicts, expected.feasible.len(), &analysis, findings);
        let stride = by_node.len() / MAX_ASKED + 1;
        for (name, refusals) in by_node.into_iter().step_by(stride) {
            let node = self.cluster.node(name);
            let report = self.analyze(node).node.unwrap_or_default();
            let got: Verdicts = report
                .reasons
                .iter()
                .map(|reason| (reason.plugin.clone(), show(&reason.code, "", std::slice::from_ref(&reason.message))))
                .collect();
            findings.compare(format!("refusals of {name}"), &refusals, &got);
            if expected.feasible.len() > 1
                && let Some(scores) = expected.score.as_ref().filter(|_| expected.feasible.contains(name))
            {
                compare_scores(name, scores, report.scores.as_ref(), findings);
            }
        }
        self.winner(&analysis, findings);
        self.preemption(&analysis, findings);
    }

    fn analyze(&mut self, node: Option<NodeIdx>) -> Analysis {
        let nominated = self.cluster.nominated_pods(&self.pod);
        self.cycle += CYCLES;
        let question = Question { order: self.cluster.cache().order(), nominated: &nominated, node, chosen: None };
        analyze(&mut self.subject.profile, &self.cluster.call(self.cycle, &self.pod), &question)
    }

    /// The answers about one node: the answers of the plugins whose PreFilter left the node out, or the answers of each
    /// Filter plugin.
    fn refusals_at(&self, name: &str, verdict: &NodeVerdict, restricting: &BTreeMap<&String, &Verdict>) -> Verdicts {
        let of_code =
            |(plugin, it): (&String, &Verdict)| (plugin.clone(), show(&it.code, "", &[it.reasons.join(", ")]));
        let is_left_out = restricting.values().any(|it| !it.nodes.iter().any(|node| node == name));
        if !is_left_out {
            return verdict.failing.iter().map(of_code).collect();
        }
        let left_out = |plugin: &&String| {
            let text = format!("node(s) didn't satisfy plugin(s) [{plugin}]");
            ((*plugin).clone(), show("UnschedulableAndUnresolvable", "", &[text]))
        };
        restricting.keys().map(left_out).collect()
    }

    fn winner(&self, analysis: &Analysis, findings: &mut Findings) {
        let expected = &self.case.expect;
        let best = if expected.feasible.len() > 1 {
            expected.score.as_ref().map(|scores| &scores.best)
        } else {
            Some(&expected.feasible)
        };
        let Some(best) = best.filter(|best| !best.is_empty()) else { return };
        let first = analysis.best.first().map(|node| node.node.to_string());
        let is_one = first.as_ref().is_some_and(|first| best.contains(first));
        findings.compare(
            "best",
            &format!("one of {best:?}"),
            &match first {
                Some(_) if is_one => format!("one of {best:?}"),
                other => format!("{other:?}"),
            },
        );
    }

    fn preemption(&self, analysis: &Analysis, findings: &mut Findings) {
        let Some(expected) = &self.case.expect.postfilter else { return };
        let Some(got) = &analysis.preemption else {
            return findings.differ("preemption", "an answer", "none");
        };
        if expected.outcome.nominated_node_name.as_deref() != Some("<one of best>") {
            let node = expected.outcome.nominated_node_name.as_ref().filter(|node| !node.is_empty());
            findings.compare("preemption", &node, &got.node.as_ref());
            return;
        }
        let candidate = expected
            .candidates
            .iter()
            .find(|candidate| expected.best.contains(&candidate.node) && Some(&candidate.node) == got.node.as_ref());
        let Some(candidate) = candidate else {
            return findings.differ("preemption", format!("one of {:?}", expected.best), format!("{:?}", got.node));
        };
        let n_victims = candidate.victims.iter().filter(|victim| !self.is_leaving(victim)).count();
        findings.compare("victims", &n_victims, &got.victims);
    }
}

fn rejected_pod(expected: &PreFilter, analysis: &Analysis, findings: &mut Findings) {
    let result = &expected.result;
    let Some(got) = &analysis.pod_rejected else {
        return findings.differ("rejection of the pod", &result.code, "none");
    };
    let plugin = got.plugins.first().cloned().unwrap_or_default();
    findings.compare(
        "rejection of the pod",
        &show(&result.code, &result.plugin, &[result.reasons.join(", ")]),
        &show(&got.code, &plugin, std::slice::from_ref(&got.message)),
    );
}

/// PreFilter plugins that name the nodes on which the pod may run.
fn restricting(pre_filter: &PreFilter) -> BTreeMap<&String, &Verdict> {
    pre_filter.plugins.iter().filter(|(_, verdict)| verdict.has_node_set).collect()
}

fn counts(
    by_node: &BTreeMap<&String, Verdicts>,
    verdicts: &BTreeMap<String, NodeVerdict>,
    n_feasible: usize,
    analysis: &Analysis,
    findings: &mut Findings,
) {
    findings.compare("nodes", &by_node.len(), &analysis.nodes);
    findings.compare("feasible", &n_feasible, &analysis.feasible);
    let is_reserved = |(name, refusals): &(&&String, &Verdicts)| {
        refusals.is_empty() && verdicts.get(**name).is_some_and(|verdict| verdict.code != "Success")
    };
    findings.compare("reserved", &by_node.iter().filter(is_reserved).count(), &analysis.reserved_for_nominated);
    let mut of_plugins: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut of_sets: BTreeMap<BTreeSet<&str>, usize> = BTreeMap::new();
    for refusals in by_node.values().filter(|refusals| !refusals.is_empty()) {
        for plugin in refusals.keys() {
            let (rejected, alone) = of_plugins.entry(plugin).or_default();
            *rejected += 1;
            *alone += usize::from(refusals.len() == 1);
        }
        *of_sets.entry(refusals.keys().map(String::as_str).collect()).or_default() += 1;
    }
    let got = analysis.plugins.iter().map(|it| (it.plugin.as_str(), (it.rejected, it.alone))).collect();
    findings.compare("refusals by plugin", &of_plugins, &got);
    let set = |it: &'_ berth_explain::Combination| -> BTreeSet<String> { it.plugins.iter().cloned().collect() };
    let got: BTreeMap<BTreeSet<String>, usize> = analysis.combinations.iter().map(|it| (set(it), it.nodes)).collect();
    let of_sets: BTreeMap<BTreeSet<String>, usize> =
        of_sets.into_iter().map(|(plugins, n)| (plugins.into_iter().map(str::to_owned).collect(), n)).collect();
    findings.compare("refusals by combination", &of_sets, &got);
}

fn compare_scores(name: &str, expected: &Scores, got: Option<&RankedNode>, findings: &mut Findings) {
    let Some(expected_here) = expected.nodes.get(name) else { return };
    let Some(got) = got else { return findings.differ(format!("scores of {name}"), "scores", "none") };
    // Without a Score plugin, the cycle gives every node 1, while the record has no sums.
    if expected.weights.is_empty() {
        return;
    }
    let of = |score: fn(&berth_explain::PluginScore) -> i64| -> BTreeMap<String, i64> {
        got.scores.iter().map(|it| (it.plugin.to_string(), score(it))).collect()
    };
    findings.compare(format!("raw scores of {name}"), &expected_here.raw, &of(|it| it.raw));
    findings.compare(format!("normalised scores of {name}"), &expected_here.norm, &of(|it| it.normalized));
    let weighted = expected_here
        .norm
        .iter()
        .map(|(plugin, norm)| (plugin.clone(), norm * expected.weights.get(plugin).copied().unwrap_or(1)));
    findings.compare(format!("weighted scores of {name}"), &weighted.collect(), &of(|it| it.weighted));
    findings.compare(format!("total of {name}"), &Some(expected_here.total), &got.total);
}
