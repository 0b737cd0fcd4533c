//! The extension points. Each is a call into the component and a check of its answer.
//!
//! Some methods of the framework cannot return an error. A failed call then gives a harmless answer and is logged: a
//! pod is sorted as PrioritySort would, and a hint says that the pod is worth another attempt.

use std::time::Duration;

use berth_framework::{
    Bind, Call, Code, DryRun, DryRunCase, Effect, Explain, Fact, Failure, Filter, HintCall, Normalize, Permit,
    PermitVerdict, Point, PostBind, PostFilter, PostFilterOutcome, PreBind, PreBindPreFlight, PreEnqueue, PreFilter,
    PreFlight, PreScore, QueueSort, QueueingHint, Reach, RejectedNodes, Reserve, RestoreError, Score, ShareFacts, Sign,
    State, Status,
};
use berth_model::{ClusterTable, NodeIdx, NodeSet, Pod};

use super::{
    ComponentPlugin, DryRunTime,
    classes::{Participation, RowAnswers},
};
use crate::{
    bindings::points::queueing_hint,
    convert::{lift, lower},
    fault::Refused,
    host_state::OTHERS,
    instance::{Instance, TimeLimit, guest},
};

/// The maximum number of dry runs in one call, whose time is limited. Preemption tries a tenth of the nodes.
const CASES_AT_ONCE: usize = 512;

impl ComponentPlugin {
    /// Begins the cycle for a point at which the plugin is asked even if it does not affect the pod. PreFilter comes
    /// before such a point in every cycle that the instance knows. PreFilter is called now if the plugin has not
    /// affected the pod so far.
    fn begin_although_skipped(&mut self, call: &Call<'_>) -> Result<(), Status> {
        let is_late = self.classes.participation(call.cycle) == Some(Participation::Skipped);
        self.ensure_begun(call)?;
        if is_late && self.component.points.contains(Point::PreFilter) {
            self.classes.set_participation(call.cycle, Participation::In(call.cycle));
            self.ask("pre-filter", TimeLimit::Call, |context| {
                Ok(guest(&context.exports.pre_filter)?.call_pre_filter(context.store, call.cycle.0)?.is_ok())
            })?;
        }
        Ok(())
    }

    /// Begins the cycle if a case adds a pod to a node that may matter to a plugin that did not affect the pod so far.
    fn begin_for_added(&mut self, call: &Call<'_>, pods: &[&Pod], cases: &[DryRunCase]) -> Result<(), Status> {
        if self.enter(call)? != Participation::Skipped || self.classes.reach(call.pod) != Some(Reach::NothingYet) {
            return Ok(());
        }
        let places = cases.iter().flat_map(|case| &case.plus).filter_map(|place| usize::try_from(*place).ok());
        let mut added = places.filter_map(|place| pods.get(place));
        if added.any(|pod| !self.classes.is_no_matter(pod)) {
            self.ensure_begun(call)?;
            self.classes.set_participation(call.cycle, Participation::In(call.cycle));
        }
        Ok(())
    }

    /// Checks the time of dry runs. The dry runs of one cycle may take no longer than PostFilter, whichever plugin asks
    /// for them, and no longer than the plugin has time. The program's own components are not checked.
    fn check_dry_run_time(&mut self, call: &Call<'_>) -> Result<(), Status> {
        if self.dry_runs.cycle != call.cycle {
            self.dry_runs = DryRunTime { cycle: call.cycle, taken: Duration::ZERO };
        }
        let limits = &self.component.limits;
        if limits.share.is_none() {
            return Ok(());
        }
        if self.dry_runs.taken >= limits.post_filter_timeout {
            let milliseconds = limits.post_filter_timeout.as_millis();
            let title = self.component.title();
            return Err(Status::error(format!(
                "{title} has used up its time for the dry runs of one attempt, {milliseconds} ms"
            )));
        }
        self.component.out_of_time().map_or(Ok(()), |(_, reason)| Err(Status::error(reason)))
    }

