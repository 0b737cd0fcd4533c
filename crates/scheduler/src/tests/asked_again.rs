//! The changes after which a plugin is asked again about a pod that waits, and the changes of which it learns nothing.

use std::sync::Arc;

use berth_framework::{DeltaSource as _, Effect, Grants, ObjectRef, PermitVerdict};
use berth_model::ObjectKey;

use super::{
    follow::catch_up,
    kit::{Bench, Shared, assigned, binds, events, node, pod, pod_maker, tally},
};
use crate::{BindingStage, ClusterView, Event, PodHolder, PodPlace};

fn object(kind: &str, namespace: &str, name: &str) -> ObjectRef {
    ObjectRef { kind: kind.to_owned(), namespace: namespace.to_owned(), name: name.to_owned() }
}

fn wait(objects: Vec<ObjectRef>, message: &str) -> Effect {
    Effect::Wait { objects, timeout_ms: 10_000, timeout_message: message.to_owned() }
}

/// The next answer of Permit holds the pod and waits for these objects.
fn hold(bench: &Bench, objects: Vec<ObjectRef>, message: &str) {
    bench.script(|script| {
        script.permit = Some(PermitVerdict::Wait(10_000));
        script.permit_effects = vec![wait(objects, message)];
    });
}

fn key(kind: &str, name: &str) -> ObjectKey {
    let [api_version, kind, namespace, name] = ["v1", kind, "default", name].map(str::to_owned);
    ObjectKey { api_version, kind, namespace, name }
}

/// The name under which plugins register for events of the kind. Pods have separate events.
fn resource(kind: &str) -> String {
    if kind == "Pod" { "pods.v1.".to_owned() } else { kind.to_owned() }
}

fn object_applied(kind: &str, name: &str) -> Event {
    Event::ObjectApplied { resource: resource(kind), key: key(kind, name), json: Arc::from(*b"{}") }
}

fn pod_deleted(name: &str) -> Event {
    Event::PodDeleted { namespace: "default".to_owned(), name: name.to_owned(), uid: format!("uid-{name}") }
}

/// The number of times that Permit was called for pod `a`.
fn n_asked(bench: &Bench) -> usize {
    bench.script(|script| tally(&script.calls).get("permit a ").copied().unwrap_or_default())
}

/// Pods come by the watch of pods, and as objects by another watch. The watch of objects is earlier in this test.
#[test]
fn a_pod_that_leaves_its_node_after_its_object_is_not_missed() {
    let mut bench = Bench::with_nodes(1, 4);
    bench.apply(assigned("holder", 1, "n0"));
    bench.event(object_applied("Pod", "holder"));
    hold(&bench, vec![object("v1/Pod", "default", "holder")], "");
    bench.apply(pod("a", 1));
    bench.settle();
    assert_eq!(n_asked(&bench), 1);
    hold(&bench, vec![object("v1/Pod", "default", "holder")], "");
    bench.event(Event::ObjectDeleted { resource: resource("Pod"), key: key("Pod", "holder") });
    assert!(binds(&bench.settle()).is_empty(), "the pod still counts on its node");
    assert_eq!(n_asked(&bench), 2);
    bench.script(|script| script.permit = None);
    bench.event(pod_deleted("holder"));
    assert_eq!(binds(&bench.settle()).len(), 1);
    assert_eq!(bench.script(|script| script.bound_at), bench.scheduler.cache().generation(), "the replica knows it");
}

#[test]
fn changes_of_pods_on_nodes_and_of_nodes_have_it_asked_again() {
    let mut bench = Bench::with_nodes(1, 4);
    let objects = || vec![object("v1/Pod", "default", "holder"), object("v1/Node", "", "n0")];
    hold(&bench, objects(), "");
    bench.apply(pod("a", 1));
    bench.settle();
    let changed = pod_maker("holder", 1).on("n0").resource_version("3").label("ready", "yes").build();
    let changes = [
        Event::PodApplied(Box::new(assigned("holder", 1, "n0"))),
        Event::PodApplied(Box::new(changed)),
        Event::NodeApplied(Box::new(node("n0", 8))),
        pod_deleted("holder"),
    ];
    for (change, n_before) in changes.into_iter().zip(1..) {
        assert_eq!(n_asked(&bench), n_before);
        hold(&bench, objects(), "");
        bench.event(change);
        bench.settle();
    }
    assert_eq!(n_asked(&bench), 5);
    hold(&bench, objects(), "");
    bench.apply(assigned("other", 1, "n0"));
    bench.event(Event::NodeApplied(Box::new(node("n1", 4))));
    bench.settle();
    assert_eq!(n_asked(&bench), 5, "others do not concern it");
}

/// A component that reads services.
fn component() -> Bench {
    let script = Shared::default();
    {
        let mut script = script.lock().expect("one thread");
        (script.reads_services, script.is_component) = (true, true);
    }
    let mut bench = Bench::with_profiles(vec![Bench::profile("berth", &script, Grants::ALL)], script);
    bench.event(Event::NodeApplied(Box::new(node("n0", 4))));
    bench.event(Event::Synced);
    bench
}

