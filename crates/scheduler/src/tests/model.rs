//! A model test. After any events in any order, every pod is bound exactly once, or is pending with a reason.

use std::collections::BTreeMap;

use berth_framework::PermitVerdict;
use proptest::prelude::*;

use super::{
    follow::{assert_same, assert_same_pods, catch_up, catch_up_as},
    kit::{Bench, node, pod_maker},
    waiting::{claim_applied, patch, wait},
};
use crate::{Action, ClusterView, CopyKind, Event, PluginEffects, PodRequest, Request, RequestError, StatusChange};

/// The answer of the fake API server to a binding.
#[derive(Clone, Copy, Debug)]
enum Answer {
    Bound,
    Refused,
    /// The pod is bound, but the answer says that it is not.
    Lost,
    /// The pod is bound, and no answer comes.
    Silent,
}

#[derive(Clone, Debug)]
enum Op {
    CreatePod(u8, u8),
    /// A pod with the same name and another uid.
    RecreatePod(u8),
    DeletePod(u8),
    /// A client deletes the pod, and a finalizer keeps it.
    TerminatePod(u8),
    /// The storage was restored from a backup, so the pod has no node again.
    RestorePod(u8),
    RelabelPod(u8),
    SetNode(u8, u8),
    DeleteNode(u8),
    BindElsewhere(u8, u8),
    Answers(Answer),
    Permit(bool),
    /// PreBind waits for a claim, patches it first, or does nothing.
    PreBind(u8),
    ClaimChanges,
    Broken(bool),
    Swap,
    Advance(u32),
    /// The watch delivers the changes at the API server.
    Deliver,
    Run,
    /// The copy is brought up to date.
    Look,
    /// The copy is no longer read.
    EndFollowing,
}

fn op() -> impl Strategy<Value = Op> {
    let answer = prop_oneof![Just(Answer::Bound), Just(Answer::Refused), Just(Answer::Lost), Just(Answer::Silent)];
    prop_oneof![
        6 => (0..8u8, 1..4u8).prop_map(|(pod, cpu)| Op::CreatePod(pod, cpu)),
        1 => (0..8u8).prop_map(Op::RecreatePod),
        2 => (0..8u8).prop_map(Op::DeletePod),
        1 => (0..8u8).prop_map(Op::TerminatePod),
        1 => (0..8u8).prop_map(Op::RestorePod),
        1 => (0..8u8).prop_map(Op::RelabelPod),
        3 => (0..3u8, 1..6u8).prop_map(|(node, cpu)| Op::SetNode(node, cpu)),
        1 => (0..3u8).prop_map(Op::DeleteNode),
        1 => (0..8u8, 0..3u8).prop_map(|(pod, node)| Op::BindElsewhere(pod, node)),
        2 => answer.prop_map(Op::Answers),
        1 => any::<bool>().prop_map(Op::Permit),
        1 => (0..3u8).prop_map(Op::PreBind),
        2 => Just(Op::ClaimChanges),
        1 => any::<bool>().prop_map(Op::Broken),
        1 => Just(Op::Swap),
        3 => (0..20_000u32).prop_map(Op::Advance),
        3 => Just(Op::Deliver),
        6 => Just(Op::Run),
        3 => Just(Op::Look),
        1 => Just(Op::EndFollowing),
    ]
}

#[derive(Clone, Debug, Default)]
struct ApiPod {
    name: String,
    cpu: u32,
    label: u32,
    version: u32,
    node: Option<String>,
    n_bound: u32,
    is_terminating: bool,
    has_reason: bool,
}

/// An API server that remembers pods, binds them, and reports this later.
struct World {
    bench: Bench,
    pods: BTreeMap<String, ApiPod>,
    answers: Answer,
    undelivered: Vec<Event>,
    n_uids: u32,
    view: ClusterView,
    /// A copy that is read in turns as a list of pods and as nodes.
    list: ClusterView,
}

impl World {
    fn new() -> Self {
        let mut bench = Bench::new();
        bench.event(Event::Synced);
        Self {
            bench,
            pods: BTreeMap::new(),
            answers: Answer::Bound,
            undelivered: Vec::new(),
            n_uids: 0,
            view: ClusterView::default(),
            list: ClusterView::of_pods_only(),
        }
    }

    fn uid_of(&self, pod: u8) -> Option<String> {
        let name = format!("p{pod}");
        self.pods.iter().find(|(_, pod)| pod.name == name).map(|(uid, _)| uid.clone())
    }

    fn create(&mut self, pod: u8, cpu: u8) {
        self.n_uids += 1;
        let uid = format!("uid-{}", self.n_uids);
        let pod = ApiPod { name: format!("p{pod}"), cpu: u32::from(cpu), ..ApiPod::default() };
        self.pods.insert(uid.clone(), pod);
        self.changed(&uid);
    }

