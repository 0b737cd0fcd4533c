//! With the gate DRANodeAllocatableResources (KEP-5517), the amounts that devices take from a node count from Reserve
//! on, or from the effects of PreBind on.

use berth_framework::{Effect, FACTS_API_VERSION, Fact, Grants, PatchType, PermitVerdict};
use berth_model::{Feature, Features, NodeIdx, Sym, Time};
use serde_json::{Value, json};

use super::kit::{Bench, Shared, binds, effects_finished, node, pod};
use crate::{Event, Scheduler, Settings};

/// The entries of a pod whose devices take two CPUs.
fn two_cpus() -> Value {
    json!([{"resourceClaimName": "c", "containers": ["main"], "resources": {"cpu": "2"}}])
}

/// A bench with one node.
fn bench(is_on: bool) -> Bench {
    let features = Features::default().with(Feature::DRANodeAllocatableResources, is_on);
    let queue = berth_queue::Settings { features, ..berth_queue::Settings::default() };
    let script = Shared::default();
    let profiles = vec![Bench::profile("berth", &script, Grants::ALL)];
    let scheduler = Scheduler::new(Settings { queue, ..Settings::default() }, profiles);
    let mut bench = Bench { scheduler, script, now: Time(1_000_000_000), actions: Vec::new() };
    bench.event(Event::NodeApplied(Box::new(node("n0", 4))));
    bench.event(Event::Synced);
    bench
}

/// The write of the share of two CPUs into the status of the pod `a`.
fn write() -> Effect {
    let patch = json!({"status": {"nodeAllocatableResourceClaimStatuses": two_cpus()}});
    Effect::Patch {
        kind: "v1/Pod".to_owned(),
        namespace: pod("a", 1).metadata.namespace,
        name: "a".to_owned(),
        subresource: Some("status".to_owned()),
        patch: patch.to_string().into_bytes(),
        patch_type: PatchType::Merge,
    }
}

/// The pod `a` requests one CPU.
fn apply_a(bench: &mut Bench) {
    let mut pod = pod("a", 1);
    pod.json = Some(serde_json::to_vec(&pod).expect("it is data").into());
    bench.scheduler.handle(Event::PodApplied(Box::new(pod)), bench.now);
}

/// The milli-CPU that the node's pods request.
fn requested(bench: &Bench) -> i64 {
    bench.scheduler.cache().table().requested().get(Sym::CPU, NodeIdx(0))
}

#[test]
fn a_share_counts_as_soon_as_it_is_written_and_until_the_binding_fails() {
    for (is_on, expected) in [(true, 3000), (false, 1000)] {
        let mut bench = bench(is_on);
        bench.script(|script| script.pre_bind = vec![write()]);
        apply_a(&mut bench);
        let actions = bench.settle();
        assert_eq!((requested(&bench), bench.scheduler.cache().sizes().assumed_pods), (expected, 1));
        bench.event(effects_finished(&actions, Err("the API server is down")));
        assert_eq!((requested(&bench), bench.scheduler.cache().sizes().assumed_pods), (0, 0));
    }
}

/// kube-scheduler counts the share from the time at which it assumes the pod.
#[test]
fn a_share_that_is_shared_at_reserve_counts_while_permit_holds_the_pod() {
    for (is_on, expected, n_bound) in [(true, 3000, 0), (false, 1000, 1)] {
        let mut bench = bench(is_on);
        bench.script(|script| {
            script.facts = vec![Fact::node_share("uid-a", two_cpus().to_string().into_bytes().into())];
            script.permit = Some(PermitVerdict::Wait(10_000));
        });
        apply_a(&mut bench);
        bench.settle();
        assert_eq!((requested(&bench), bench.scheduler.metrics().waiting_pods), (expected, 1));
        // Another pod gets only the CPUs that are left.
        bench.script(|script| script.permit = None);
        bench.apply(pod("b", 2));
        assert_eq!(binds(&bench.settle()).len(), n_bound);
        let objects = bench.scheduler.cache().table().objects();
        let kept = objects.get(FACTS_API_VERSION, "Fake", "", "node-share-uid-a");
        assert_eq!(kept, None, "no plugin gets the share");
    }
}
