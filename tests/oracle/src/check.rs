//! Runs one case through PreEnqueue and a scheduling cycle, and compares every step.
//!
//! The steps are the scheduler's own: the runner in `berth_framework::run`, on the cache's node table. If the recorded
//! answer of a step depends on a missing plugin, only the answers of the existing plugins are compared.

mod devices;
mod explanation;
mod filter;
mod post_filter;
mod pre_filter;
mod score;
mod volumes;

use std::collections::BTreeMap;

use anyhow::Result;
use berth_framework::{
    CycleId, Point, Status,
    run::{self, Attempt, Refusal, SearchRange},
};
use berth_model::{Features, Pod};
use berth_testing::TestCluster;

use crate::{
    case::Case,
    cluster,
    execution::Execution,
    findings::Findings,
    hints,
    tested_profile::{TestedProfile, with_gates},
};

/// Runs `case` with the plugins of `execution`, with the features of the recorded release.
#[must_use]
pub fn check(case: &Case, execution: &dyn Execution) -> Findings {
    check_as(case, Features::default(), execution)
}

/// Runs a case with other features.
#[must_use]
pub fn check_as(case: &Case, features: Features, execution: &dyn Execution) -> Findings {
    let mut findings = Findings::default();
    match with_gates(features, &case.gates) {
        Ok(features) => {
            match Check::prepare(case, features, execution) {
                Ok(mut check) => check.run(&mut findings),
                Err(error) => findings.differ("setting up", "a cluster and a profile", format!("{error:#}")),
            }
            hints::check_case(case, features, execution, &mut findings);
        }
        Err(error) => findings.differ("setting up", "gates", format!("{error:#}")),
    }
    findings
}

/// Makes an explanation of the pod, and compares it.
#[must_use]
pub fn check_explanation(case: &Case, features: Features, execution: &dyn Execution) -> Findings {
    let mut findings = Findings::default();
    let prepared = with_gates(features, &case.gates).and_then(|features| Check::prepare(case, features, execution));
    match prepared {
        Ok(mut check) => check.explanation(&mut findings),
        Err(error) => findings.differ("setting up", "a cluster and a profile", format!("{error:#}")),
    }
    findings
}

/// The number of the compared cycle.
const CYCLE: u64 = 1;

/// A case that is being compared.
struct Check<'a> {
    case: &'a Case,
    cluster: TestCluster,
    /// The pending pod.
    pod: Pod,
    subject: TestedProfile,
    attempt: Attempt,
    /// The last cycle of an explanation.
    cycle: u64,
}

/// A status in one line, for comparisons and for people.
fn show(code: &str, plugin: &str, reasons: &[String]) -> String {
    let mut text = code.to_owned();
    for part in [plugin.to_owned(), reasons.join("; ")] {
        if !part.is_empty() {
            text.push_str(" | ");
            text.push_str(&part);
        }
    }
    text
}

fn show_status(plugin: &str, status: &Status) -> String {
    show(status.code.as_str(), plugin, &status.reasons)
}

impl<'a> Check<'a> {
    fn prepare(case: &'a Case, features: Features, execution: &dyn Execution) -> Result<Self> {
        let (cluster, pod) = cluster::recorded(case, features)?;
        let subject = TestedProfile::build(case.profile.as_ref(), features, execution)?;
        Ok(Self { case, cluster, pod, subject, attempt: Attempt::default(), cycle: CYCLE })
    }

    fn run(&mut self, findings: &mut Findings) {
        if let Err(Refusal { plugin, status }) = self.subject.profile.sync(self.cluster.cache()) {
            findings.differ("sync", "Success", show_status(&self.subject.name(plugin), &status));
            return;
        }
        if !self.pre_enqueue(findings) {
            return self.pre_filter_when_gated(findings);
        }
        if self.breaks_before_scoring() {
            self.cycle_error(findings);
            return self.subject.profile.end_cycle(CycleId(CYCLE));
        }
        if self.pre_filter(findings) {
            self.filter(findings);
            self.score(findings);
            self.volumes(findings);
            self.devices(findings);
        }
        self.post_filter(findings);
        self.subject.profile.end_cycle(CycleId(CYCLE));
    }

    /// Whether the pod may enter the queue.
    fn pre_enqueue(&mut self, findings: &mut Findings) -> bool {
        let mut refusals = BTreeMap::new();
        for plugin in self.subject.at(Point::PreEnqueue) {
            let point = self.subject.profile.get(plugin).and_then(|plugin| plugin.pre_enqueue());
            let Some(status) = point.map(|point| point.pre_enqueue(&self.pod, self.cluster.cache().table())) else {
                continue;
            };
            if !status.is_success() {
                refusals.insert(self.subject.name(plugin), show_status("", &status));
            }
        }
        let expected = &self.case.expect;
        let mut expected_refusals = BTreeMap::new();
        for (plugin, verdict) in &expected.pre_enqueue {
            if self.subject.lacks(plugin) {
                findings.leave_out(plugin);
            } else {
                expected_refusals.insert(plugin.clone(), show(&verdict.code, "", &verdict.reasons));
            }
        }
        findings.compare("preEnqueue", &expected_refusals, &refusals);
        let is_gated = !refusals.is_empty();
        if expected.pre_enqueue.keys().all(|plugin| !self.subject.lacks(plugin)) {
            findings.compare("gated", &expected.gated, &is_gated);
        }
        !is_gated && !expected.gated
    }

    /// Whether the recorded attempt failed in PreFilter or Filter.
    fn breaks_before_scoring(&self) -> bool {
        let expected = &self.case.expect;
        let breaks_in_scoring = expected.score.as_ref().is_some_and(|score| score.error.is_some());
        expected.outcome == "error" && !breaks_in_scoring
    }

    /// The text, and the answers about each node alone.
    fn cycle_error(&mut self, findings: &mut Findings) {
        let call = self.cluster.call(CYCLE, &self.pod);
        let (profile, attempt) = (&mut self.subject.profile, &mut self.attempt);
        let answer = run::pre_filter(profile, &call, attempt).and_then(|_| {
            run::list_candidates(&call, self.cluster.cache().order(), attempt);
            let range = SearchRange { start: 0, n_wanted: usize::MAX };
            run::filter(profile, &call, range, &self.cluster.nominated_pods(&self.pod), attempt)
        });
        findings.compare("cycleError", &self.case.expect.cycle_error, &answer.err().map(|status| status.message()));
        self.verdicts_with_errors(findings);
    }
}