    fn changed(&mut self, uid: &str) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.version += 1;
        let mut object = pod_maker(&pod.name, pod.cpu).uid(uid).resource_version(&pod.version.to_string());
        object = object.label("l", &pod.label.to_string()).on(pod.node.as_deref().unwrap_or_default());
        if pod.is_terminating {
            object = object.terminating();
        }
        self.undelivered.push(Event::PodApplied(Box::new(object.build())));
    }

    fn change(&mut self, pod: u8, change: impl FnOnce(&mut ApiPod)) {
        if let Some(uid) = self.uid_of(pod) {
            self.pods.entry(uid.clone()).and_modify(change);
            self.changed(&uid);
        }
    }

    fn delete(&mut self, uid: &str) {
        if let Some(pod) = self.pods.remove(uid) {
            let namespace = "default".to_owned();
            self.undelivered.push(Event::PodDeleted { namespace, name: pod.name, uid: uid.to_owned() });
        }
    }

    /// Binds a pod. A pod gets a node only once.
    fn bind(&mut self, uid: &str, node: &str) -> Result<(), String> {
        let pod = self.pods.get_mut(uid).ok_or("not found")?;
        if pod.node.is_some() || pod.is_terminating {
            return Err("conflict".to_owned());
        }
        pod.node = Some(node.to_owned());
        pod.n_bound += 1;
        self.changed(uid);
        Ok(())
    }

    fn carry_out(&mut self) {
        let actions: Vec<_> = self.bench.scheduler.drain_actions().collect();
        for action in actions {
            match action {
                Action::Pod(PodRequest { pod, request: Request::Bind { cycle, node }, .. }) => {
                    let answers = self.answers;
                    let result = match answers {
                        Answer::Refused => Err(RequestError::new("refused")),
                        Answer::Bound => self.bind(&pod.uid, &node).map_err(RequestError::new),
                        Answer::Lost => {
                            self.bind(&pod.uid, &node).map_err(RequestError::new).and(Err(RequestError::new("timeout")))
                        }
                        Answer::Silent if self.bind(&pod.uid, &node).is_ok() => continue,
                        Answer::Silent => Err(RequestError::new("conflict")),
                    };
                    self.undelivered.push(Event::BindFinished { cycle, uid: pod.uid, result });
                }
                Action::Pod(PodRequest {
                    pod,
                    request: Request::AwaitedEffects(PluginEffects { cycle, plugin, .. }),
                    ..
                }) => {
                    let result = match self.answers {
                        Answer::Bound | Answer::Silent => Ok(()),
                        Answer::Refused | Answer::Lost => Err(RequestError::new("refused")),
                    };
                    self.undelivered.push(Event::EffectsFinished { cycle, uid: pod.uid, plugin, result });
                }
                Action::Pod(PodRequest {
                    pod,
                    request: Request::PatchStatus(StatusChange { condition: Some(_), .. }),
                    ..
                }) => {
                    if let Some(pod) = self.pods.get_mut(&*pod.uid) {
                        pod.has_reason = true;
                    }
                }
                _ => {}
            }
        }
    }

    fn perform(&mut self, op: &Op) {
        match *op {
            Op::CreatePod(pod, cpu) => {
                if self.uid_of(pod).is_none() {
                    self.create(pod, cpu);
                }
            }
            Op::RecreatePod(pod) => {
                if let Some(uid) = self.uid_of(pod) {
                    // The watch was interrupted, so the deletion is not seen.
                    self.pods.remove(&uid);
                    self.create(pod, 1);
                }
            }
            Op::DeletePod(pod) => {
                if let Some(uid) = self.uid_of(pod) {
                    self.delete(&uid);
                }
            }
            Op::TerminatePod(pod) => self.change(pod, |pod| pod.is_terminating = true),
            Op::RestorePod(pod) => self.change(pod, |pod| (pod.node, pod.n_bound) = (None, 0)),
            Op::RelabelPod(pod) => self.change(pod, |pod| pod.label += 1),
            Op::SetNode(name, cpu) => {
                let node = node(&format!("n{name}"), u32::from(cpu));
                self.undelivered.push(Event::NodeApplied(Box::new(node)));
            }
            Op::DeleteNode(name) => self.undelivered.push(Event::NodeDeleted { name: format!("n{name}") }),
            Op::BindElsewhere(pod, node) => {
                if let Some(uid) = self.uid_of(pod) {
                    let _ = self.bind(&uid, &format!("n{node}"));
                }
            }
            Op::Answers(answers) => self.answers = answers,
            Op::Permit(waits) => {
                let verdict = waits.then_some(PermitVerdict::Wait(5000));
                self.bench.script(|script| script.permit = verdict);
            }
            Op::PreBind(wishes) => {
                let effects = [patch(), wait(5000)].into_iter().skip(2 - usize::from(wishes)).collect();
                self.bench.script(|script| script.pre_bind = effects);
            }
            Op::ClaimChanges => {
                self.n_uids += 1;
                self.undelivered.push(claim_applied(&self.n_uids.to_string()));
            }
            Op::Broken(broken) => self.bench.script(|script| script.broken_filter = broken),
            Op::Swap => self.bench.swap("next"),
            Op::Advance(milliseconds) => self.bench.advance(u64::from(milliseconds)),
            Op::Deliver => self.deliver(),
            Op::Run => {
                let now = self.bench.now;
                self.bench.scheduler.run(now, false);
                self.carry_out();
            }
            Op::Look => self.look(),
            Op::EndFollowing => {
                self.bench.scheduler.end_following();
                self.bench.scheduler.end_following_of(CopyKind::Asked);
            }
        }
    }

    fn deliver(&mut self) {
        for event in std::mem::take(&mut self.undelivered) {
            self.bench.event(event);
        }
        self.carry_out();
    }

    fn look(&mut self) {
        catch_up(&mut self.view, &mut self.bench);
        assert_same(&self.view, &self.bench.scheduler);
        catch_up_as(CopyKind::Asked, &mut self.list, &mut self.bench);
        assert_same_pods(&self.list, &self.bench.scheduler);
        if self.n_uids.is_multiple_of(2) {
            self.list.put_pods_on_nodes();
            assert_same(&self.list, &self.bench.scheduler);
        } else {
            self.list.take_pods_off_nodes();
        }
    }

    /// Makes everything work again and lets an hour pass.
    fn calm_down(&mut self) {
        self.answers = Answer::Bound;
        self.bench.script(|script| {
            script.permit = None;
            script.pre_bind = Vec::new();
            script.broken_filter = false;
        });
        for _ in 0..120 {
            self.bench.advance(30_000);
            loop {
                self.deliver();
                let now = self.bench.now;
                let worked = self.bench.scheduler.run(now, false);
                self.carry_out();
                if !worked && self.undelivered.is_empty() {
                    break;
                }
            }
        }
    }

    fn check(&self) {
        let scheduler = &self.bench.scheduler;
        for (uid, pod) in &self.pods {
            assert!(pod.n_bound <= 1, "{uid} was bound {} times", pod.n_bound);
            let waits = scheduler.queue().contains(uid);
            match &pod.node {
                Some(_) => {
                    assert!(!waits, "{uid} is bound and waits");
                    assert!(
                        scheduler.cache().pod(uid).is_some_and(|pod| !pod.is_assumed()),
                        "{uid} is not in the cache"
                    );
                }
                None if pod.is_terminating => assert!(!waits, "{uid} is being deleted and waits"),
                None => assert!(waits && pod.has_reason, "{uid} has no node: waits {waits}, reason {}", pod.has_reason),
            }
        }
        let metrics = scheduler.metrics();
        assert_eq!((metrics.bindings, metrics.queue.in_flight_pods, metrics.queue.in_flight_events.len()), (0, 0, 0));
        assert_eq!(metrics.cache.assumed_pods, 0);
        let n_pending = self.pods.values().filter(|pod| pod.node.is_none() && !pod.is_terminating).count();
        assert_eq!(scheduler.queue().iter().count(), n_pending);
        assert!(metrics.queue.unschedulable.values().all(|count| *count >= 0));
        let mut ended: Vec<String> =
            self.bench.script(|script| script.calls.iter().filter(|call| call.starts_with("end ")).cloned().collect());
        let n_ended = ended.len();
        ended.sort();
        ended.dedup();
        assert_eq!(ended.len(), n_ended, "a cycle ended twice");
        assert_eq!(u64::try_from(n_ended).expect("few cycles"), metrics.cycles, "a cycle never ended");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn no_node_is_over_capacity(ops in proptest::collection::vec(op(), 1..120)) {
        let mut world = World::new();
        let mut nodes: BTreeMap<String, u32> = BTreeMap::new();
        for op in &ops {
            match op {
                // A node may be overfilled by other clients, and by bindings that succeed although the answer says that
                // they failed.
                Op::BindElsewhere(..) | Op::DeleteNode(_) | Op::Answers(Answer::Lost) => continue,
                Op::SetNode(node, _) if nodes.contains_key(&format!("n{node}")) => continue,
                Op::SetNode(node, cpu) => {
                    nodes.insert(format!("n{node}"), u32::from(*cpu));
                    world.perform(op);
                }
                _ => world.perform(op),
            }
            for (node, cpu) in &nodes {
                let used: u32 = world.pods.values().filter(|pod| pod.node.as_ref() == Some(node)).map(|pod| pod.cpu).sum();
                prop_assert!(used <= *cpu, "{node} has {cpu} and carries {used}");
            }
        }
    }

    #[test]
    fn no_pod_is_lost_or_bound_twice(ops in proptest::collection::vec(op(), 1..120)) {
        let mut world = World::new();
        ops.iter().for_each(|op| world.perform(op));
        world.look();
        world.calm_down();
        world.look();
        world.check();
    }
}
