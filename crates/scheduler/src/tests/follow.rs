//! A copy that applies all changes equals the scheduler.

use std::{collections::BTreeMap, sync::Arc};

use berth_model::{Pod, Sym};
use berth_queue::SubQueue;

use berth_framework::DeltaSource as _;

use super::kit::{Bench, assigned, node, pod, pod_maker};
use crate::{
    BindingStage, ChangeBatch, ClusterView, CopyKind, Event, FollowedPod, PodHolder, PodPlace, Scheduler, Totals,
};

/// Applies the changes until none are left.
pub(super) fn catch_up(view: &mut ClusterView, bench: &mut Bench) {
    catch_up_as(CopyKind::Shown, view, bench);
}

/// [`catch_up`] for a copy of either kind.
pub(super) fn catch_up_as(copy: CopyKind, view: &mut ClusterView, bench: &mut Bench) {
    loop {
        view.apply(bench.scheduler.changes_for(copy, bench.now));
        if view.is_complete() {
            return;
        }
    }
}

/// The pods by uid, with place and node.
fn of_view(view: &ClusterView) -> BTreeMap<String, String> {
    let text = |sym: Sym| view.table().symbols.text(sym);
    let show = |pod: crate::PodView<'_>| {
        let place = match pod.place() {
            PodPlace::Queued(waiting) => queued(waiting.queue, &waiting.record.rejectors, waiting.record.attempts),
            PodPlace::Binding(binding) => format!("on {}, assumed: true", text(binding.node)),
            PodPlace::Assumed { node } => format!("on {}, assumed: true", text(*node)),
            PodPlace::Bound { node } => format!("on {}, assumed: false", text(*node)),
            PodPlace::Unscheduled => return None,
        };
        Some((pod.pod().uid.to_string(), format!("{} {place}, nominated: {}", pod.name(), pod.nominated_node())))
    };
    view.pod_list().pods().filter_map(show).collect()
}

fn of_scheduler(scheduler: &Scheduler) -> BTreeMap<String, String> {
    let symbols = &scheduler.cache().table().symbols;
    let nominated = |uid: &str| symbols.text(scheduler.queue().nominator().node_of(uid).unwrap_or_default());
    let waiting = scheduler
        .queue()
        .iter()
        .map(|(record, queue)| (&record.pod, queued(queue, &record.rejectors, record.attempts)));
    let placed = scheduler
        .cache()
        .pods()
        .map(|cached| (cached.pod(), format!("on {}, assumed: {}", symbols.text(cached.node()), cached.is_assumed())));
    let pods = placed.chain(waiting);
    pods.map(|(pod, place)| (pod.uid.to_string(), format!("{} {place}, nominated: {}", pod.name, nominated(&pod.uid))))
        .collect()
}

fn queued(queue: SubQueue, rejectors: &[Arc<str>], attempts: u32) -> String {
    format!("in {}, rejected by {rejectors:?} in attempt {attempts}", queue.as_str())
}

fn nodes(table: &berth_model::ClusterTable) -> BTreeMap<String, (i64, i64, i64)> {
    let node = |idx| {
        let name = table.symbols.text(table.name(idx)).to_owned();
        let n_pods = table.pod_counts().get(idx.index()).copied().unwrap_or(0);
        (name, (table.allocatable().get(Sym::CPU, idx), table.requested().get(Sym::CPU, idx), n_pods))
    };
    table.nodes().iter().map(node).collect()
}

pub(super) fn assert_same(view: &ClusterView, scheduler: &Scheduler) {
    assert_same_pods(view, scheduler);
    assert_eq!(nodes(view.table()), nodes(scheduler.cache().table()));
}

/// Compares the pods of a copy with the scheduler's pods, and the totals of the copy with the scheduler's totals.
pub(super) fn assert_same_pods(view: &ClusterView, scheduler: &Scheduler) {
    assert_eq!(of_view(view), of_scheduler(scheduler));
    let now = view.as_of();
    let mut totals = Totals { as_of: now, nodes: view.table().n_nodes(), ..Totals::default() };
    for pod in view.pods() {
        match pod.place() {
            PodPlace::Queued(waiting) => {
                totals.longest_wait = totals.longest_wait.max(now.since(waiting.record.queued_at));
            }
            PodPlace::Binding(_) => totals.bindings += 1,
            PodPlace::Assumed { .. } | PodPlace::Bound { .. } | PodPlace::Unscheduled => {}
        }
    }
    assert_eq!(scheduler.totals(now), totals);
}