    /// The answers about rows for the pods that share the cycle, if the plugin's answers about a row do not depend on
    /// pods.
    fn row_answers(&mut self, call: &Call<'_>) -> Result<Option<&mut RowAnswers>, Status> {
        if !self.component.is_blind_to_pods() {
            return Ok(None);
        }
        let Participation::In(cycle) = self.enter(call)? else { return Ok(None) };
        Ok(self.classes.rows(cycle))
    }

    /// Counts an answer with code `Error`, which the plugin gave deliberately.
    fn answered<R>(&self, point: Point, answer: Result<R, Status>) -> Result<R, Status> {
        answer.inspect_err(|status| self.count_error(point, status))
    }

    fn count_error(&self, point: Point, status: &Status) {
        if status.code == Code::Error {
            self.component.stats.record_error(point);
        }
    }

    /// Logs the failure of a call that cannot return it.
    pub(super) fn note<R>(&self, answer: Result<R, Status>) -> Option<R> {
        answer.inspect_err(|status| tracing::warn!(plugin = &*self.component.name, "{}", status.message())).ok()
    }
}

impl PreEnqueue for ComponentPlugin {
    fn pre_enqueue(&mut self, pod: &Pod, _table: &ClusterTable) -> Status {
        self.pod = Some(pod.uid.clone());
        match self.has_nothing_to_do(pod) {
            Ok(true) => return Status::success(),
            Ok(false) => {}
            Err(status) => return status,
        }
        let pod = self.lowered(pod);
        let answer = self.ask("pre-enqueue", TimeLimit::Call, |context| {
            let answer = guest(&context.exports.pre_enqueue)?.call_pre_enqueue(context.store, &pod)?;
            Ok(lift::outcome(answer, context.limits)?)
        });
        let answer = answer.and_then(|answer| self.answered(Point::PreEnqueue, answer));
        answer.err().unwrap_or_else(Status::success)
    }
}

impl QueueSort for ComponentPlugin {
    fn sort_key(&mut self, pod: &Pod, queued_at: i64) -> (i64, i64) {
        self.pod = Some(pod.uid.clone());
        let lowered = self.lowered(pod);
        let answer = self.ask("sort-key", TimeLimit::Call, |context| {
            Ok(guest(&context.exports.queue_sort)?.call_sort_key(context.store, &lowered, queued_at)?)
        });
        self.note(answer).unwrap_or((-i64::from(pod.priority), queued_at))
    }
}

impl PreFilter for ComponentPlugin {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        let Participation::In(cycle) = self.enter(call)? else { return Err(Status::skip()) };
        if let Some(Some(answer)) = self.classes.pre_filter(cycle) {
            return answer.clone();
        }
        let answer = self.ask("pre-filter", TimeLimit::Call, |context| {
            let answer = guest(&context.exports.pre_filter)?.call_pre_filter(context.store, cycle.0)?;
            Ok(lift::outcome(answer, context.limits)?)
        })?;
        if let Some(kept) = self.classes.pre_filter(cycle).filter(|_| is_kept(&answer)) {
            *kept = Some(answer.clone());
        }
        self.answered(Point::PreFilter, answer)
    }
}

