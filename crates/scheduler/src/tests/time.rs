//! Plugins that have used up their time. They are not called on any path, regardless of the events and of the moment
//! when their time ends.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use berth_framework::{
    Bind, Call, Clock, ClusterEvent, CycleId, DeltaSource, DryRun, DryRunCase, Effect, EndCycle, Explain, Failure,
    Filter, Grants, HintCall, Hook, HookRef, Hosted, Manifest, Normalize, ObjectRef, PatchType, Permit, PermitVerdict,
    Plugin, PluginAccount, PluginVersion, Point, PointRef, Points, PostBind, PostFilter, PostFilterOutcome, PreBind,
    PreBindPreFlight, PreEnqueue, PreFilter, PreFlight, PreScore, Profile, QueueSort, QueueingHint, Reach,
    RejectedNodes, Reserve, Reuse, SchedulingTime, Score, Share, Sign, Status,
};
use berth_model::{ClusterTable, NodeIdx, NodeSet, ObjectKey, Pod};

use serde_json::json;

use super::kit::{Bench, Fake, Shared, assigned, binds, events, node, pod, pod_maker, terminating};
use crate::{Action, Event, PluginEffects, PodRequest, Request};

/// The calls that a [`Watched`] plugin got.
#[derive(Debug, Default)]
struct Seen {
    has_no_time: bool,
    /// Calls that came although the plugin had no time.
    breaches: Vec<String>,
    /// All calls, by name.
    calls: BTreeSet<&'static str>,
    /// The number of times that PreBind was called for each pod.
    n_pre_binds: BTreeMap<String, usize>,
    /// The pods for which Reserve was called, without Unreserve or PostBind after it.
    reserved: BTreeSet<String>,
    /// The pods for which Filter was called.
    filtered: Vec<String>,
    /// The account that is charged. Filter takes 600 ms for pods that are called `big…`.
    account: Option<PluginAccount>,
}

const SHARE: Share = Share { per_second: Duration::from_millis(500), burst: Duration::from_millis(1000) };

/// A plugin at every point and with every hook. It holds pods called `held-…` at Permit, and releases them when a pod
/// called `releases` comes.
struct Watched {
    manifest: Manifest,
    seen: Arc<Mutex<Seen>>,
}

impl Watched {
    fn enter(&self, call: &'static str, pod: &str) -> std::sync::MutexGuard<'_, Seen> {
        let mut seen = self.seen.lock().expect("one thread");
        seen.calls.insert(call);
        if seen.has_no_time {
            seen.breaches.push(format!("{call} {pod}"));
        }
        seen
    }
}

impl Plugin for Watched {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    fn points(&self) -> Points {
        Point::ALL.into_iter().collect()
    }
    fn version(&self) -> PluginVersion {
        PluginVersion::native(&self.manifest)
    }
    fn at(&mut self, point: Point) -> Option<PointRef<'_>> {
        Some(PointRef::of_all(self, point))
    }
    fn hook(&mut self, hook: Hook) -> Option<HookRef<'_>> {
        match hook {
            Hook::EndCycle => Some(HookRef::EndCycle(self)),
            Hook::Hosted => Some(HookRef::Hosted(self)),
            Hook::Reuse => Some(HookRef::Reuse(self)),
            Hook::Follow | Hook::State | Hook::ShareFacts => None,
        }
    }
}

impl Hosted for Watched {
    fn sync(&mut self, _source: &dyn DeltaSource) -> Result<(), Status> {
        drop(self.enter("sync", ""));
        Ok(())
    }
    fn out_of_service(&self) -> Option<Status> {
        None
    }
    fn has_time(&mut self) -> Result<(), Status> {
        if self.is_out_of_time() { Err(Status::error("Watched has no time")) } else { Ok(()) }
    }
    fn is_out_of_time(&self) -> bool {
        self.seen.lock().expect("one thread").has_no_time
    }
    fn answered_badly(&mut self, _reason: &str) {}
}

