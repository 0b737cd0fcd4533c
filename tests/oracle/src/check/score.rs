//! Compares scores, on the nodes that the recorded scheduler found feasible. Nodes that only a missing plugin rejects
//! must not change the normalisation.

use std::collections::BTreeMap;

use berth_framework::{Point, run};
use berth_model::NodeSet;

use super::{CYCLE, Check};
use crate::{
    case::{NodeScores, Scores},
    findings::Findings,
};

impl Check<'_> {
    pub(super) fn score(&mut self, findings: &mut Findings) {
        let case = self.case;
        let Some(expected) = &case.expect.score else {
            findings.compare("acceptableNodes", &case.expect.acceptable_nodes, &Vec::new());
            return;
        };
        findings.compare("weights", &expected.weights, &self.subject.weights);
        self.attempt.set_feasible(self.nodes_called(&case.expect.feasible));
        let call = self.cluster.call(CYCLE, &self.pod);
        if let Err(status) = run::score(&mut self.subject.profile, &call, &mut self.attempt) {
            findings.compare("scoring", &expected.error, &Some(status.message()));
            findings.compare("cycleError", &case.expect.cycle_error, &Some(status.message()));
            return;
        }
        if !findings.compare("scoring", &expected.error, &None) {
            return;
        }
        self.skipped_scores(expected, findings);
        self.plugin_scores(expected, findings);
        self.leave_out_missing(expected, findings);
        let totals = self.totals(expected);
        for (node, total) in &totals {
            let expected = expected.nodes.get(node).map_or(0, |scores| scores.total);
            findings.compare(format!("total {node}"), &expected, total);
        }
        let best = best(&totals);
        findings.compare("best", &expected.best, &best);
        findings.compare("acceptableNodes", &case.expect.acceptable_nodes, &self.acceptable(best));
    }

    pub(super) fn nodes_called(&self, names: &[String]) -> NodeSet {
        names.iter().filter_map(|name| self.cluster.node(name)).collect()
    }

    /// Whether there is no Score plugin. The cycle of such a profile gives every node 1 and asks no plugin, while the
    /// record asks PreScore and has no sums.
    fn nobody_scores(&self) -> bool {
        self.subject.profile.plugins.at(Point::Score).is_empty()
    }

    fn skipped_scores(&self, expected: &Scores, findings: &mut Findings) {
        if self.nobody_scores() {
            return;
        }
        let mut got: Vec<String> =
            self.attempt.findings().skipped_scores().iter().map(|plugin| self.subject.name(plugin)).collect();
        got.sort_unstable();
        let mut expected: Vec<String> =
            expected.skipped.iter().filter(|plugin| !self.subject.lacks(plugin)).cloned().collect();
        expected.sort_unstable();
        findings.compare("skipped scores", &expected, &got);
    }

    /// Raw and normalised scores of each plugin on each node.
    fn plugin_scores(&self, expected: &Scores, findings: &mut Findings) {
        let mut got: BTreeMap<String, NodeScores> = BTreeMap::new();
        let nodes = self.attempt.findings().feasible().iter().map(|node| self.cluster.node_name(node).to_owned());
        let nodes: Vec<String> = nodes.collect();
        for scores in self.attempt.findings().plugin_scores() {
            let name = self.subject.name(scores.plugin);
            for ((node, raw), norm) in nodes.iter().zip(scores.raw()).zip(scores.normalized()) {
                let entry = got.entry(node.clone()).or_default();
                entry.raw.insert(name.clone(), raw);
                entry.norm.insert(name.clone(), norm);
            }
        }
        let ours = |scores: &BTreeMap<String, i64>| -> BTreeMap<String, i64> {
            let ours = scores.iter().filter(|(plugin, _)| !self.subject.lacks(plugin));
            ours.map(|(plugin, score)| (plugin.clone(), *score)).collect()
        };
        for (node, scores) in &expected.nodes {
            let got = got.remove(node).unwrap_or_default();
            findings.compare(format!("raw scores {node}"), &ours(&scores.raw), &got.raw);
            findings.compare(format!("normalised scores {node}"), &ours(&scores.norm), &got.norm);
        }
    }

    /// Leaves out missing plugins that gave some node more than zero.
    fn leave_out_missing(&self, expected: &Scores, findings: &mut Findings) {
        for plugin in expected.weights.keys().filter(|plugin| self.subject.lacks(plugin)) {
            if expected.nodes.values().any(|scores| scores.norm.get(plugin).is_some_and(|score| *score != 0)) {
                findings.leave_out(plugin);
            }
        }
    }

    /// Our totals plus the scores of missing plugins in the record.
    fn totals(&self, expected: &Scores) -> BTreeMap<String, i64> {
        let nodes = self.attempt.findings().feasible().iter().map(|node| self.cluster.node_name(node).to_owned());
        let missing = |node: &String| -> i64 {
            let norm = expected.nodes.get(node).into_iter().flat_map(|scores| &scores.norm);
            let missing = norm.filter(|(plugin, _)| self.subject.lacks(plugin));
            missing.map(|(plugin, score)| score * expected.weights.get(plugin).copied().unwrap_or(1)).sum()
        };
        nodes
            .zip(self.attempt.findings().totals())
            .map(|(node, total)| {
                let ours = if self.nobody_scores() { 0 } else { *total };
                (node.clone(), ours + missing(&node))
            })
            .collect()
    }

    /// If the pod is nominated to a node, that node is tried first. Otherwise each of the best nodes is acceptable.
    fn acceptable(&self, best: Vec<String>) -> Vec<String> {
        let nominated = &self.case.pod.status.nominated_node_name;
        if self.case.expect.feasible.contains(nominated) { vec![nominated.clone()] } else { best }
    }
}

fn best(totals: &BTreeMap<String, i64>) -> Vec<String> {
    let highest = totals.values().max();
    totals.iter().filter(|(_, total)| Some(*total) == highest).map(|(node, _)| node.clone()).collect()
}