impl Filter for ComponentPlugin {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        if self.row_answers(call)?.is_some_and(|answers| answers.filter(candidates)) {
            return Ok(());
        }
        let rows = self.take_rows(candidates);
        let answer = self.ask_in_cycle(call, "filter", |context, cycle| {
            let answer = guest(&context.exports.filter)?.call_filter(context.store, cycle, &rows)?;
            match lift::outcome(answer, context.limits)? {
                Ok(survivors) => Ok(Ok(lift::subset(survivors, candidates)?)),
                Err(status) => Ok(Err(status)),
            }
        });
        self.rows = rows;
        if let Some(answer) = answer? {
            let survivors = self.answered(Point::Filter, answer)?;
            if let Some(answers) = self.row_answers(call)? {
                answers.keep_verdicts(candidates, &survivors);
            }
            candidates.intersect(&survivors);
        }
        Ok(())
    }

    fn node_to_status(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        let rows = self.take_rows(rejected);
        let answer = self.ask_in_cycle(call, "node-to-status", |context, cycle| {
            let answer = guest(&context.exports.filter)?.call_node_to_status(context.store, cycle, &rows)?;
            match lift::outcome(answer, context.limits)? {
                Ok(groups) => Ok(Ok(lift::groups(groups, rejected, context.limits)?)),
                Err(status) => Ok(Err(status)),
            }
        });
        self.rows = rows;
        let Some(answer) = answer? else { return Ok(Vec::new()) };
        let groups = self.answered(Point::Filter, answer)?;
        groups.iter().for_each(|group| self.count_error(Point::Filter, &group.status));
        Ok(groups)
    }

    fn dry_run(&mut self, call: &Call<'_>, pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        let pods_matter = self.component.manifest.needs.pods_matter();
        let pods = if pods_matter { pods } else { &[] };
        self.begin_for_added(call, pods, cases)?;
        let keep = self.shown_pods.n_kept(call, pods);
        let mut more: Vec<_> = pods.iter().skip(keep).map(|pod| self.lowered(pod)).collect();
        let mut keep = u32::try_from(keep).map_err(|error| Status::error(error.to_string()))?;
        let n_cases = cases.len();
        let mut statuses = Vec::with_capacity(n_cases);
        for cases in cases.chunks(CASES_AT_ONCE) {
            self.check_dry_run_time(call)?;
            let lowered: Vec<_> = cases.iter().map(|case| lower::dry_run_case(case, pods_matter)).collect();
            let answer = self.ask_in_cycle(call, "dry-run", |context, cycle| {
                let guest = guest(&context.exports.filter)?;
                let answer = guest.call_dry_run(context.store, cycle, keep, &more, &lowered)?;
                let statuses = match lift::outcome(answer, context.limits)? {
                    Ok(statuses) => statuses,
                    Err(status) => return Ok(Err(status)),
                };
                check_length("statuses", statuses.len(), cases.len())?;
                let statuses = statuses.into_iter().map(|status| lift::status(status, context.limits));
                Ok(Ok(statuses.collect::<Result<Vec<_>, _>>()?))
            });
            self.dry_runs.taken += self.instance.as_ref().map_or(Duration::ZERO, Instance::last_call);
            let Some(answer) = answer? else { return Ok(vec![Status::success(); n_cases]) };
            statuses.extend(self.answered(Point::Filter, answer)?);
            // The component knows all pods from now on.
            keep = u32::try_from(pods.len()).map_err(|error| Status::error(error.to_string()))?;
            more.clear();
            self.shown_pods.remember(call, pods);
        }
        statuses.iter().for_each(|status| self.count_error(Point::Filter, status));
        Ok(statuses)
    }
}

impl PostFilter for ComponentPlugin {
    fn post_filter(
        &mut self,
        call: &Call<'_>,
        failure: &Failure<'_>,
        dry_run: &mut dyn DryRun,
    ) -> Result<PostFilterOutcome, Status> {
        let failure = lower::failure(failure, self.component.manifest.needs.pod_json);
        self.begin_although_skipped(call)?;
        // The time of dry runs counts for the limit.
        let answer = self.ask("post-filter", TimeLimit::PostFilter, |context| {
            let guest = guest(&context.exports.post_filter)?;
            let answer = OTHERS.set(dry_run, || guest.call_post_filter(context.store, call.cycle.0, &failure))?;
            match lift::outcome(answer, context.limits)? {
                Ok(outcome) => Ok(Ok(lift::post_filter(outcome, call.table.nodes(), context.limits)?)),
                Err(status) => Ok(Err(status)),
            }
        })?;
        let outcome = self.answered(Point::PostFilter, answer)?;
        self.count_error(Point::PostFilter, &outcome.status);
        Ok(outcome)
    }
}