impl EndCycle for Watched {
    fn end_cycle(&mut self, _cycle: CycleId) {
        drop(self.enter("end", ""));
    }
}

impl Reuse for Watched {
    fn reach(&mut self, call: &Call<'_>) -> Reach {
        drop(self.enter("reach", &call.pod.name));
        Reach::Cluster
    }
}

impl PreEnqueue for Watched {
    fn pre_enqueue(&mut self, pod: &Pod, _table: &ClusterTable) -> Status {
        drop(self.enter("pre-enqueue", &pod.name));
        Status::success()
    }
}

impl QueueSort for Watched {
    fn sort_key(&mut self, pod: &Pod, queued_at: i64) -> (i64, i64) {
        drop(self.enter("sort-key", &pod.name));
        (0, queued_at)
    }
}

impl PreFilter for Watched {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        drop(self.enter("pre-filter", &call.pod.name));
        Ok(None)
    }
}

impl Filter for Watched {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        let mut seen = self.enter("filter", &call.pod.name);
        seen.filtered.push(call.pod.name.to_string());
        if call.pod.name.starts_with("big") {
            candidates.clear();
            if let Some(account) = &seen.account {
                account.take(Duration::from_millis(600), SHARE);
            }
        }
        Ok(())
    }
    fn node_to_status(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        drop(self.enter("node_to_status", &call.pod.name));
        Ok(vec![RejectedNodes { status: Status::unschedulable("too big"), nodes: rejected.clone() }])
    }
    fn dry_run(&mut self, call: &Call<'_>, _pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        drop(self.enter("dry-run", &call.pod.name));
        Ok(vec![Status::unschedulable("too big"); cases.len()])
    }
}

impl PostFilter for Watched {
    fn post_filter(
        &mut self,
        call: &Call<'_>,
        _failure: &Failure<'_>,
        _dry_run: &mut dyn DryRun,
    ) -> Result<PostFilterOutcome, Status> {
        drop(self.enter("post-filter", &call.pod.name));
        Ok(PostFilterOutcome { status: Status::unschedulable("no way out"), nominate: None, effects: Vec::new() })
    }
}

impl PreScore for Watched {
    fn pre_score(&mut self, call: &Call<'_>, _nodes: &NodeSet) -> Result<(), Status> {
        drop(self.enter("pre-score", &call.pod.name));
        Ok(())
    }
}

impl Score for Watched {
    fn score(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        drop(self.enter("score", &call.pod.name));
        scores.extend(nodes.iter().map(|_| 0));
        Ok(())
    }
}

impl Normalize for Watched {
    fn normalize(&mut self, call: &Call<'_>, _nodes: &NodeSet, _scores: &mut [i64]) -> Result<(), Status> {
        drop(self.enter("normalize", &call.pod.name));
        Ok(())
    }
}

impl Reserve for Watched {
    fn reserve(&mut self, call: &Call<'_>, _node: NodeIdx) -> Status {
        self.enter("reserve", &call.pod.name).reserved.insert(call.pod.name.to_string());
        Status::success()
    }
    fn unreserve(&mut self, call: &Call<'_>, _node: NodeIdx) -> Vec<Effect> {
        self.enter("unreserve", &call.pod.name).reserved.remove(&*call.pod.name);
        Vec::new()
    }
}

impl Permit for Watched {
    fn permit(&mut self, call: &Call<'_>, _node: NodeIdx) -> (PermitVerdict, Vec<Effect>) {
        drop(self.enter("permit", &call.pod.name));
        let held = call.pod.name.starts_with("held");
        let allow = |name: &str| Effect::Allow { uid: format!("uid-{name}") };
        let effects = if *call.pod.name == *"releases" { vec![allow("held-0"), allow("held-1")] } else { Vec::new() };
        (if held { PermitVerdict::Wait(10_000) } else { PermitVerdict::Allow }, effects)
    }
}

