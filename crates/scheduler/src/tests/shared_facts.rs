//! Plugins share what they reserved with other plugins and profiles.

use berth_framework::{FACTS_API_VERSION, Fact, Grants, Profile};
use berth_model::ObjectKey;
use serde_json::json;

use super::kit::{Bench, Shared, bind_finished, node, pod, pod_maker};
use crate::Event;

fn fact(json: Option<&str>) -> Fact {
    Fact { name: "gpu".to_owned(), json: json.map(|json| json.as_bytes().into()) }
}

/// A bench with a node and the profiles `berth` and `other`.
fn bench() -> Bench {
    let script = Shared::default();
    let profile = |scheduler_name| Bench::profile(scheduler_name, &script, Grants::ALL);
    let mut bench = Bench::with_profiles(vec![profile("berth"), profile("other")], script.clone());
    bench.event(Event::NodeApplied(Box::new(node("n0", 4))));
    bench.event(Event::Synced);
    bench
}

impl Bench {
    /// The content of the fact that all plugins see.
    fn shared(&self) -> Option<String> {
        let (api_version, namespace) = (FACTS_API_VERSION.to_owned(), String::new());
        let key = ObjectKey { api_version, kind: "Fake".to_owned(), namespace, name: "gpu".to_owned() };
        let objects = self.scheduler.cache().table().objects();
        let json = objects.get(&key.api_version, &key.kind, &key.namespace, &key.name);
        let known = self.scheduler.cache().object(&key);
        assert_eq!(known, json, "replicas get the objects of the cache");
        json.map(|json| String::from_utf8_lossy(json).into_owned())
    }

    fn shares(&self, json: Option<&str>) {
        self.script(|script| script.facts = vec![fact(json)]);
    }
}

#[test]
fn a_fact_is_shared_from_reserve_until_its_profile_takes_it_back() {
    let mut bench = bench();
    bench.shares(Some("1"));
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    assert_eq!(bench.shared().as_deref(), Some("1"));
    // A plugin of another profile may publish a newer fact, but cannot take back the fact of the first.
    bench.shares(None);
    bench.apply(pod_maker("b", 1).spec("schedulerName", json!("other")).build());
    bench.settle();
    assert_eq!(bench.shared().as_deref(), Some("1"));
    bench.shares(None);
    let failed = bind_finished(&actions, "a", Err("no"));
    bench.event(failed);
    assert_eq!(bench.shared(), None);
}

#[test]
fn facts_of_a_lost_instance_end_with_its_pods_attempt() {
    let mut bench = bench();
    bench.shares(Some("1"));
    bench.apply(pod("a", 1));
    let actions = bench.settle();
    bench.script(|script| script.has_forgotten = true);
    let failed = bind_finished(&actions, "a", Err("no"));
    bench.event(failed);
    assert_eq!(bench.shared(), None);
}

#[test]
fn facts_of_a_profile_end_with_the_profile() {
    let mut bench = bench();
    bench.shares(Some("1"));
    bench.apply(pod("a", 1));
    bench.settle();
    let profiles: Vec<Profile> = vec![Bench::profile("other", &bench.script, Grants::ALL)];
    let event = Event::reconfigured(bench.scheduler.objects(), crate::Settings::default(), Some(profiles), None);
    bench.event(event);
    assert_eq!(bench.shared(), None);
}