impl PreScore for ComponentPlugin {
    /// The plugin is asked about one pod of each class that it does not affect. It may score such pods 0, and then a
    /// decision shows its zeros, or skip them.
    fn pre_score(&mut self, call: &Call<'_>, nodes: &NodeSet) -> Result<(), Status> {
        let participation = self.enter(call)?;
        let cycle = match participation {
            Participation::In(cycle) => cycle,
            Participation::Skipped => match self.classes.shows_zeros(call.pod) {
                Some(true) => return Ok(()),
                None if self.component.points.contains(Point::Score) => {
                    self.begin_although_skipped(call)?;
                    call.cycle
                }
                Some(false) | None => return Err(Status::skip()),
            },
        };
        if let Some(Some(answer)) = self.classes.pre_score(cycle) {
            return answer.clone();
        }
        let rows = self.take_rows(nodes);
        let answer = self.ask("pre-score", TimeLimit::Call, |context| {
            let answer = guest(&context.exports.pre_score)?.call_pre_score(context.store, cycle.0, &rows)?;
            Ok(lift::outcome(answer, context.limits)?)
        });
        self.rows = rows;
        let answer = answer?;
        if participation == Participation::Skipped && is_kept(&answer) {
            self.classes.keep_shows_zeros(call.pod, answer.is_ok());
        }
        if let Some(kept) = self.classes.pre_score(cycle).filter(|_| is_kept(&answer)) {
            *kept = Some(answer.clone());
        }
        self.answered(Point::PreScore, answer)
    }
}

impl Score for ComponentPlugin {
    fn score(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        if self.row_answers(call)?.is_some_and(|answers| answers.score(nodes, scores)) {
            return Ok(());
        }
        let rows = self.take_rows(nodes);
        let answer = self.ask_in_cycle(call, "score", |context, cycle| {
            let answer = guest(&context.exports.score)?.call_score(context.store, cycle, &rows)?;
            let answer = lift::outcome(answer, context.limits)?;
            if let Ok(scores) = &answer {
                check_length("scores", scores.len(), nodes.len())?;
            }
            Ok(answer)
        });
        self.rows = rows;
        match answer? {
            Some(answer) => {
                let answer = self.answered(Point::Score, answer)?;
                if let Some(answers) = self.row_answers(call)? {
                    answers.keep_scores(nodes, &answer);
                }
                scores.extend(answer);
            }
            None => scores.resize(scores.len() + nodes.len(), 0),
        }
        Ok(())
    }

    /// A plugin gives all nodes 0 for a pod that it does not affect.
    fn common_score(&mut self, call: &Call<'_>, _nodes: &NodeSet) -> Option<i64> {
        (self.enter(call) == Ok(Participation::Skipped)).then_some(0)
    }
}

impl Normalize for ComponentPlugin {
    fn normalize(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut [i64]) -> Result<(), Status> {
        let Participation::In(cycle) = self.enter(call)? else { return Ok(()) };
        let same = scores.first().copied().filter(|first| scores.iter().all(|score| score == first));
        if let (Some(raw), Some(Some((known, normalized)))) = (same, self.classes.normalized(cycle))
            && raw == *known
        {
            scores.fill(*normalized);
            return Ok(());
        }
        let rows = self.take_rows(nodes);
        let answer = self.ask("normalize-score", TimeLimit::Call, |context| {
            let guest = guest(&context.exports.normalize_score)?;
            let answer = guest.call_normalize_score(context.store, cycle.0, &rows, scores)?;
            let answer = lift::outcome(answer, context.limits)?;
            if let Ok(normalized) = &answer {
                check_length("scores", normalized.len(), scores.len())?;
            }
            Ok(answer)
        });
        self.rows = rows;
        scores.copy_from_slice(&self.answered(Point::Normalize, answer?)?);
        if let (Some(raw), Some(normalized), Some(kept)) = (same, scores.first(), self.classes.normalized(cycle)) {
            *kept = Some((raw, *normalized));
        }
        Ok(())
    }
}

