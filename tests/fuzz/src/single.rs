//! One plugin alone, at every point that the plugin implements, regardless of the answers of other plugins.

use berth_framework::{Call, CycleId, DryRun, DryRunCase, EventSubject, Failure, HintCall, Plugin, Removal, Status};
use berth_model::{Node, NodeIdx, NodeSet, ObjectKey, Pod, PodIdx};

use crate::cluster::FuzzCluster;

const CYCLE: CycleId = CycleId(7);

/// Every node becomes free.
struct AllFits;

impl DryRun for AllFits {
    fn dry_run(&mut self, cases: &[Removal]) -> Result<Vec<Status>, Status> {
        Ok(vec![Status::success(); cases.len()])
    }
}

/// Asks `plugin` at all points. Its answers must agree with each other.
pub(crate) fn ask(plugin: &mut dyn Plugin, cluster: &FuzzCluster, pod: &Pod) {
    let call = cluster.cluster.call(CYCLE.0, pod);
    if let Some(point) = plugin.pre_enqueue() {
        point.pre_enqueue(pod, call.table);
    }
    if let Some(point) = plugin.queue_sort() {
        point.sort_key(pod, i64::MAX);
        point.sort_key(pod, 0);
    }
    if let Some(point) = plugin.sign() {
        point.sign(pod);
    }
    let is_ready = plugin.pre_filter().is_none_or(|point| point.pre_filter(&call).is_ok());
    let mut nodes = call.table.nodes().clone();
    if is_ready {
        nodes = filter(plugin, &call, cluster);
    }
    post_filter(plugin, &call, cluster);
    score(plugin, &call, &nodes);
    for node in nodes.iter().take(2) {
        place(plugin, &call, node);
    }
    hints(plugin, cluster, pod);
    if let Some(state) = plugin.state() {
        let saved = state.snapshot();
        assert!(state.restore(&saved).is_ok(), "a plugin must take back the state that it gave");
        for object in cluster.others.iter().take(4) {
            let _ = state.restore(object.to_string().as_bytes());
        }
    }
    plugin.end_cycle(CYCLE);
}

/// The nodes that pass. Filter, node-to-status and a dry run without changes must give the same answers.
fn filter(plugin: &mut dyn Plugin, call: &Call<'_>, cluster: &FuzzCluster) -> NodeSet {
    let name = plugin.manifest().name.clone();
    let all = call.table.nodes().clone();
    let Some(point) = plugin.filter() else { return all };
    let mut passed = all.clone();
    let answer = point.filter(call, &mut passed);
    let mut rejected = all.clone();
    rejected.subtract(&passed);
    let with_status = point.node_to_status(call, &rejected);
    let unchanged: Vec<DryRunCase> = all.iter().map(|node| DryRunCase { node, ..DryRunCase::default() }).collect();
    let dry = point.dry_run(call, &[], &unchanged);
    if answer.is_ok() {
        assert!(passed.is_subset(&all), "{name} let nodes pass that it was not asked about");
        if let Ok(with_status) = with_status {
            let mut told = NodeSet::default();
            with_status.iter().filter(|it| !it.status.is_success()).for_each(|it| told.union(&it.nodes));
            assert!(rejected.is_subset(&told), "{name} rejects nodes without a reason");
        }
        if let Ok(statuses) = dry {
            let fits: NodeSet = all.iter().zip(&statuses).filter(|(_, it)| it.is_success()).map(|(it, _)| it).collect();
            assert_eq!(statuses.len(), unchanged.len(), "{name}: a status for each case");
            assert!(fits.is_subset(&passed) && passed.is_subset(&fits), "{name}: Filter and dry run differ");
        }
    }
    changed_nodes(plugin, call, cluster);
    if answer.is_ok() { passed } else { all }
}

/// Asks about nodes without each of their pods, and with each nominated pod and the pod itself in addition.
fn changed_nodes(plugin: &mut dyn Plugin, call: &Call<'_>, cluster: &FuzzCluster) {
    let Some(point) = plugin.filter() else { return };
    let placed: Vec<(NodeIdx, &Pod)> = call.table.pods().iter().map(|(_, pod, node)| (node, &**pod)).take(16).collect();
    let mut pods: Vec<&Pod> = placed.iter().map(|(_, pod)| *pod).collect();
    pods.push(call.pod);
    pods.extend(cluster.cluster.pending_pods().map(|pod| &**pod));
    let index = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let mut cases: Vec<DryRunCase> = Vec::new();
    for node in call.table.nodes().iter().take(8) {
        let here = placed.iter().enumerate().filter(|(_, (on, _))| *on == node).map(|(at, _)| index(at));
        let others = (placed.len()..pods.len()).map(index);
        cases.push(DryRunCase { node, minus: here.collect(), plus: others.collect() });
    }
    if let Ok(statuses) = point.dry_run(call, &pods, &cases) {
        assert_eq!(statuses.len(), cases.len(), "a status for each case");
    }
}

