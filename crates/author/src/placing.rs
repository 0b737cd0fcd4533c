//! The points after the choice of a node, and PostFilter, which is called if no node fits. Their answers have the form
//! of files of cases.

use berth_framework::{
    Call, DryRun, Effect, Failure, Grants, Needs, PermitVerdict, Plugin, Point, PostFilterOutcome, RejectedNodes,
    Removal, Status,
};
use berth_model::{NodeIdx, NodeSet};
use berth_scheduler::CyclePod;
use berth_testing::Answers;
use serde::{Deserialize, Serialize};

use crate::{
    answers::{PluginAnswers, PodAnswer, RefusedAtPoint},
    case_effect::CaseEffect,
    ignored::ignored,
    waiting_pods::HeldAt,
};

/// The answers of a step that have been collected so far.
pub(crate) struct Answering<'a> {
    pub(crate) answers: &'a mut PluginAnswers,
    pub(crate) grants: &'a Grants,
}

impl Answering<'_> {
    /// Records the effects of this answer that the scheduler would not carry out. `holds` says whether Permit holds the
    /// pod.
    fn check(&mut self, point: Point, needs: &Needs, call: &Call<'_>, effects: &[Effect], holds: bool) {
        self.check_grants(point, call, effects);
        self.answers.ignored.extend(ignored(point, needs, call, effects, holds));
    }

    /// Records the first effect of this answer that was not granted.
    fn check_grants(&mut self, point: Point, call: &Call<'_>, effects: &[Effect]) {
        if let Some(effect) = CyclePod::new(call.pod, call.table).first_refused(self.grants, effects) {
            self.answers.refused.push(RefusedAtPoint { point: point.shown_with_effects(), effect });
        }
    }

    /// Records the effects of Unreserve.
    pub(crate) fn undone(&mut self, needs: &Needs, call: &Call<'_>, effects: &[Effect]) {
        self.check(Point::Reserve, needs, call, effects, false);
        let effects = effects.iter().map(CaseEffect::from).collect();
        self.answers.unreserve = PodAnswer { effects, ..PodAnswer::default() }.unless_empty();
    }
}

/// The pod's destination.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// The pod is bound to this node unless the plugin refuses it.
    Bind(NodeIdx),
    /// The pod goes to this node, until the attempt fails at this point.
    BindingFails(NodeIdx, FailsAt),
    /// The pod goes to this node, and stays at Permit or PreBind if the plugin holds the pod at this point.
    Waits(NodeIdx),
}

/// The point at which an attempt fails, although the plugin does not reject the pod. The plugin is called at the points
/// from Reserve to this point, and then at Unreserve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum FailsAt {
    /// Another plugin rejects the pod at Reserve.
    Reserve,
    /// Another plugin rejects the pod at Permit, after a wait.
    Permit,
    /// Another plugin fails at PreBind, or the API server refuses an effect of PreBind.
    PreBind,
    /// The API server refuses the binding.
    #[default]
    Bind,
}

/// Calls Reserve, Permit, PreBindPreFlight, PreBind, Bind and PostBind until one of them rejects the pod, and then
/// Unreserve. If the binding is to fail, calls Unreserve after the point at which it fails. The waits of a pod end
/// immediately, unless the target says that the pod waits. Returns the point at which the plugin holds the pod; the
/// cycle is then still open.
pub(crate) fn place(
    plugin: &mut dyn Plugin,
    call: &Call<'_>,
    target: Target,
    answering: &mut Answering<'_>,
) -> Option<HeldAt> {
    match target {
        Target::Bind(node) => {
            ask_up_to(FailsAt::Bind, plugin, call, node, answering);
            end(plugin, call, node, answering);
            None
        }
        Target::BindingFails(node, last) => {
            ask_up_to(last, plugin, call, node, answering);
            unreserve(plugin, call, node, answering);
            None
        }
        Target::Waits(node) => {
            ask_up_to(FailsAt::Permit, plugin, call, node, answering);
            if !answering.answers.lets_the_pod_be_bound() {
                unreserve(plugin, call, node, answering);
                None
            } else if answering.answers.waits_at_permit() {
                Some(HeldAt::Permit)
            } else {
                go_on(plugin, call, node, answering)
            }
        }
    }
}

/// Calls the points from Reserve to `last` until one of them rejects the pod.
fn ask_up_to(last: FailsAt, plugin: &mut dyn Plugin, call: &Call<'_>, node: NodeIdx, answering: &mut Answering<'_>) {
    reserve(plugin, call, node, answering);
    if last >= FailsAt::Permit && answering.answers.lets_the_pod_be_bound() {
        permit(plugin, call, node, answering);
    }
    if last >= FailsAt::PreBind && answering.answers.lets_the_pod_be_bound() {
        answering.answers.pre_bind = pre_bind(plugin, call, node, answering);
    }
    if last >= FailsAt::Bind && answering.answers.lets_the_pod_be_bound() {
        bind(plugin, call, node, answering);
    }
}