impl Reserve for ComponentPlugin {
    fn reserve(&mut self, call: &Call<'_>, node: NodeIdx) -> Status {
        if self.is_passed_over {
            return Status::success();
        }
        let answer = self.ask_in_cycle(call, "reserve", |context, cycle| {
            let answer = guest(&context.exports.reserve)?.call_reserve(context.store, cycle, node.0)?;
            Ok(lift::outcome(answer, context.limits)?)
        });
        let answer = answer.and_then(|answer| answer.map_or(Ok(()), |answer| self.answered(Point::Reserve, answer)));
        answer.err().unwrap_or_else(Status::success)
    }

    fn unreserve(&mut self, call: &Call<'_>, node: NodeIdx) -> Vec<Effect> {
        // An instance has something to undo only if it knows the cycle.
        if !self.begun.contains(&call.cycle) {
            return Vec::new();
        }
        let answer = self.tell_in_cycle(call, "unreserve", |context, cycle| {
            let effects = guest(&context.exports.reserve)?.call_unreserve(context.store, cycle, node.0)?;
            Ok(lift::effects(effects, context.limits)?)
        });
        self.note(answer).flatten().unwrap_or_default()
    }
}

impl Permit for ComponentPlugin {
    fn permit(&mut self, call: &Call<'_>, node: NodeIdx) -> (PermitVerdict, Vec<Effect>) {
        let answer = self.ask_in_cycle(call, "permit", |context, cycle| {
            let guest = guest(&context.exports.permit)?;
            let (verdict, effects) = guest.call_permit(context.store, cycle, node.0)?;
            Ok((lift::verdict(verdict, context.limits)?, lift::effects(effects, context.limits)?))
        });
        if let Ok(Some((PermitVerdict::Deny(status), _))) = &answer {
            self.count_error(Point::Permit, status);
        }
        match answer {
            Ok(answer) => answer.unwrap_or_else(|| (PermitVerdict::Allow, Vec::new())),
            Err(status) => (PermitVerdict::Deny(status), Vec::new()),
        }
    }
}

impl PreBindPreFlight for ComponentPlugin {
    fn pre_bind_pre_flight(&mut self, call: &Call<'_>, node: NodeIdx) -> Result<PreFlight, Status> {
        let answer = self.ask_in_cycle(call, "pre-bind-pre-flight", |context, cycle| {
            let guest = guest(&context.exports.pre_bind_pre_flight)?;
            let answer = guest.call_pre_bind_pre_flight(context.store, cycle, node.0)?;
            let flight = lift::outcome(answer, context.limits)?;
            Ok(flight.map(|flight| PreFlight { allow_parallel: flight.allow_parallel }))
        })?;
        self.answered(Point::PreBindPreFlight, answer.unwrap_or_else(|| Err(Status::skip())))
    }
}

impl PreBind for ComponentPlugin {
    fn pre_bind(&mut self, call: &Call<'_>, node: NodeIdx) -> Result<Vec<Effect>, Status> {
        let answer = self.ask_in_cycle(call, "pre-bind", |context, cycle| {
            let answer = guest(&context.exports.pre_bind)?.call_pre_bind(context.store, cycle, node.0)?;
            match lift::outcome(answer, context.limits)? {
                Ok(effects) => Ok(Ok(lift::effects(effects, context.limits)?)),
                Err(status) => Ok(Err(status)),
            }
        })?;
        self.answered(Point::PreBind, answer.unwrap_or_else(|| Err(Status::skip())))
    }
}

impl Bind for ComponentPlugin {
    fn bind(&mut self, call: &Call<'_>, node: NodeIdx) -> Result<Vec<Effect>, Status> {
        let Participation::In(cycle) = self.enter(call)? else { return Err(Status::skip()) };
        if let Some(Some(answer)) = self.classes.bind(cycle) {
            return answer.clone();
        }
        let answer = self.ask("bind", TimeLimit::Call, |context| {
            let answer = guest(&context.exports.bind)?.call_bind(context.store, cycle.0, node.0)?;
            match lift::outcome(answer, context.limits)? {
                Ok(effects) => Ok(Ok(lift::effects(effects, context.limits)?)),
                Err(status) => Ok(Err(status)),
            }
        })?;
        if let Some(kept) = self.classes.bind(cycle).filter(|_| is_kept(&answer)) {
            *kept = Some(answer.clone());
        }
        self.answered(Point::Bind, answer)
    }
}