impl PreBindPreFlight for Watched {
    fn pre_bind_pre_flight(&mut self, call: &Call<'_>, _node: NodeIdx) -> Result<PreFlight, Status> {
        drop(self.enter("pre-bind-pre-flight", &call.pod.name));
        Ok(PreFlight::default())
    }
}

impl PreBind for Watched {
    /// Waits for an object, then asks for a patch of the object, then is done.
    fn pre_bind(&mut self, call: &Call<'_>, _node: NodeIdx) -> Result<Vec<Effect>, Status> {
        let mut seen = self.enter("pre-bind", &call.pod.name);
        let n_asked = seen.n_pre_binds.entry(call.pod.name.to_string()).or_default();
        *n_asked += 1;
        let (kind, namespace, name) = ("v1/ConfigMap".to_owned(), "default".to_owned(), "map".to_owned());
        let wait = || Effect::Wait {
            objects: vec![ObjectRef { kind: kind.clone(), namespace: namespace.clone(), name: name.clone() }],
            timeout_ms: 60_000,
            timeout_message: "no map".to_owned(),
        };
        Ok(match *n_asked {
            1 => vec![wait()],
            2 => vec![Effect::Patch {
                kind,
                namespace,
                name,
                subresource: None,
                patch: b"{}".to_vec(),
                patch_type: PatchType::Merge,
            }],
            _ => Vec::new(),
        })
    }
}

impl Bind for Watched {
    fn bind(&mut self, call: &Call<'_>, _node: NodeIdx) -> Result<Vec<Effect>, Status> {
        drop(self.enter("bind", &call.pod.name));
        Ok(vec![Effect::Bind])
    }
}

impl PostBind for Watched {
    fn post_bind(&mut self, call: &Call<'_>, _node: NodeIdx) {
        self.enter("post-bind", &call.pod.name).reserved.remove(&*call.pod.name);
    }
}

impl QueueingHint for Watched {
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool {
        drop(self.enter("queueing-hint", &call.pod.name));
        true
    }
}

impl Explain for Watched {
    fn explain(&mut self, call: &Call<'_>, _node: Option<NodeIdx>) -> Result<String, Status> {
        drop(self.enter("explain", &call.pod.name));
        Ok(String::new())
    }
}

impl Sign for Watched {
    fn sign(&mut self, pod: &Pod) -> Option<String> {
        drop(self.enter("sign", &pod.name));
        None
    }
}

/// A scheduler with a plugin that takes time, and the requests that are not answered yet.
struct Watch {
    bench: Bench,
    seen: Arc<Mutex<Seen>>,
    answers: Vec<Event>,
}

type Step = fn(&mut Watch);

/// The steps of the test, in order. Each step calls the plugin in some way.
const STEPS: [(&str, Step); 12] = [
    ("pods are held", |watch| (0..6).for_each(|number| watch.bench.apply(pod(&format!("held-{number}"), 1)))),
    ("one pod lets two others go", |watch| watch.bench.apply(pod("releases", 1))),
    ("an object changes", |watch| watch.object_changes(1)),
    ("effects are carried out", Watch::answer),
    ("bindings are answered", Watch::answer),
    ("a pod is deleted", |watch| {
        let (namespace, name, uid) = ("default".to_owned(), "held-2".to_owned(), "uid-held-2".to_owned());
        watch.bench.event(Event::PodDeleted { namespace, name, uid });
    }),
    ("a pod is being deleted", |watch| watch.bench.apply(terminating("held-3", 1))),
    ("somebody else binds a pod", |watch| watch.bench.apply(assigned("held-4", 1, "n0"))),
    ("a pod fits nowhere", |watch| watch.bench.apply(pod("big", 1))),
    ("a node comes", |watch| watch.bench.event(Event::NodeApplied(Box::new(node("n2", 30))))),
    ("a pod is held for too long", |watch| watch.bench.advance(10_000)),
    ("another object changes", |watch| watch.object_changes(2)),
];