/// Calls Permit again about a pod that waits there. If the plugin no longer holds the pod, calls the points after
/// Permit, or Unreserve. Returns the point at which the plugin now holds the pod.
pub(crate) fn permit_again(
    plugin: &mut dyn Plugin,
    call: &Call<'_>,
    node: NodeIdx,
    answering: &mut Answering<'_>,
) -> Option<HeldAt> {
    permit(plugin, call, node, answering);
    if answering.answers.waits_at_permit() {
        return Some(HeldAt::Permit);
    }
    if answering.answers.lets_the_pod_be_bound() {
        return go_on(plugin, call, node, answering);
    }
    unreserve(plugin, call, node, answering);
    None
}

/// Calls PreBind again about a pod that waits there. If the plugin no longer holds the pod, calls the points after
/// PreBind, or Unreserve. Returns the point at which the plugin now holds the pod.
pub(crate) fn pre_bind_again(
    plugin: &mut dyn Plugin,
    call: &Call<'_>,
    node: NodeIdx,
    answering: &mut Answering<'_>,
) -> Option<HeldAt> {
    answering.answers.pre_bind = ask_pre_bind(plugin, call, node, answering);
    bind_unless_waiting(plugin, call, node, answering)
}

/// Calls PreBindPreFlight, PreBind, Bind and PostBind until one of them rejects the pod, and then Unreserve. Returns
/// where the plugin holds the pod: nowhere, or at PreBind.
pub(crate) fn go_on(
    plugin: &mut dyn Plugin,
    call: &Call<'_>,
    node: NodeIdx,
    answering: &mut Answering<'_>,
) -> Option<HeldAt> {
    answering.answers.pre_bind = pre_bind(plugin, call, node, answering);
    bind_unless_waiting(plugin, call, node, answering)
}

fn bind_unless_waiting(
    plugin: &mut dyn Plugin,
    call: &Call<'_>,
    node: NodeIdx,
    answering: &mut Answering<'_>,
) -> Option<HeldAt> {
    if answering.answers.waits_at_pre_bind() {
        return Some(HeldAt::PreBind);
    }
    if answering.answers.lets_the_pod_be_bound() {
        bind(plugin, call, node, answering);
    }
    end(plugin, call, node, answering);
    None
}

fn unreserve(plugin: &mut dyn Plugin, call: &Call<'_>, node: NodeIdx, answering: &mut Answering<'_>) {
    let effects = ask_unreserve(plugin, call, node);
    answering.undone(&plugin.manifest().needs, call, &effects);
}

/// The effects of Unreserve.
pub(crate) fn ask_unreserve(plugin: &mut dyn Plugin, call: &Call<'_>, node: NodeIdx) -> Vec<Effect> {
    plugin.reserve().map_or_else(Vec::new, |point| point.unreserve(call, node))
}

fn reserve(plugin: &mut dyn Plugin, call: &Call<'_>, node: NodeIdx, answering: &mut Answering<'_>) {
    if let Some(point) = plugin.reserve() {
        answering.answers.reserve = PodAnswer::objection(point.reserve(call, node));
    }
}

fn permit(plugin: &mut dyn Plugin, call: &Call<'_>, node: NodeIdx, answering: &mut Answering<'_>) {
    if let Some(point) = plugin.permit() {
        let (verdict, effects) = point.permit(call, node);
        let needs = &plugin.manifest().needs;
        match verdict {
            PermitVerdict::Allow => answering.check(Point::Permit, needs, call, &effects, false),
            PermitVerdict::Wait(_) => answering.check(Point::Permit, needs, call, &effects, true),
            // The scheduler carries out no effect together with a rejection.
            PermitVerdict::Deny(_) => answering.check_grants(Point::Permit, call, &effects),
        }
        answering.answers.permit = PodAnswer::of_verdict(verdict, &effects).unless_empty();
    }
}

fn bind(plugin: &mut dyn Plugin, call: &Call<'_>, node: NodeIdx, answering: &mut Answering<'_>) {
    let Some(answer) = plugin.bind().map(|point| point.bind(call, node)) else { return };
    let effects = answer.as_deref().unwrap_or_default();
    answering.check(Point::Bind, &plugin.manifest().needs, call, effects, false);
    answering.answers.bind = PodAnswer::of_effects(answer).unless_empty();
}

/// Ends the attempt: calls PostBind, or Unreserve if a point rejects the pod.
fn end(plugin: &mut dyn Plugin, call: &Call<'_>, node: NodeIdx, answering: &mut Answering<'_>) {
    if !answering.answers.lets_the_pod_be_bound() {
        unreserve(plugin, call, node, answering);
    } else if let Some(point) = plugin.post_bind() {
        point.post_bind(call, node);
    }
}

