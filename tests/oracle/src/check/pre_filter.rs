//! Compares PreFilter: each plugin on its own, then the runner's result from all of them.

use berth_framework::{
    Code, CycleId, Point, Status,
    run::{self, PreFilterOutcome},
};

use super::{CYCLE, Check, show, show_status};
use crate::{
    case::{PreFilter, PreFilterResult, Verdict},
    findings::Findings,
};

/// Each plugin was recorded on its own, including plugins that the cycle did not reach. Such calls get this separate
/// number, because they are not part of the recorded cycle.
const ALONE: u64 = CYCLE + 1;

impl Check<'_> {
    /// Whether there are verdicts on nodes to compare.
    pub(super) fn pre_filter(&mut self, findings: &mut Findings) -> bool {
        let case = self.case;
        let Some(expected) = &case.expect.prefilter else {
            findings.differ("prefilter", "nothing recorded", "a pod that is not gated");
            return false;
        };
        self.pre_filter_each(expected, findings);
        let got = self.pre_filter_together(findings);
        if self.is_decided_by_missing(expected) {
            findings.leave_out(&expected.result.plugin);
        } else {
            findings.compare("prefilter", &show_result(&expected.result), &got);
        }
        if expected.result.code == "Success" {
            self.skipped_filters(expected, findings);
        } else if !self.subject.lacks(&expected.result.plugin) {
            findings.compare("fitError", &case.expect.fit_error, &Some(self.rejection_message(&expected.result)));
        }
        expected.result.code == "Success"
    }

    /// The PreFilter answer of a plugin that gates the pod: a claim can be deleted between PreEnqueue and the cycle.
    pub(super) fn pre_filter_when_gated(&mut self, findings: &mut Findings) {
        for (name, verdict) in &self.case.expect.prefilter_when_gated {
            let call = self.cluster.call(ALONE, &self.pod);
            let plugin = self.subject.profile.find(name).and_then(|plugin| self.subject.profile.get(plugin));
            let Some(point) = plugin.and_then(|plugin| plugin.pre_filter()) else {
                findings.leave_out(name);
                continue;
            };
            let got = point.pre_filter(&call).map_or_else(|status| show_status("", &status), |_| "Success".to_owned());
            findings.compare(format!("prefilter of gating {name}"), &show_verdict(verdict), &got);
        }
        self.subject.profile.end_cycle(CycleId(ALONE));
    }

    fn pre_filter_each(&mut self, expected: &PreFilter, findings: &mut Findings) {
        for plugin in self.subject.at(Point::PreFilter) {
            let name = self.subject.name(plugin);
            let call = self.cluster.call(ALONE, &self.pod);
            let point = self.subject.profile.get(plugin).and_then(|plugin| plugin.pre_filter());
            let Some(answer) = point.map(|point| point.pre_filter(&call)) else { continue };
            let got = match answer {
                Ok(None) => show("Success", "", &[]),
                Ok(Some(mut nodes)) => {
                    nodes.sort_unstable();
                    format!("Success, only {nodes:?}")
                }
                Err(status) => show_status("", &status),
            };
            let expected = expected.plugins.get(&name).map_or_else(|| "not run".to_owned(), show_verdict);
            findings.compare(format!("prefilter {name}"), &expected, &got);
        }
        self.subject.profile.end_cycle(CycleId(ALONE));
        for (plugin, verdict) in &expected.plugins {
            if self.subject.lacks(plugin) && verdict.code != "Skip" {
                findings.leave_out(plugin);
            }
        }
    }

    fn pre_filter_together(&mut self, findings: &mut Findings) -> String {
        let call = self.cluster.call(CYCLE, &self.pod);
        match run::pre_filter(&mut self.subject.profile, &call, &mut self.attempt) {
            Ok(PreFilterOutcome::Proceed) => match self.attempt.findings().restriction() {
                None => "Success".to_owned(),
                Some(restriction) => format!("Success, only {:?}", restriction.names),
            },
            Ok(PreFilterOutcome::Rejected { status, plugins }) => {
                let plugin = plugins.first().map(|plugin| self.subject.name(*plugin)).unwrap_or_default();
                show_status(&plugin, &status)
            }
            Err(status) => {
                findings.differ("prefilter", "an answer", show_status("", &status));
                "an error".to_owned()
            }
        }
    }

    fn is_decided_by_missing(&self, expected: &PreFilter) -> bool {
        let narrows = |verdict: &Verdict| verdict.has_node_set || !matches!(verdict.code.as_str(), "Skip" | "Success");
        expected.plugins.iter().any(|(plugin, verdict)| narrows(verdict) && self.subject.lacks(plugin))
    }

    fn skipped_filters(&self, expected: &PreFilter, findings: &mut Findings) {
        let mut got: Vec<String> =
            self.attempt.findings().skipped_filters().iter().map(|plugin| self.subject.name(plugin)).collect();
        got.sort_unstable();
        let mut expected: Vec<String> =
            expected.skipped_filters.iter().filter(|plugin| !self.subject.lacks(plugin)).cloned().collect();
        expected.sort_unstable();
        findings.compare("skippedFilters", &expected, &got);
    }

    fn rejection_message(&self, result: &PreFilterResult) -> String {
        let diagnosis = run::Diagnosis {
            n_all_nodes: self.cluster.table().n_nodes(),
            pre_filter: Some(Status::new(Code::Unschedulable, result.reasons.clone())),
            ..run::Diagnosis::default()
        };
        diagnosis.message()
    }
}

fn show_verdict(verdict: &Verdict) -> String {
    if verdict.has_node_set {
        let mut nodes = verdict.nodes.clone();
        nodes.sort_unstable();
        return format!("Success, only {nodes:?}");
    }
    show(&verdict.code, "", &verdict.reasons)
}

fn show_result(result: &PreFilterResult) -> String {
    if result.code != "Success" {
        return show(&result.code, &result.plugin, &result.reasons);
    }
    if result.all_nodes {
        return "Success".to_owned();
    }
    let names: std::collections::BTreeSet<&String> = result.node_names.iter().collect();
    format!("Success, only {names:?}")
}