fn post_filter(plugin: &mut dyn Plugin, call: &Call<'_>, cluster: &FuzzCluster) {
    let Some(point) = plugin.post_filter() else { return };
    let nominated = cluster.cluster.nominated_pods(call.pod).all();
    let absent = Status::unschedulable("no");
    let failure = Failure { rejections: &[], absent: Some(&absent), nominated: &nominated };
    let _ = point.post_filter(call, &failure, &mut AllFits);
}

fn score(plugin: &mut dyn Plugin, call: &Call<'_>, nodes: &NodeSet) {
    if let Some(point) = plugin.pre_score()
        && point.pre_score(call, nodes).is_err()
    {
        return;
    }
    let mut scores = Vec::new();
    if let Some(point) = plugin.score()
        && point.score(call, nodes, &mut scores).is_err()
    {
        return;
    }
    if scores.is_empty() {
        return;
    }
    assert_eq!(scores.len(), nodes.len(), "a score for each node");
    if let Some(point) = plugin.normalize() {
        let _ = point.normalize(call, nodes, &mut scores);
    }
}

fn place(plugin: &mut dyn Plugin, call: &Call<'_>, node: NodeIdx) {
    if let Some(point) = plugin.reserve() {
        point.reserve(call, node);
    }
    if let Some(point) = plugin.permit() {
        point.permit(call, node);
    }
    if let Some(point) = plugin.pre_bind_pre_flight() {
        let _ = point.pre_bind_pre_flight(call, node);
    }
    for _ in 0..2 {
        if let Some(point) = plugin.pre_bind() {
            let _ = point.pre_bind(call, node);
        }
    }
    if let Some(point) = plugin.bind() {
        let _ = point.bind(call, node);
    }
    if let Some(point) = plugin.reserve() {
        point.unreserve(call, node);
        point.unreserve(call, node);
    }
}

/// Every event that the plugin waits for, with subjects of all kinds before and after.
fn hints(plugin: &mut dyn Plugin, cluster: &FuzzCluster, pod: &Pod) {
    let events = plugin.manifest().events_to_register.clone().unwrap_or_default();
    let Some(point) = plugin.queueing_hint() else { return };
    let table = cluster.cluster.table();
    let shown: Vec<(ObjectKey, Vec<u8>)> =
        cluster.others.iter().take(8).map(|object| (ObjectKey::of(object), object.to_string().into_bytes())).collect();
    let mut subjects: Vec<EventSubject<'_>> = Vec::new();
    for (at, (key, new)) in shown.iter().enumerate() {
        let old = shown.get((at + 1) % shown.len()).map(|(_, json)| json.as_slice());
        let [some, none] = [Some(new.as_slice()), None];
        subjects.extend(
            [(old, some), (some, some), (some, none), (none, some)].map(|(old, new)| EventSubject::Object {
                key,
                old,
                new,
            }),
        );
    }
    let placed: Vec<&Pod> = table.pods().iter().map(|(_, pod, _)| &**pod).take(4).collect();
    for other in placed.into_iter().chain([pod]) {
        let [some, none] = [Some(other), None];
        subjects.extend(
            [(some, some), (some, none), (none, some), (Some(pod), some)]
                .map(|(old, new)| EventSubject::Pod { old, new }),
        );
    }
    let cache = cluster.cluster.cache();
    let node = |node| cache.node(table.name(node)).and_then(|node| node.row()).map(|(_, node)| node);
    let nodes: Vec<&Node> = table.nodes().iter().take(4).filter_map(node).collect();
    for (at, &node) in nodes.iter().enumerate() {
        let old = nodes.get((at + 1) % nodes.len()).copied();
        subjects.extend(
            [(old, Some(node)), (None, Some(node)), (old, None)].map(|(old, new)| EventSubject::Node { old, new }),
        );
    }
    for event in &events {
        for &subject in &subjects {
            point.queueing_hint(&HintCall { table, pod, event, subject });
        }
    }
}

/// Pods of a node, for dry runs of preemption.
pub(crate) fn pods_on(cluster: &FuzzCluster, node: NodeIdx) -> Vec<PodIdx> {
    cluster.cluster.table().pods().on(node).map(|(idx, _)| idx).collect()
}