fn pre_bind(
    plugin: &mut dyn Plugin,
    call: &Call<'_>,
    node: NodeIdx,
    answering: &mut Answering<'_>,
) -> Option<PodAnswer> {
    if let Some(point) = plugin.pre_bind_pre_flight()
        && let Err(status) = point.pre_bind_pre_flight(call, node)
    {
        return Some(status.into());
    }
    ask_pre_bind(plugin, call, node, answering)
}

fn ask_pre_bind(
    plugin: &mut dyn Plugin,
    call: &Call<'_>,
    node: NodeIdx,
    answering: &mut Answering<'_>,
) -> Option<PodAnswer> {
    let answer = plugin.pre_bind()?.pre_bind(call, node);
    let effects = answer.as_deref().unwrap_or_default();
    answering.check(Point::PreBind, &plugin.manifest().needs, call, effects, false);
    PodAnswer::of_effects(answer).unless_empty()
}

/// Calls PostFilter if no node passed. `by_others` are the rejections of other plugins. Its dry runs answer that the pod
/// fits wherever pods are removed.
pub(crate) fn post_filter(
    plugin: &mut dyn Plugin,
    call: &Call<'_>,
    answers: &Answers,
    by_others: &[RejectedNodes],
    answering: &mut Answering<'_>,
) -> Result<(), Status> {
    let n_nodes = call.table.nodes().len();
    let plugin_name = plugin.manifest().name.clone();
    let Some(point) = plugin.post_filter().filter(|_| !answers.passes && n_nodes > 0) else { return Ok(()) };
    let with_status = answers.rejected.iter().filter_map(|(name, status)| {
        let node = call.table.find(call.table.symbols.lookup(name)?)?;
        Some(RejectedNodes { status: status.clone(), nodes: NodeSet::from_iter([node]) })
    });
    let rejections: Vec<RejectedNodes> = by_others.iter().cloned().chain(with_status).collect();
    // Nodes that PreFilter leaves out also have this status in the scheduler.
    let left_out = answers.restriction.as_ref();
    let left_out = left_out.map(|_| Status::unresolvable(format!("node(s) didn't satisfy plugin(s) [{plugin_name}]")));
    let absent = answers.pre_filter.as_ref().or(left_out.as_ref());
    let failure = Failure { rejections: &rejections, absent, nominated: &[] };
    let PostFilterOutcome { status, nominate, effects } = match point.post_filter(call, &failure, &mut Fits) {
        Ok(outcome) => outcome,
        // The scheduler also treats a rejection as an outcome.
        Err(status) if status.code.is_rejected() => PostFilterOutcome { status, nominate: None, effects: Vec::new() },
        Err(status) => return Err(status),
    };
    answering.check(Point::PostFilter, &plugin.manifest().needs, call, &effects, false);
    let name = |node| call.table.symbols.text(call.table.name(node)).to_owned();
    let nominate = nominate.map(|node| node.map(name).unwrap_or_default());
    let effects = effects.iter().map(CaseEffect::from).collect();
    answering.answers.post_filter = Some(PodAnswer { nominate, effects, ..PodAnswer::of_status(status) });
    Ok(())
}

/// A dry run in which every node fits.
pub(crate) struct Fits;

impl DryRun for Fits {
    fn dry_run(&mut self, cases: &[Removal]) -> Result<Vec<Status>, Status> {
        Ok(cases.iter().map(|_| Status::success()).collect())
    }
}

impl PodAnswer {
    fn of_status(status: Status) -> Self {
        Self { code: Some(status.code), reasons: status.reasons, ..Self::default() }
    }

    /// The rejection of a status; `None` for success.
    fn objection(status: Status) -> Option<Self> {
        (!status.is_success()).then(|| Self::of_status(status))
    }

    fn of_verdict(verdict: PermitVerdict, effects: &[Effect]) -> Self {
        let effects = effects.iter().map(CaseEffect::from).collect();
        match verdict {
            PermitVerdict::Allow => Self { effects, ..Self::default() },
            PermitVerdict::Wait(milliseconds) => {
                Self { wait_milliseconds: Some(milliseconds), effects, ..Self::default() }
            }
            PermitVerdict::Deny(status) => Self { effects, ..Self::of_status(status) },
        }
    }

    fn of_effects(answer: Result<Vec<Effect>, Status>) -> Self {
        match answer {
            Ok(effects) => Self { effects: effects.iter().map(CaseEffect::from).collect(), ..Self::default() },
            Err(status) => Self::of_status(status),
        }
    }

    fn unless_empty(self) -> Option<Self> {
        (self != Self::default()).then_some(self)
    }
}

impl From<Status> for PodAnswer {
    fn from(status: Status) -> Self {
        Self::of_status(status)
    }
}