/// A profile with a plugin that takes time at these points.
fn watched_profile(points: &[Point]) -> (Profile, Arc<Mutex<Seen>>) {
    let seen = Arc::<Mutex<Seen>>::default();
    let events_to_register = vec![ClusterEvent::new("Node", ClusterEvent::ADD)];
    let manifest =
        Manifest { name: "Watched".to_owned(), events_to_register: Some(events_to_register), ..Manifest::default() };
    let mut profile = Profile::new("berth");
    let watched = profile.add(Box::new(Watched { manifest, seen: Arc::clone(&seen) }), "null", Grants::ALL);
    points.iter().for_each(|&point| profile.want(point, watched));
    (profile, seen)
}

impl Watch {
    fn new() -> Self {
        let (profile, seen) = watched_profile(&Point::ALL);
        let mut bench = Bench::with_profiles(vec![profile], Shared::default());
        for name in ["n0", "n1"] {
            bench.event(Event::NodeApplied(Box::new(node(name, 30))));
        }
        bench.event(Event::Synced);
        Self { bench, seen, answers: Vec::new() }
    }

    fn object_changes(&mut self, version: u32) {
        let key = ObjectKey {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            namespace: "default".to_owned(),
            name: "map".to_owned(),
        };
        let json = format!("{{\"version\": {version}}}");
        let resource = "configmaps.v1.".to_owned();
        self.bench.event(Event::ObjectApplied { resource, key, json: Arc::from(json.as_bytes()) });
    }

    fn answer(&mut self) {
        for answer in std::mem::take(&mut self.answers) {
            self.bench.event(answer);
        }
    }

    fn take(&mut self, step: Step) {
        step(self);
        for action in self.bench.settle() {
            let Action::Pod(PodRequest { pod, request, .. }) = action else { continue };
            match request {
                Request::Bind { cycle, .. } => {
                    self.answers.push(Event::BindFinished { cycle, uid: pod.uid, result: Ok(()) });
                }
                Request::AwaitedEffects(PluginEffects { cycle, plugin, .. }) => {
                    self.answers.push(Event::EffectsFinished { cycle, uid: pod.uid, plugin, result: Ok(()) });
                }
                _ => {}
            }
        }
    }

    fn has_time(&self, has_time: bool) {
        self.seen.lock().expect("one thread").has_no_time = !has_time;
    }
}

#[test]
fn a_plugin_without_time_is_entered_on_no_path() {
    for n_with_time in 0..=STEPS.len() {
        let mut watch = Watch::new();
        for (at, (name, step)) in STEPS.into_iter().enumerate() {
            watch.has_time(at < n_with_time);
            watch.take(step);
            let seen = watch.seen.lock().expect("one thread");
            assert_eq!(seen.breaches, Vec::<String>::new(), "{name}, the time is over after {n_with_time} steps");
        }
        if n_with_time == STEPS.len() {
            let seen = watch.seen.lock().expect("one thread");
            let all = [
                "bind",
                "end",
                "node_to_status",
                "filter",
                "normalize",
                "permit",
                "post-bind",
                "post-filter",
                "pre-bind",
                "pre-bind-pre-flight",
                "pre-enqueue",
                "pre-filter",
                "pre-score",
                "queueing-hint",
                "reach",
                "reserve",
                "score",
                "sign",
                "sort-key",
                "sync",
                "unreserve",
            ];
            assert_eq!(seen.calls, all.into(), "the steps lead to every call");
        }
        // The plugin catches up once it has time.
        watch.has_time(true);
        for _ in 0..8 {
            watch.bench.advance(10_000);
            watch.take(Watch::answer);
            watch.take(|watch| watch.object_changes(watch.bench.now.0.try_into().unwrap_or(u32::MAX)));
        }
        let seen = watch.seen.lock().expect("one thread");
        let reserved: Vec<&str> = seen.reserved.iter().map(String::as_str).collect();
        let metrics = watch.bench.scheduler.metrics();
        assert_eq!(metrics.bindings, reserved.len(), "{reserved:?}, the time was over after {n_with_time} steps");
    }
}

