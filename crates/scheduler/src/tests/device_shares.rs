//! What devices take of a node counts from the effects of PreBind on, with the gate DRANodeAllocatableResources (KEP-5517).

use berth_framework::{Effect, Grants};
use berth_model::{Feature, Features, NodeIdx, Sym, Time};
use serde_json::json;

use super::kit::{Bench, Shared, effects_finished, node, pod};
use crate::{Event, Scheduler, Settings};

/// A bench with one node, and a plugin that writes the share of two CPUs into the status of the pod `a`.
fn bench(is_on: bool) -> Bench {
    let features = Features::default().with(Feature::DRANodeAllocatableResources, is_on);
    let queue = berth_queue::Settings { features, ..berth_queue::Settings::default() };
    let script = Shared::default();
    let profiles = vec![Bench::profile("berth", &script, Grants::ALL)];
    let scheduler = Scheduler::new(Settings { queue, ..Settings::default() }, profiles);
    let mut bench = Bench { scheduler, script, now: Time(1_000_000_000), actions: Vec::new() };
    bench.event(Event::NodeApplied(Box::new(node("n0", 4))));
    bench.event(Event::Synced);
    let claims = json!([{"resourceClaimName": "c", "containers": ["main"], "resources": {"cpu": "2"}}]);
    let patch = json!({"status": {"nodeAllocatableResourceClaimStatuses": claims}});
    let effect = Effect::Patch {
        kind: "v1/Pod".to_owned(),
        namespace: pod("a", 1).metadata.namespace,
        name: "a".to_owned(),
        subresource: Some("status".to_owned()),
        patch: patch.to_string().into_bytes(),
    };
    bench.script(|script| script.pre_bind = vec![effect]);
    bench
}

/// The milli-CPU that the node's pods request.
fn requested(bench: &Bench) -> i64 {
    bench.scheduler.cache().table().requested().get(Sym::CPU, NodeIdx(0))
}

#[test]
fn a_share_counts_as_soon_as_it_is_written_and_until_the_binding_fails() {
    for (is_on, expected) in [(true, 3000), (false, 1000)] {
        let mut bench = bench(is_on);
        let mut pod = pod("a", 1);
        pod.json = Some(serde_json::to_vec(&pod).expect("it is data").into());
        bench.scheduler.handle(Event::PodApplied(Box::new(pod)), bench.now);
        let actions = bench.settle();
        assert_eq!((requested(&bench), bench.scheduler.cache().sizes().assumed_pods), (expected, 1));
        bench.event(effects_finished(&actions, Err("the API server is down")));
        assert_eq!((requested(&bench), bench.scheduler.cache().sizes().assumed_pods), (0, 0));
    }
}