#[test]
fn a_copy_comes_in_portions_while_the_cluster_changes() {
    let mut bench = Bench::with_nodes(1_500, 1);
    for index in 0..3_000 {
        bench.apply(pod_maker(&format!("p{index}"), 1).build());
        if index % 500 == 499 {
            bench.settle();
        }
    }
    let mut view = ClusterView::default();
    let mut n_batches = 0;
    while !view.is_complete() {
        let batch = bench.scheduler.changes(bench.now);
        assert!(batch.nodes.len() + batch.pods.len() <= 1_026, "a node goes with its pods");
        assert_eq!(batch.is_first, n_batches == 0);
        view.apply(batch);
        bench.apply(pod_maker(&format!("late{n_batches}"), 1).build());
        bench.event(Event::NodeDeleted { name: format!("n{n_batches}") });
        bench.event(Event::NodeApplied(Box::new(node(&format!("new{n_batches}"), 1))));
        bench.settle();
        n_batches += 1;
        assert!(n_batches < 100, "the copy is never whole");
        if n_batches > 20 {
            catch_up(&mut view, &mut bench);
        }
    }
    assert!(n_batches > 4);
    catch_up(&mut view, &mut bench);
    assert_same(&view, &bench.scheduler);
    assert!(view.find_pod("default", "late0").is_some());
}

#[test]
fn a_copy_that_does_not_keep_up_begins_again() {
    let mut bench = Bench::with_nodes(1, 1);
    let mut view = ClusterView::default();
    catch_up(&mut view, &mut bench);
    for index in 0..(1 << 16) + 10 {
        bench.event(Event::NodeApplied(Box::new(node("n0", 1 + index % 2))));
        let name = format!("p{index}");
        bench.apply(pod_maker(&name, 1).build());
        let (namespace, uid) = ("default".to_owned(), format!("uid-{name}"));
        bench.event(Event::PodDeleted { namespace, name, uid });
    }
    let batch = bench.scheduler.changes(bench.now);
    assert!(batch.is_first, "the number of noted changes is limited, so the view starts again");
    view.apply(batch);
    catch_up(&mut view, &mut bench);
    assert_same(&view, &bench.scheduler);
}

#[test]
fn pods_are_put_on_nodes_when_somebody_reads_nodes() {
    let mut bench = Bench::with_nodes(3, 2);
    for index in 0..8 {
        bench.apply(pod_maker(&format!("p{index}"), 1).build());
    }
    let actions = bench.settle();
    bench.event(super::kit::bind_finished(&actions, "p0", Ok(())));
    let mut view = ClusterView::of_pods_only();
    catch_up(&mut view, &mut bench);
    assert_same_pods(&view, &bench.scheduler);
    assert_eq!(view.cache().sizes().pods, 0, "a list of pods costs no work on nodes");
    view.put_pods_on_nodes();
    assert_same(&view, &bench.scheduler);
    bench.event(Event::NodeDeleted { name: "n2".to_owned() });
    bench.event(Event::NodeApplied(Box::new(node("n9", 2))));
    bench.settle();
    catch_up(&mut view, &mut bench);
    assert_same(&view, &bench.scheduler);
    view.take_pods_off_nodes();
    assert_eq!(view.cache().sizes().pods, 0);
    bench.apply(assigned("p0", 1, "n9"));
    catch_up(&mut view, &mut bench);
    assert_same_pods(&view, &bench.scheduler);
    view.put_pods_on_nodes();
    assert_same(&view, &bench.scheduler);
}

#[test]
fn a_list_of_pods_that_begins_again_is_still_a_list() {
    let mut bench = Bench::with_nodes(1, 2);
    bench.apply(pod_maker("p", 1).build());
    bench.settle();
    let mut view = ClusterView::of_pods_only();
    catch_up(&mut view, &mut bench);
    bench.scheduler.end_following();
    catch_up(&mut view, &mut bench);
    assert_eq!((view.cache().sizes().pods, view.table().n_nodes()), (0, 1));
    assert_same_pods(&view, &bench.scheduler);
}

#[test]
fn a_pod_at_permit_names_the_plugin_that_holds_it() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.permit = Some(berth_framework::PermitVerdict::Wait(5_000)));
    bench.apply(pod_maker("held", 1).build());
    bench.settle();
    let mut view = ClusterView::default();
    catch_up(&mut view, &mut bench);
    let pod = view.find_pod("default", "held").expect("it is known");
    let PodPlace::Binding(binding) = pod.place() else { panic!("{:?}", pod.place()) };
    let until = bench.now + 5_000;
    let held = PodHolder { plugin: "Fake".into(), since: bench.now, until, message: None };
    assert_eq!(binding.stage, BindingStage::Permit(vec![held]));
    assert_eq!(view.as_of(), bench.now);
}

/// A bound pod called `short`. A plugin at Reserve that follows pods does not know it yet.
fn with_bound_pod(follows_pods: bool) -> Bench {
    let mut bench = Bench::with_nodes(1, 4);
    bench.script(|script| script.follows_pods = follows_pods);
    bench.swap("2");
    bench.settle();
    bench.apply(pod("short", 1));
    let actions = bench.settle();
    bench.event(super::kit::bind_finished(&actions, "short", Ok(())));
    bench.apply(assigned("short", 1, "n0"));
    bench.settle();
    bench
}

