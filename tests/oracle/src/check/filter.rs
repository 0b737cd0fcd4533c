//! Compares Filter: the verdict on every node, of each plugin on its own, the feasible nodes and the message.

use std::collections::{BTreeMap, BTreeSet};

use berth_framework::{
    Status,
    run::{self, Diagnosis, Rejection, SearchRange},
};

use super::{CYCLE, Check, show, show_status};
use crate::{
    case::{NodeVerdict, Verdict},
    findings::Findings,
};

type ByNode<T> = BTreeMap<String, T>;

impl Check<'_> {
    pub(super) fn filter(&mut self, findings: &mut Findings) {
        let case = self.case;
        let Some(expected) = &case.expect.filter else {
            findings.differ("filter", "nothing recorded", "a pod that PreFilter let through");
            return;
        };
        match self.verdicts() {
            Ok(got) => expected.iter().for_each(|(node, verdict)| self.verdict(node, verdict, &got, findings)),
            Err(status) => findings.differ("filter", "verdicts", show_status("", &status)),
        }
        let got = self.failing();
        expected.iter().for_each(|(node, verdict)| self.failing_at(node, verdict, &got, findings));
        let nominated: BTreeSet<&str> = expected
            .iter()
            .filter(|(_, verdict)| verdict.nominated_pods_present)
            .map(|(node, _)| node.as_str())
            .collect();
        let got = self.nominated_nodes().filter(|node| expected.contains_key(*node)).collect();
        findings.compare("nodes with nominated pods", &nominated, &got);
        self.real_cycle(expected, findings);
    }

    /// The names of nodes to which any pod is nominated, including the pending pod, at any priority.
    fn nominated_nodes(&self) -> impl Iterator<Item = &str> {
        let pods = self.cluster.pending_pods().map(|pod| &**pod).chain([&self.pod]);
        pods.map(|pod| self.cluster.table().symbols.text(pod.nominated_node_name))
    }

    /// The answers of the plugins about each node, if a plugin fails on some node.
    pub(super) fn verdicts_with_errors(&mut self, findings: &mut Findings) {
        let case = self.case;
        for (name, expected) in case.expect.filter.iter().flatten() {
            let Some(node) = self.cluster.node(name) else {
                findings.differ(format!("filter {name}"), "a verdict", "no node of this name");
                continue;
            };
            self.attempt.set_candidates(&[node]);
            let got = match self.filter_candidates() {
                Ok(diagnosis) => diagnosis.rejections.first().map_or_else(
                    || show("Success", "", &[]),
                    |rejection| show_status(&self.subject.name(rejection.plugin), &rejection.status),
                ),
                Err(status) => {
                    let text = status.message();
                    let plugin = text.split('"').nth(1).unwrap_or_default();
                    show_status(plugin, &status)
                }
            };
            findings.compare(
                format!("filter {name}"),
                &show(&expected.code, &expected.plugin, &expected.reasons),
                &got,
            );
        }
    }

    /// The plugin that rejects each node first, with its reason, including nodes that PreFilter excluded.
    fn verdicts(&mut self) -> Result<ByNode<(String, Status)>, Status> {
        self.attempt.set_candidates(self.cluster.cache().order());
        let rejections = self.filter_candidates()?.rejections;
        let mut verdicts = ByNode::new();
        for Rejection { plugin, status, nodes } in rejections {
            let name = self.subject.name(plugin);
            for node in self.node_names(&nodes) {
                verdicts.insert(node, (name.clone(), status.clone()));
            }
        }
        Ok(verdicts)
    }

    /// Filters the listed candidates.
    fn filter_candidates(&mut self) -> Result<Diagnosis, Status> {
        let nominated = self.cluster.nominated_pods(&self.pod);
        let call = self.cluster.call(CYCLE, &self.pod);
        let mut diagnosis = Diagnosis { n_all_nodes: call.table.n_nodes(), ..Diagnosis::default() };
        let (profile, attempt) = (&mut self.subject.profile, &mut self.attempt);
        // The node to which the pod is nominated is tried first, even if PreFilter left it out, and its status is kept.
        if let Some(node) = call.table.find(call.pod.nominated_node_name)
            && !attempt.candidates().contains(&node)
        {
            run::filter_one(profile, &call, node, &nominated, attempt)?;
            run::diagnose(profile, &call, attempt.findings(), &mut diagnosis)?;
        }
        let range = SearchRange { start: 0, n_wanted: attempt.candidates().len() };
        run::filter(profile, &call, range, &nominated, attempt)?;
        run::diagnose(profile, &call, attempt.findings(), &mut diagnosis)?;
        Ok(diagnosis)
    }

    fn verdict(&self, node: &str, expected: &NodeVerdict, got: &ByNode<(String, Status)>, findings: &mut Findings) {
        let got = got.get(node);
        let shown = got.map_or_else(|| show("Success", "", &[]), |(plugin, status)| show_status(plugin, status));
        let what = format!("filter {node}");
        let expected_text = show(&expected.code, &expected.plugin, &expected.reasons);
        if !self.subject.lacks(&expected.plugin) {
            findings.compare(what, &expected_text, &shown);
            return;
        }
        findings.leave_out(&expected.plugin);
        let spoke_first = got.is_some_and(|(plugin, _)| {
            self.subject.filter_position(plugin) < self.subject.filter_position(&expected.plugin)
        });
        if spoke_first {
            findings.differ(what, expected_text, shown);
        }
    }

    /// The rejections of every plugin, by node and plugin.
    fn failing(&mut self) -> ByNode<BTreeMap<String, Status>> {
        let call = self.cluster.call(CYCLE, &self.pod);
        let nodes = call.table.nodes();
        let rejections = run::diagnose_every_plugin(&mut self.subject.profile, &call, nodes, self.attempt.findings());
        let mut failing: ByNode<BTreeMap<String, Status>> = ByNode::new();
        for Rejection { plugin, status, nodes } in rejections {
            for node in self.node_names(&nodes) {
                failing.entry(node).or_default().insert(self.subject.name(plugin), status.clone());
            }
        }
        failing
    }

    fn failing_at(
        &self,
        node: &str,
        expected: &NodeVerdict,
        got: &ByNode<BTreeMap<String, Status>>,
        findings: &mut Findings,
    ) {
        let mut shown = BTreeMap::new();
        for (plugin, Verdict { code, reasons, .. }) in &expected.failing {
            if self.subject.lacks(plugin) {
                findings.leave_out(plugin);
            } else {
                shown.insert(plugin.clone(), show(code, "", reasons));
            }
        }
        let got: BTreeMap<String, String> = got
            .get(node)
            .into_iter()
            .flatten()
            .map(|(plugin, status)| (plugin.clone(), show_status("", status)))
            .collect();
        findings.compare(format!("failing {node}"), &shown, &got);
    }

    /// The real cycle, on the nodes that PreFilter left: the feasible nodes, the plugins that rejected, and the
    /// message.
    fn real_cycle(&mut self, expected: &ByNode<NodeVerdict>, findings: &mut Findings) {
        run::list_candidates(&self.cluster.call(CYCLE, &self.pod), self.cluster.cache().order(), &mut self.attempt);
        let diagnosis = match self.filter_candidates() {
            Ok(diagnosis) => diagnosis,
            Err(status) => return findings.differ("cycle", "verdicts", show_status("", &status)),
        };
        let is_ours = |node: &String| expected.get(node).is_none_or(|verdict| !self.subject.lacks(&verdict.plugin));
        let mut feasible = self.node_names(self.attempt.findings().feasible());
        feasible.retain(is_ours);
        findings.compare("feasible", &self.case.expect.feasible, &feasible);
        let Some(message) = &self.case.expect.fit_error else { return };
        if let Some(verdict) = expected.values().find(|verdict| self.subject.lacks(&verdict.plugin)) {
            findings.leave_out(&verdict.plugin);
            return;
        }
        findings.compare("fitError", message, &diagnosis.message());
        let rejectors = diagnosis.rejectors.iter().chain(diagnosis.pending.iter());
        let rejectors: BTreeSet<String> = rejectors.map(|plugin| self.subject.name(plugin)).collect();
        let expected_rejectors = self.case.expect.unschedulable_plugins.iter().cloned().collect();
        findings.compare("unschedulablePlugins", &expected_rejectors, &rejectors);
    }

    /// Names in order.
    pub(super) fn node_names(&self, nodes: &berth_model::NodeSet) -> Vec<String> {
        let mut names: Vec<String> = nodes.iter().map(|node| self.cluster.node_name(node).to_owned()).collect();
        names.sort_unstable();
        names
    }
}