const NOT_ASKED: &str = "is not asked again when v1/Pod default/holder changes, because its manifest's `objects` do not \
                         name v1/Pod: add v1/Pod to `objects`, and grant `reads: [v1/Pod]`";

/// The part of the output of `berth explain` about the plugin that holds pod `a`.
fn explained(view: &mut ClusterView, bench: &mut Bench) -> PodHolder {
    catch_up(view, bench);
    let pod = view.find_pod("default", "a").expect("it is known");
    let PodPlace::Binding(binding) = pod.place() else { panic!("{:?}", pod.place()) };
    let (BindingStage::Permit(plugins) | BindingStage::PreBind(plugins)) = &binding.stage else {
        panic!("{:?}", binding.stage)
    };
    plugins[0].clone()
}

/// Without a message, a plugin would wait in vain.
#[test]
fn a_wait_for_a_kind_that_the_manifest_does_not_name_is_told() {
    let (mut bench, mut view) = (component(), ClusterView::default());
    let until = bench.now + 10_000;
    let objects = vec![object("v1/Pod", "default", "holder"), object("v1/Service", "default", "web")];
    hold(&bench, objects, "no endpoint is ready");
    bench.apply(pod("a", 1));
    let logged = format!("{:?}", bench.settle());
    assert!(logged.contains(&format!("plugin Fake {NOT_ASKED}")), "{logged}");
    let words = format!("waits to see v1/Service default/web changed: no endpoint is ready (the plugin {NOT_ASKED})");
    let held = PodHolder { plugin: "Fake".into(), since: bench.now, until, message: Some(words) };
    assert_eq!(explained(&mut view, &mut bench), held);
    bench.advance(1_000);
    let note = format!(
        "waits before it can be bound to node n0: plugin \"Fake\" waits until {} to see v1/Service default/web \
         changed: no endpoint is ready (the plugin {NOT_ASKED})",
        until.to_rfc3339()
    );
    assert_eq!(events(&bench.settle()), [("WaitingOnPermit".to_owned(), note)]);
    bench.apply(assigned("holder", 1, "n0"));
    bench.event(object_applied("Pod", "holder"));
    bench.settle();
    assert_eq!(n_asked(&bench), 1);
    // The newest answer replaces the earlier answer.
    hold(&bench, vec![object("v1/Service", "default", "api")], "still not ready");
    bench.event(object_applied("Service", "web"));
    assert!(!format!("{:?}", bench.settle()).contains("is not asked again"));
    let words = Some("waits to see v1/Service default/api changed: still not ready".to_owned());
    assert_eq!(explained(&mut view, &mut bench).message, words);
    bench.script(|script| script.permit = None);
    bench.event(object_applied("Service", "api"));
    assert_eq!(binds(&bench.settle()).len(), 1);
}

/// The manifest need not name pods for a wait for the pod itself.
#[test]
fn a_component_may_wait_for_the_pod_itself() {
    let mut bench = component();
    hold(&bench, vec![object("v1/Pod", "default", "a")], "the approval is missing");
    bench.apply(pod("a", 1));
    assert!(!format!("{:?}", bench.settle()).contains("is not asked again"));
    bench.script(|script| script.permit = None);
    bench.apply(pod_maker("a", 1).resource_version("2").label("approved", "yes").build());
    assert_eq!(binds(&bench.settle()).len(), 1);
}

#[test]
fn pre_bind_is_told_likewise() {
    let mut bench = component();
    bench.script(|script| script.pre_bind = vec![wait(vec![object("v1/Pod", "default", "holder")], "it is late")]);
    bench.apply(pod("a", 1));
    let logged = format!("{:?}", bench.settle());
    assert!(logged.contains(&format!("plugin Fake {NOT_ASKED}")), "{logged}");
    let (since, until) = (bench.now, bench.now + 10_000);
    bench.advance(1_000);
    let note = format!(
        "waits before it can be bound to node n0: plugin \"Fake\" waits until {}: it is late (the plugin {NOT_ASKED})",
        until.to_rfc3339()
    );
    assert_eq!(events(&bench.settle()), [("WaitingOnPreBind".to_owned(), note)]);
    let message = Some(format!("it is late (the plugin {NOT_ASKED})"));
    assert_eq!(
        explained(&mut ClusterView::default(), &mut bench),
        PodHolder { plugin: "Fake".into(), since, until, message }
    );
    bench.script(|script| script.pre_bind = Vec::new());
    bench.event(object_applied("Pod", "holder"));
    assert!(binds(&bench.settle()).is_empty());
    bench.advance(9_000);
    assert_eq!(events(&bench.settle())[0].1, "running PreBind plugin \"Fake\": it is late");
}