/// Younger pods must not always overtake a pod that waits for a plugin to have time. Otherwise this pod would never be
/// placed while the plugin uses up its time permanently.
#[test]
fn pods_that_wait_for_a_plugin_to_have_time_keep_their_turn() {
    let (profile, seen) = watched_profile(&[Point::Filter, Point::Bind]);
    let mut bench = Bench::with_profiles(vec![profile], Shared::default());
    bench.event(Event::NodeApplied(Box::new(node("n0", 30))));
    bench.event(Event::Synced);
    let has_time = |has_time: bool| seen.lock().expect("one thread").has_no_time = !has_time;
    has_time(false);
    bench.apply(pod("old", 1));
    bench.advance(500);
    assert_eq!(events(&bench.settle()), [], "it has not waited for long");
    bench.advance(500);
    let told = events(&bench.settle());
    assert!(told.len() == 1 && told.iter().all(|(_, note)| note.contains("Watched has no time")), "{told:?}");
    bench.advance(60_000);
    assert_eq!(events(&bench.settle()), [], "it was told");
    assert!(bench.scheduler.next_wakeup().is_some_and(|at| at > bench.now && at.since(bench.now) <= 20));
    bench.apply(pod("young", 1));
    has_time(true);
    let bound: Vec<String> = binds(&bench.settle()).into_iter().map(|(pod, _)| pod).collect();
    assert_eq!(bound, ["old", "young"]);
    assert_eq!(bench.scheduler.metrics().cycles, 2, "waiting is not an attempt");
}

/// A clock that the test advances, in milliseconds.
#[derive(Clone, Debug, Default)]
struct Hand(Arc<AtomicU64>);

