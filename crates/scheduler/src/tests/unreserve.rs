//! The effects of plugins at Unreserve. No pod waits for them.

use berth_framework::{Effect, EffectKind, Grants, Permission, PermitVerdict, Point, Status, Verb};

use super::{
    kit::{Bench, Shared, assigned, bind_finished, node, pod},
    waiting::patch,
};
use crate::{Action, Event, Notice, PluginEffects, PodRequest, Request};

/// The effects that no pod waits for, each with the pod and the point.
fn requested(actions: &[Action]) -> Vec<(String, Point, Effect)> {
    let mut requested = Vec::new();
    for action in actions {
        if let Action::Pod(PodRequest { pod, request: Request::Effects(asked), .. }) = action {
            let PluginEffects { point, effects, .. } = asked;
            requested.extend(effects.iter().map(|granted| (pod.name.to_string(), *point, granted.effect.clone())));
        }
    }
    requested
}

/// The request for the effect of Unreserve about the pod `a`.
fn undone() -> Vec<(String, Point, Effect)> {
    vec![("a".to_owned(), Point::Reserve, patch())]
}

/// A bench whose plugin has an effect at Unreserve, and a pod `a`.
fn bench(change: impl FnOnce(&Bench)) -> Bench {
    let mut bench = Bench::with_nodes(2, 4);
    bench.script(|script| script.unreserve = vec![patch()]);
    change(&bench);
    bench.apply(pod("a", 1));
    bench
}

fn is_unreserved(bench: &Bench) -> bool {
    bench.script(|script| script.calls.contains(&"1 unreserve a 0".to_owned()))
}

#[test]
fn a_pod_that_is_rejected_is_unreserved_with_effects() {
    let taken = Status::unschedulable("taken");
    let mut at_reserve = bench(|bench| bench.script(|script| script.refuse_reserve = Some(taken.clone())));
    assert_eq!(requested(&at_reserve.settle()), undone());
    let mut at_permit = bench(|bench| bench.script(|script| script.permit = Some(PermitVerdict::Deny(taken.clone()))));
    assert_eq!(requested(&at_permit.settle()), undone());
}

#[test]
fn a_binding_that_fails_is_unreserved_with_effects() {
    let mut bench = bench(|_| {});
    let sent = bench.settle();
    assert!(requested(&sent).is_empty());
    bench.event(bind_finished(&sent, "a", Err("conflict")));
    assert_eq!(requested(&bench.settle()), undone());
}

#[test]
fn a_pod_that_is_deleted_is_unreserved_with_effects() {
    let mut bench = bench(|_| {});
    bench.settle();
    let [namespace, name, uid] = ["default", "a", "uid-a"].map(str::to_owned);
    bench.event(Event::PodDeleted { namespace, name, uid });
    assert_eq!(requested(&bench.settle()), undone());
}

/// The pod may need what the plugin wrote for it.
#[test]
fn a_pod_that_another_scheduler_bound_has_no_effects() {
    let mut bench = bench(|_| {});
    bench.settle();
    bench.apply(assigned("a", 1, "n1"));
    assert!(requested(&bench.settle()).is_empty());
    assert!(is_unreserved(&bench));
}

#[test]
fn effects_of_unreserve_need_grants() {
    let script = Shared::default();
    let profile = Bench::profile("berth", &script, Grants::default().with(Permission::Bind));
    let mut bench = Bench::with_profiles(vec![profile], script);
    bench.script(|script| script.unreserve = vec![patch()]);
    bench.event(Event::NodeApplied(Box::new(node("n0", 4))));
    bench.event(Event::Synced);
    bench.apply(pod("a", 1));
    let sent = bench.settle();
    bench.event(bind_finished(&sent, "a", Err("conflict")));
    let actions = bench.settle();
    assert!(requested(&actions).is_empty());
    let refused = |action: &Action| match action {
        Action::Notice(Notice::EffectRefused { effect, count, .. }) => Some((*effect, *count)),
        _ => None,
    };
    let refused: Vec<(EffectKind, u32)> = actions.iter().filter_map(refused).collect();
    assert_eq!(refused, [(EffectKind::Object(Verb::Patch), 1)]);
    assert_eq!(bench.scheduler.metrics().pending_pods.backoff, 1, "the pod is tried again");
}

#[test]
fn a_plugin_without_time_asks_for_its_effects_later() {
    for is_bound_meanwhile in [false, true] {
        let mut bench = bench(|_| {});
        let sent = bench.settle();
        bench.script(|script| script.has_no_time = true);
        bench.event(bind_finished(&sent, "a", Err("conflict")));
        assert!(requested(&bench.settle()).is_empty());
        assert!(!is_unreserved(&bench));
        if is_bound_meanwhile {
            bench.apply(assigned("a", 1, "n0"));
        }
        bench.script(|script| script.has_no_time = false);
        let expected = if is_bound_meanwhile { Vec::new() } else { undone() };
        assert_eq!(requested(&bench.settle()), expected);
        assert!(is_unreserved(&bench));
    }
}