impl PostBind for ComponentPlugin {
    fn post_bind(&mut self, call: &Call<'_>, node: NodeIdx) {
        let answer = self.tell_in_cycle(call, "post-bind", |context, cycle| {
            Ok(guest(&context.exports.post_bind)?.call_post_bind(context.store, cycle, node.0)?)
        });
        self.note(answer);
    }
}

impl QueueingHint for ComponentPlugin {
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool {
        self.pod = Some(call.pod.uid.clone());
        let (pod, event) = (self.lowered(call.pod), lower::cluster_event(call.event));
        let subject = lower::event_subject(&call.subject, |pod| self.lowered(pod));
        let answer = self.ask("queueing-hint", TimeLimit::Call, |context| {
            let guest = guest(&context.exports.queueing_hint)?;
            Ok(guest.call_queueing_hint(context.store, &pod, &event, &subject)?)
        });
        self.note(answer).is_none_or(|hint| hint == queueing_hint::Hint::Queue)
    }
}

impl Sign for ComponentPlugin {
    fn sign(&mut self, pod: &Pod) -> Option<String> {
        if let Some(Some(signature)) = self.classes.signature(pod) {
            return signature.clone();
        }
        self.pod = Some(pod.uid.clone());
        let lowered = self.lowered(pod);
        let answer = self.ask("sign", TimeLimit::Call, |context| {
            Ok(guest(&context.exports.sign)?.call_sign(context.store, &lowered)?)
        });
        let signature = self.note(answer)?;
        if let Some(kept) = self.classes.signature(pod) {
            *kept = Some(signature.clone());
        }
        signature
    }
}

impl Explain for ComponentPlugin {
    fn explain(&mut self, call: &Call<'_>, node: Option<NodeIdx>) -> Result<String, Status> {
        let cycle = match self.enter(call)? {
            Participation::In(cycle) => cycle,
            Participation::Skipped => {
                self.begin_although_skipped(call)?;
                call.cycle
            }
        };
        self.ask("explain", TimeLimit::Call, |context| {
            let node = node.map(|node| node.0);
            let text = guest(&context.exports.explain)?.call_explain(context.store, cycle.0, node)?;
            Ok(lift::words(&text))
        })
    }
}

impl ShareFacts for ComponentPlugin {
    /// No facts after a fault: the next instance gets the facts of the lost one with its first delta.
    fn take_facts(&mut self) -> Vec<Fact> {
        if self.instance.is_none() {
            return Vec::new();
        }
        let answer = self.call("take-facts", TimeLimit::Call, |context| {
            let facts = guest(&context.exports.shared_facts)?.call_take_facts(context.store)?;
            Ok(lift::facts(facts, context.limits)?)
        });
        self.note(answer).unwrap_or_default()
    }
}

impl State for ComponentPlugin {
    fn snapshot(&mut self) -> Vec<u8> {
        self.pod = None;
        let answer = self.ask("snapshot", TimeLimit::Lifecycle, |context| {
            Ok(guest(&context.exports.state)?.call_snapshot(context.store)?)
        });
        self.note(answer).unwrap_or_default()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        self.pod = None;
        let answer = self.ask("restore", TimeLimit::Lifecycle, |context| {
            Ok(guest(&context.exports.state)?.call_restore(context.store, snapshot)?)
        });
        answer.map_err(|status| RestoreError::new(status.message()))?.map_err(RestoreError::new)
    }
}

/// Whether an answer about one pod holds for pods like it. An error does not hold, because it may not occur for the
/// next pod.
fn is_kept<R>(answer: &Result<R, Status>) -> bool {
    answer.as_ref().err().is_none_or(|status| status.code != Code::Error)
}

/// Checks that an answer has one item for each item of the question.
fn check_length(what: &str, n_given: usize, n_asked: usize) -> Result<(), Refused> {
    if n_given == n_asked { Ok(()) } else { Err(Refused(format!("{n_given} {what} for {n_asked} asked about"))) }
}