impl Clock for Hand {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// A cluster of one node whose clock is the returned [`Hand`]. The time of "Watched" is charged, and the returned account
/// charges the plugin "Other".
fn with_accounts(profile: Profile, seen: &Mutex<Seen>) -> (Bench, Hand, PluginAccount) {
    let hand = Hand::default();
    let time = SchedulingTime::new(Box::new(hand.clone()));
    seen.lock().expect("one thread").account = Some(time.plugin("Watched"));
    let other = time.plugin("Other");
    let mut bench = Bench::with_profiles(vec![profile], Shared::default());
    bench.scheduler = bench.scheduler.with_time(time).with_clock(Arc::new(hand.clone()), 1);
    bench.event(Event::NodeApplied(Box::new(node("n0", 30))));
    bench.event(Event::Synced);
    (bench, hand, other)
}

#[test]
fn a_pod_for_which_a_plugin_takes_long_leaves_it_time_for_others() {
    let (profile, seen) = watched_profile(&[Point::Filter, Point::Bind]);
    let (mut bench, hand, other) = with_accounts(profile, &seen);
    let filtered = || seen.lock().expect("one thread").filtered.clone();
    bench.apply(pod("big", 1));
    bench.settle();
    bench.event(Event::NodeApplied(Box::new(node("n1", 30))));
    bench.advance(60_000);
    bench.settle();
    assert_eq!(filtered(), ["big"], "the plugin has used more than half");
    assert!(bench.scheduler.next_wakeup().is_some_and(|at| at.since(bench.now) <= 20), "it is looked at again soon");
    bench.apply(pod("small", 1));
    bench.settle();
    assert_eq!(filtered(), ["big", "small"]);
    hand.0.store(300, Ordering::Relaxed);
    // The other plugin is not in the pod's profile.
    other.take(Duration::from_millis(900), SHARE);
    bench.settle();
    assert_eq!(filtered()[..3], ["big", "small", "big"], "there is time for it again");
}

/// Other pods may keep a plugin short of time for as long as they come. This must not hold up a pod for which another
/// plugin once took long, for example because a binary of that plugin faulted.
#[test]
fn a_pod_waits_for_the_plugin_that_took_long_and_for_no_other_plugin_of_its_profile() {
    let (mut profile, seen) = watched_profile(&[Point::Filter, Point::Bind]);
    profile.add(Box::new(Fake::new("Other", "1", &Shared::default())), "null", Grants::ALL);
    let (mut bench, hand, other) = with_accounts(profile, &seen);
    bench.apply(pod("big", 1));
    bench.settle();
    hand.0.store(2_000, Ordering::Relaxed);
    other.take(Duration::from_millis(900), SHARE);
    bench.event(Event::NodeApplied(Box::new(node("n1", 30))));
    bench.advance(60_000);
    bench.settle();
    let filtered = seen.lock().expect("one thread").filtered.clone();
    assert!(filtered.len() > 1, "Watched has time, and Other did not take long for the pod");
}

#[test]
fn a_plugin_that_has_time_again_is_asked_at_its_gate_and_not_about_what_it_rejected() {
    let (profile, seen) = watched_profile(&[Point::PreEnqueue, Point::Filter, Point::Bind]);
    let mut bench = Bench::with_profiles(vec![profile], Shared::default());
    bench.event(Event::NodeApplied(Box::new(node("n0", 30))));
    bench.event(Event::Synced);
    bench.apply(pod("big", 1));
    bench.settle();
    bench.advance(60_000);
    bench.settle();
    let cycles = |bench: &Bench| bench.scheduler.metrics().cycles;
    let n_before = cycles(&bench);
    let has_time = |has_time: bool| seen.lock().expect("one thread").has_no_time = !has_time;
    has_time(false);
    ["first", "second"].into_iter().for_each(|name| bench.apply(pod(name, 1)));
    bench.settle();
    assert!(bench.scheduler.next_wakeup().is_some_and(|at| at.since(bench.now) <= 20), "nothing else wakes it");
    has_time(true);
    bench.apply(pod("third", 1));
    let bound: Vec<String> = binds(&bench.settle()).into_iter().map(|(pod, _)| pod).collect();
    assert_eq!(bound, ["first", "second", "third"], "no pod is overtaken at the gate");
    assert_eq!(cycles(&bench), n_before + 3, "the rejected pod waits for its event");
}

/// A clock on which each reading takes longer than a turn.
#[derive(Debug, Default)]
struct Slow(AtomicU64);

impl Clock for Slow {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(10, Ordering::Relaxed))
    }
}

#[test]
fn a_plugin_is_asked_at_its_gate_although_others_use_up_every_turn() {
    let (profile, seen) = watched_profile(&[Point::PreEnqueue, Point::Filter, Point::Bind]);
    let script = Shared::default();
    // Each turn ends a wait and tries a pod.
    script.lock().expect("one thread").permit = Some(PermitVerdict::Wait(1));
    let free = Bench::profile("free", &script, Grants::ALL);
    let mut bench = Bench::with_profiles(vec![profile, free], script);
    bench.scheduler = bench.scheduler.with_clock(Arc::new(Slow::default()), 1);
    bench.event(Event::NodeApplied(Box::new(node("n0", 30))));
    bench.event(Event::Synced);
    seen.lock().expect("one thread").has_no_time = true;
    bench.apply(pod("gated", 1));
    bench.settle();
    let mut sent: Vec<Action> = Vec::new();
    for number in 0..20 {
        seen.lock().expect("one thread").has_no_time = number < 5;
        bench.apply(pod_maker(&format!("free-{number}"), 1).spec("schedulerName", json!("free")).build());
        bench.advance(1);
        bench.scheduler.run(bench.now, false);
        sent.extend(bench.scheduler.drain_actions());
    }
    assert_eq!(binds(&sent).into_iter().map(|(pod, _)| pod).collect::<Vec<_>>(), ["gated"]);
}