fn delete_bound_pod(bench: &mut Bench) {
    let (namespace, name, uid) = ("default".to_owned(), "short".to_owned(), "uid-short".to_owned());
    bench.event(Event::PodDeleted { namespace, name, uid });
}

/// A plugin releases its reservations for a pod when it learns that the pod left. For this, the plugin must first have
/// learned that the pod came.
#[test]
fn a_plugin_at_reserve_hears_of_a_pod_that_leaves_before_anything_else_is_asked() {
    for follows_pods in [true, false] {
        let mut bench = with_bound_pod(follows_pods);
        let with_the_pod = bench.scheduler.cache().generation();
        assert!(bench.script(|script| script.synced_to) < with_the_pod);
        delete_bound_pod(&mut bench);
        assert!(bench.scheduler.cache().pod("uid-short").is_none());
        assert_eq!(bench.script(|script| script.synced_to) == with_the_pod, follows_pods);
    }
}

#[test]
fn a_plugin_at_reserve_without_time_hears_later_of_a_pod_that_leaves() {
    let mut bench = with_bound_pod(true);
    let with_the_pod = bench.scheduler.cache().generation();
    bench.script(|script| {
        script.has_no_time = true;
        script.calls.clear();
    });
    delete_bound_pod(&mut bench);
    bench.apply(pod("next", 1));
    bench.settle();
    assert_eq!(bench.script(|script| std::mem::take(&mut script.calls)), [format!("keep {with_the_pod}")]);
    bench.script(|script| script.has_no_time = false);
    bench.advance(2000);
    bench.settle();
    let calls = bench.script(|script| script.calls.clone());
    assert_eq!(calls.first().map(String::as_str), Some("kept"), "before it is asked about the next pod: {calls:?}");
    assert!(calls.len() > 1);
}

#[test]
fn two_copies_follow_at_their_own_pace() {
    let mut bench = Bench::with_nodes(2, 1);
    let (mut view, mut other) = (ClusterView::default(), ClusterView::default());
    catch_up(&mut view, &mut bench);
    bench.apply(pod_maker("early", 1).build());
    bench.settle();
    catch_up_as(CopyKind::Asked, &mut other, &mut bench);
    assert_same(&other, &bench.scheduler);
    assert!(view.find_pod("default", "early").is_none(), "the first copy has not asked again");
    bench.apply(pod_maker("late", 1).build());
    bench.settle();
    bench.scheduler.end_following_of(CopyKind::Asked);
    catch_up(&mut view, &mut bench);
    assert_same(&view, &bench.scheduler);
    assert!(!bench.scheduler.changes(bench.now).is_first, "the end of the other copy is not the end of this one");
    assert!(bench.scheduler.changes_for(CopyKind::Asked, bench.now).is_first, "the other copy begins again");
}

/// The changes of a batch have no particular order: a pod may come before another pod with its name leaves.
#[test]
fn a_pod_is_found_by_its_name_after_another_pod_had_it() {
    let mut bench = Bench::with_nodes(1, 1);
    let mut view = ClusterView::default();
    let uid = |round: u32| format!("uid-{round}");
    let delete = |round: u32| {
        let (namespace, name) = ("default".to_owned(), "web".to_owned());
        Event::PodDeleted { namespace, name, uid: uid(round) }
    };
    for round in 0..32 {
        if round > 0 {
            bench.event(delete(round - 1));
        }
        bench.apply(pod_maker("web", 1).uid(&uid(round)).build());
        catch_up(&mut view, &mut bench);
        let found = view.find_pod("default", "web").map(|pod| pod.pod().uid.to_string());
        assert_eq!(found, Some(uid(round)));
    }
    bench.event(delete(31));
    catch_up(&mut view, &mut bench);
    assert!(view.find_pod("default", "web").is_none());
}

/// The question is about the pod that leaves. The other pod has come already.
#[test]
fn a_question_about_a_pod_leaves_its_name_to_another_pod() {
    let mut bench = Bench::with_nodes(1, 1);
    let mut view = ClusterView::default();
    bench.apply(pod_maker("web", 1).uid("uid-0").build());
    catch_up(&mut view, &mut bench);
    let pod = view.pod("uid-0").map(|pod| Pod { uid: "uid-1".into(), ..Pod::clone(pod.pod()) }).expect("it is known");
    let (limits, nominated_node, place) = (None, Sym::NONE, PodPlace::Unscheduled);
    let other = FollowedPod { pod: Arc::new(pod), limits, nominated_node, place };
    view.apply(ChangeBatch { pods: vec![("uid-1".into(), Some(other))], ..ChangeBatch::default() });
    view.without_pod("uid-0", |_| ());
    let found = |view: &ClusterView| view.find_pod("default", "web").map(|pod| pod.pod().uid.to_string());
    assert_eq!(found(&view).as_deref(), Some("uid-1"));
    view.apply(ChangeBatch { pods: vec![("uid-0".into(), None)], ..ChangeBatch::default() });
    assert_eq!(found(&view).as_deref(), Some("uid-1"));
}
