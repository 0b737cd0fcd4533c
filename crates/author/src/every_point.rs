//! Calls every extension point that a plugin implements, because a component may export a point without code for it.

use berth_framework::{Call, Effect, Failure, Plugin, Point, RejectedNodes, Status};
use berth_model::{NodeIdx, NodeSet, ObjectKey, Pod, api};

use crate::{
    every_hint::{EventObjects, ask_hint},
    harness::PluginHarness,
    ignored::not_objects,
    placing::Fits,
};

/// Calls the extension points for a pod in their order, until the plugin rejects the pod. After Reserve, Unreserve is
/// called once, as when a binding fails. QueueingHint is called for events about the pod `placed`, which is on a node,
/// and for events about `others`, which are objects of other kinds with their JSON.
///
/// # Errors
/// The plugin lost its instance, or asked for an effect that the scheduler cannot send. The error is the status of the
/// first call that failed. Other parts of answers are not checked.
pub(crate) fn call_every_point(
    harness: &mut PluginHarness,
    pod: &Pod,
    placed: &Pod,
    others: &[(ObjectKey, Vec<u8>)],
) -> Result<(), Status> {
    let metadata = api::ObjectMeta { name: "new".to_owned(), ..api::ObjectMeta::default() };
    let node = harness.cluster_mut().intern_node(&api::Node { metadata, ..api::Node::default() });
    harness.sync()?;
    let (plugin, cluster) = harness.parts();
    let table = cluster.table();
    if let Some(point) = plugin.pre_enqueue() {
        let status = point.pre_enqueue(pod, table);
        lives(plugin, Some(status))?;
    }
    if let Some(point) = plugin.queue_sort() {
        point.sort_key(pod, 0);
        lives(plugin, None)?;
    }
    if let Some(point) = plugin.sign() {
        point.sign(pod);
        lives(plugin, None)?;
    }
    ask_hint(plugin, table, &EventObjects { pod, placed, node: &node, others })?;
    if let Some(hook) = plugin.state() {
        hook.snapshot();
        lives(plugin, None)?;
    }
    harness.in_cycle(pod, cycle)
}

/// Calls the points of a cycle. PostFilter is called in any case, since other plugins may reject pods that the plugin
/// accepts.
fn cycle(plugin: &mut dyn Plugin, call: &Call<'_>) -> Result<(), Status> {
    let about_nodes = berth_testing::ask(plugin, call);
    lives(plugin, about_nodes.as_ref().err().cloned())?;
    let Ok(about_nodes) = about_nodes else { return Ok(()) };
    let all = call.table.nodes();
    for node in [None].into_iter().chain(all.iter().next().map(Some)) {
        if let Some(point) = plugin.explain() {
            let words = point.explain(call, node);
            lives(plugin, words.err())?;
        }
    }
    if let Some(point) = plugin.post_filter() {
        let rejected =
            RejectedNodes { status: Status::unschedulable("no other plugin lets it pass"), nodes: all.clone() };
        let failure = Failure { rejections: &[rejected], ..Failure::default() };
        let answer = point.post_filter(call, &failure, &mut Fits);
        let sent = answer.as_ref().map_or(Ok(()), |outcome| can_be_sent(Point::PostFilter, &outcome.effects));
        lives(plugin, answer.err())?;
        sent?;
    }
    let is_rejected =
        |node: &NodeIdx| about_nodes.rejected.contains_key(call.table.symbols.text(call.table.name(*node)));
    let passed: NodeSet = all.iter().filter(|node| !is_rejected(node)).collect();
    match passed.iter().next().filter(|_| about_nodes.pre_filter.is_none()) {
        Some(node) => to_node(plugin, call, node),
        None => Ok(()),
    }
}

/// Calls the points from Reserve on.
fn to_node(plugin: &mut dyn Plugin, call: &Call<'_>, node: NodeIdx) -> Result<(), Status> {
    if let Some(point) = plugin.reserve() {
        let status = point.reserve(call, node);
        lives(plugin, Some(status))?;
        if let Some(point) = plugin.reserve() {
            let effects = point.unreserve(call, node);
            lives(plugin, None)?;
            can_be_sent(Point::Reserve, &effects)?;
        }
        if let Some(point) = plugin.reserve() {
            let status = point.reserve(call, node);
            if !status.is_success() {
                return lives(plugin, Some(status));
            }
        }
    }
    if let Some(point) = plugin.permit() {
        let (_, effects) = point.permit(call, node);
        lives(plugin, None)?;
        can_be_sent(Point::Permit, &effects)?;
    }
    if let Some(point) = plugin.pre_bind_pre_flight() {
        let answer = point.pre_bind_pre_flight(call, node);
        lives(plugin, answer.err())?;
    }
    if let Some(point) = plugin.pre_bind() {
        let answer = point.pre_bind(call, node);
        let sent = answer.as_deref().map_or(Ok(()), |effects| can_be_sent(Point::PreBind, effects));
        lives(plugin, answer.err())?;
        sent?;
    }
    if let Some(point) = plugin.bind() {
        let answer = point.bind(call, node);
        let sent = answer.as_deref().map_or(Ok(()), |effects| can_be_sent(Point::Bind, effects));
        lives(plugin, answer.err())?;
        sent?;
    }
    if let Some(point) = plugin.post_bind() {
        point.post_bind(call, node);
    }
    lives(plugin, None)
}

/// # Errors
/// The scheduler cannot send one of the effects.
fn can_be_sent(point: Point, effects: &[Effect]) -> Result<(), Status> {
    not_objects(point, effects).into_iter().next().map_or(Ok(()), |line| Err(Status::error(line)))
}

/// # Errors
/// The plugin no longer has an instance. `answer` is the status of the last call; `None` if the call has no status.
fn lives(plugin: &mut dyn Plugin, answer: Option<Status>) -> Result<(), Status> {
    plugin.out_of_service().map_or(Ok(()), |status| Err(answer.unwrap_or(status)))
}
