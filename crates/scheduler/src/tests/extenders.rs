//! Pods that extenders reject, and pods that they bind.

use std::sync::{Arc, atomic::AtomicBool, atomic::Ordering};

use berth_framework::{
    Call, ExtenderError, ExtenderIdx, ExtenderProfile, ExtenderVerdict, ExtenderVictims, Extenders, Grants, Preemption,
};
use berth_model::{NodeIdx, ObjectKey, Pod};

use super::{
    kit::{Bench, binds, events, node, pod},
    waiting::claim_applied,
};
use crate::{Action, Event, PodRequest, Request, RequestError, Scheduler, Settings};

/// Two extenders that bind. One lets nodes pass once its flag is set, and is ignorable.
#[derive(Debug)]
struct Licences {
    list: [ExtenderProfile; 2],
    is_open: AtomicBool,
}

impl Licences {
    fn new(is_open: bool) -> Arc<Self> {
        let profile = |filters| ExtenderProfile { filters, binds: true, is_ignorable: filters, ..Default::default() };
        Arc::new(Self { list: [profile(true), profile(false)], is_open: AtomicBool::new(is_open) })
    }
}

impl Extenders for Licences {
    fn list(&self) -> &[ExtenderProfile] {
        &self.list
    }
    fn is_interested(&self, _: ExtenderIdx, _: &Pod) -> bool {
        true
    }
    fn filter(&self, _: ExtenderIdx, _: &Call<'_>, _: &[NodeIdx]) -> Result<ExtenderVerdict, ExtenderError> {
        let passed = if self.is_open.load(Ordering::Relaxed) { vec!["n0".to_owned()] } else { Vec::new() };
        Ok(ExtenderVerdict { passed, ..ExtenderVerdict::default() })
    }
    fn preempt(&self, _: ExtenderIdx, _: &Call<'_>, _: &[Preemption]) -> Result<Vec<ExtenderVictims>, ExtenderError> {
        Ok(Vec::new())
    }
    fn prioritize(&self, _: &[ExtenderIdx], _: &Call<'_>, _: &[NodeIdx]) -> Vec<(ExtenderIdx, Vec<(String, i64)>)> {
        Vec::new()
    }
}

fn bench(extenders: Arc<Licences>) -> Bench {
    let mut bench = Bench::new();
    let profiles = vec![Bench::profile("berth", &bench.script, Grants::ALL)];
    bench.scheduler = Scheduler::new(Settings::default(), profiles).with_extenders(extenders);
    bench.event(Event::NodeApplied(Box::new(node("n0", 4))));
    bench.event(Event::Synced);
    bench.apply(pod("a", 1));
    bench
}

/// The extender that was last asked to bind, and its answer.
fn answer(actions: &[Action], result: Result<(), &str>) -> (ExtenderIdx, Event) {
    let sent = actions.iter().rev().find_map(|action| match action {
        Action::Pod(PodRequest { pod, request: Request::BindByExtender { cycle, extender, .. }, .. }) => {
            Some((*extender, *cycle, pod.uid.clone()))
        }
        _ => None,
    });
    let (extender, cycle, uid) = sent.expect("a request to an extender");
    (extender, Event::BindFinished { cycle, uid, result: result.map_err(RequestError::new) })
}

#[test]
fn an_event_of_a_claim_brings_back_a_pod_that_an_extender_rejected() {
    let extenders = Licences::new(false);
    let mut bench = bench(Arc::clone(&extenders));
    assert_eq!(events(&bench.settle())[0].1, "0/1 nodes are available:");
    extenders.is_open.store(true, Ordering::Relaxed);
    bench.advance(20_000);
    assert_eq!(bench.settle(), [], "nothing has happened");
    bench.event(claim_applied("{}"));
    assert_eq!(answer(&bench.settle(), Ok(())).0, ExtenderIdx(0));
}

/// kube-scheduler has a list of kinds whose events count, and ResourceSlices are not in the list.
#[test]
fn an_event_of_another_kind_brings_back_no_pod_that_an_extender_rejected() {
    let mut bench = bench(Licences::new(false));
    bench.settle();
    bench.advance(20_000);
    let [api_version, kind, name] = ["resource.k8s.io/v1", "ResourceSlice", "devices"].map(str::to_owned);
    let key = ObjectKey { api_version, kind, namespace: String::new(), name };
    let resource = "resource.k8s.io/ResourceSlice".to_owned();
    bench.event(Event::ObjectApplied { resource, key, json: Arc::from(*b"{}") });
    assert_eq!(bench.settle(), []);
}

#[test]
fn the_next_extender_binds_if_one_that_may_be_passed_over_fails() {
    let mut bench = bench(Licences::new(true));
    let (first, failed) = answer(&bench.settle(), Err("busy"));
    bench.event(failed);
    let (second, bound) = answer(&bench.settle(), Ok(()));
    assert_eq!((first, second), (ExtenderIdx(0), ExtenderIdx(1)));
    bench.event(bound);
    let actions = bench.settle();
    assert_eq!((events(&actions)[0].0.as_str(), binds(&actions).len()), ("Scheduled", 0));
}

#[test]
fn a_pod_goes_back_when_an_extender_that_must_bind_fails() {
    let mut bench = bench(Licences::new(true));
    let (_, failed) = answer(&bench.settle(), Err("busy"));
    bench.event(failed);
    let (_, failed) = answer(&bench.settle(), Err("full"));
    bench.event(failed);
    let actions = bench.settle();
    assert_eq!(events(&actions)[0], ("FailedScheduling".to_owned(), "full".to_owned()));
}
