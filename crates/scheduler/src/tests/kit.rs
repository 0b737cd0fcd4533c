//! The kit of the scheduler's tests: objects, a plugin that follows a script, and a bench with a scheduler.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use berth_framework::{
    Bind, BuildError, Call, ClusterEvent, Code, CycleId, DeltaSource, DryRun, DryRunCase, Effect, EndCycle,
    EventSubject, Fact, Failure, Filter, Grants, HintCall, Hook, HookRef, Hosted, Manifest, ObjectKind, Permit,
    PermitVerdict, Plugin, PluginFactory, PluginVersion, Point, PointRef, Points, PostBind, PostFilter,
    PostFilterOutcome, PreBind, PreBindPreFlight, PreEnqueue, PreFlight, Profile, QueueingHint, RejectedNodes, Reserve,
    RestoreError, Score, ShareFacts, Sign, State, Status,
};
use berth_model::{
    BinaryId, ClusterTable, Digest, Features, NodeIdx, NodeSet, Pod, Release, Sym, Time, api, cluster_table::at,
};
use berth_testing::PodMaker;
use serde_json::json;

use crate::{Action, Event, Notice, PluginEffects, PodRequest, Request, RequestError, Scheduler, Settings};

pub(super) fn node(name: &str, cpu: u32) -> api::Node {
    berth_testing::node(name).allocatable("cpu", &cpu.to_string()).build()
}

/// A pod for the scheduler `berth`, just created.
pub(super) fn pod_maker(name: &str, cpu: u32) -> PodMaker {
    let pod = berth_testing::pod(name).uid(&format!("uid-{name}")).resource_version("1");
    pod.metadata("generation", json!(1)).spec("schedulerName", json!("berth")).request("cpu", &cpu.to_string())
}

pub(super) fn pod(name: &str, cpu: u32) -> api::Pod {
    pod_maker(name, cpu).build()
}

/// The pods with a binding request, in order.
pub(super) fn bound(actions: &[Action]) -> Vec<String> {
    binds(actions).into_iter().map(|(pod, _)| pod).collect()
}

/// The script of the fake plugin, and the calls that the plugin saw.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) calls: Vec<String>,
    pub(super) permit: Option<PermitVerdict>,
    /// Whether plugins say that they are components.
    pub(super) is_component: bool,
    pub(super) permit_effects: Vec<Effect>,
    pub(super) refuse_reserve: Option<Status>,
    pub(super) unreserve: Vec<Effect>,
    pub(super) pre_bind: Vec<Effect>,
    pub(super) refuse_pre_bind: Option<Status>,
    /// The answer of PreBindPreFlight. By default, it depends on whether PreBind has work, and does not allow parallel
    /// work.
    pub(super) pre_flight: Option<Result<PreFlight, Status>>,
    pub(super) post_filter: Option<PostFilterOutcome>,
    pub(super) gate: bool,
    /// The reason why replicas cannot be brought up to date.
    pub(super) broken_sync: Option<String>,
    pub(super) broken_filter: bool,
    /// Whether pods with equal requests get the same signature.
    pub(super) signs: bool,
    pub(super) n_scored: usize,
    /// The points that plugins of the next versions do not implement.
    pub(super) without: Vec<Point>,
    /// The reason why plugins are out of service.
    pub(super) out_of_service: Option<String>,
    /// Whether plugins have used up their time.
    pub(super) has_no_time: bool,
    /// Whether the time of plugins is charged to all plugins.
    pub(super) is_charged: bool,
    /// The number of calls of Reserve after which plugins have used up their time; unlimited by default.
    pub(super) time_for_reserve: Option<usize>,
    /// The effects of Bind besides the binding.
    pub(super) bind: Vec<Effect>,
    /// Whether plugins of the next versions read services, and reject each event in their hints.
    pub(super) reads_services: bool,
    /// Whether plugins of the next versions follow the pods on nodes.
    pub(super) follows_pods: bool,
    pub(super) hints: bool,
    /// The state that a plugin passes to the next version, and whether that version accepts it.
    pub(super) state: Option<Vec<u8>>,
    pub(super) refuse_state: bool,
    /// The facts that the next plugin to be asked shares.
    pub(super) facts: Vec<Fact>,
    /// Whether plugins know nothing of their cycles any more.
    pub(super) has_forgotten: bool,
    /// The generation of the cluster to which plugins were last updated, and the generation at the last answer of
    /// PreBind or Bind.
    pub(super) synced_to: u64,
    pub(super) bound_at: u64,
}

pub(super) type Shared = Arc<Mutex<Script>>;

/// A plugin at every point that a test needs: it fits CPU, prefers empty nodes, and follows its script.
pub(super) struct Fake {
    manifest: Manifest,
    points: Points,
    script: Shared,
}

impl Fake {
    pub(super) fn new(name: &str, version: &str, script: &Shared) -> Self {
        let events_to_register = vec![
            ClusterEvent::new("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_ALLOCATABLE),
            ClusterEvent::new("Pod", ClusterEvent::DELETE | ClusterEvent::UPDATE_POD_LABEL),
            ClusterEvent::new("Service", ClusterEvent::ADD),
        ];
        let manifest = Manifest {
            name: name.to_owned(),
            version: version.to_owned(),
            events_to_register: Some(events_to_register),
            ..Manifest::default()
        };
        let mut manifest = manifest;
        if script.lock().expect("one thread").reads_services {
            manifest.needs.objects = vec![ObjectKind { api_version: "v1".to_owned(), kind: "Service".to_owned() }];
        }
        manifest.needs.pods = script.lock().expect("one thread").follows_pods;
        let without = script.lock().expect("one thread").without.clone();
        let points = points().iter().filter(|point| !without.contains(point)).collect();
        Self { manifest, points, script: Arc::clone(script) }
    }

    fn note(&self, text: String) {
        self.script.lock().expect("one thread").calls.push(text);
    }

    fn with<R>(&self, look: impl FnOnce(&mut Script) -> R) -> R {
        look(&mut self.script.lock().expect("one thread"))
    }
}

fn fits(call: &Call<'_>, node: NodeIdx, extra: i64) -> bool {
    let used = call.table.requested().get(Sym::CPU, node) + extra + call.pod.requests.milli_cpu;
    used <= call.table.allocatable().get(Sym::CPU, node)
}

impl Plugin for Fake {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    fn points(&self) -> Points {
        self.points
    }
    fn version(&self) -> PluginVersion {
        let native = PluginVersion::native(&self.manifest);
        let is_component = self.script.lock().is_ok_and(|script| script.is_component);
        let component = || BinaryId::Component(Digest::new([1; 32]));
        if is_component { PluginVersion { binary: Some(component()), ..native } } else { native }
    }
    fn at(&mut self, point: Point) -> Option<PointRef<'_>> {
        Some(match point {
            Point::PreEnqueue => PointRef::PreEnqueue(self),
            Point::Filter => PointRef::Filter(self),
            Point::PostFilter => PointRef::PostFilter(self),
            Point::Score => PointRef::Score(self),
            Point::Reserve => PointRef::Reserve(self),
            Point::Permit => PointRef::Permit(self),
            Point::PreBindPreFlight if self.points.contains(point) => PointRef::PreBindPreFlight(self),
            Point::PreBind => PointRef::PreBind(self),
            Point::Bind => PointRef::Bind(self),
            Point::PostBind => PointRef::PostBind(self),
            Point::Sign if self.with(|script| script.signs) => PointRef::Sign(self),
            Point::QueueingHint if self.with(|script| script.hints) => PointRef::QueueingHint(self),
            _ => return None,
        })
    }
    fn hook(&mut self, hook: Hook) -> Option<HookRef<'_>> {
        match hook {
            Hook::EndCycle => Some(HookRef::EndCycle(self)),
            Hook::Hosted => Some(HookRef::Hosted(self)),
            Hook::State => self.with(|script| script.state.is_some()).then_some(HookRef::State(self)),
            Hook::ShareFacts => Some(HookRef::ShareFacts(self)),
            Hook::Follow | Hook::Reuse => None,
        }
    }
}

impl Hosted for Fake {
    fn sync(&mut self, source: &dyn DeltaSource) -> Result<(), Status> {
        self.with(|script| script.synced_to = source.generation());
        let broken = self.with(|script| script.broken_sync.clone()).map(Status::error);
        broken.or(self.out_of_service()).map_or(Ok(()), Err)
    }
    fn out_of_service(&self) -> Option<Status> {
        self.with(|script| script.out_of_service.clone()).map(Status::unresolvable)
    }
    fn has_time(&mut self) -> Result<(), Status> {
        if self.is_out_of_time() { Err(Status::error("no time")) } else { Ok(()) }
    }
    fn waits_for_time(&self) -> bool {
        self.with(|script| script.is_charged)
    }
    fn is_out_of_time(&self) -> bool {
        self.with(|script| script.has_no_time || script.time_for_reserve == Some(0))
    }
    fn knows(&self, _cycle: CycleId) -> bool {
        !self.with(|script| script.has_forgotten)
    }
    fn pod_changed(&mut self, call: &Call<'_>) -> Result<(), Status> {
        self.note(format!("changed {} {}", call.pod.name, label(call)));
        Ok(())
    }
    fn keep_changes(&mut self, source: &dyn DeltaSource) -> bool {
        self.note(format!("keep {}", source.generation()));
        true
    }
    fn tell_kept_changes(&mut self) {
        self.note("kept".to_owned());
    }
    fn answered_badly(&mut self, _reason: &str) {}
}

/// The value of the pod's first label; empty without labels.
fn label(call: &Call<'_>) -> String {
    call.pod.labels.first().map(|(_, value)| call.table.symbols.text(*value).to_owned()).unwrap_or_default()
}

impl EndCycle for Fake {
    fn end_cycle(&mut self, cycle: CycleId) {
        self.note(format!("end {}", cycle.0));
    }
}

fn points() -> Points {
    use Point::{Bind, Filter, Permit, PostBind, PostFilter, PreBind, PreBindPreFlight, PreEnqueue, Reserve, Score};
    let points = [PreEnqueue, Filter, PostFilter, Score, Reserve, Permit, PreBindPreFlight, PreBind, Bind, PostBind];
    points.into_iter().collect()
}

impl ShareFacts for Fake {
    fn take_facts(&mut self) -> Vec<Fact> {
        self.with(|script| std::mem::take(&mut script.facts))
    }
}

impl State for Fake {
    fn snapshot(&mut self) -> Vec<u8> {
        self.with(|script| script.state.clone()).expect("asked only then")
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        self.note(format!("{} restore {snapshot:?}", self.manifest.version));
        if self.with(|script| script.refuse_state) { Err("too old".into()) } else { Ok(()) }
    }
}

impl PreEnqueue for Fake {
    fn pre_enqueue(&mut self, _pod: &Pod, _table: &ClusterTable) -> Status {
        if self.with(|script| script.gate) { Status::unresolvable("gated") } else { Status::success() }
    }
}

impl Filter for Fake {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        if self.with(|script| script.broken_filter) {
            return Err(Status::error("boom"));
        }
        candidates.retain(|node| fits(call, node, 0));
        Ok(())
    }
    fn node_to_status(&mut self, _call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        Ok(vec![RejectedNodes { status: Status::unschedulable("Insufficient cpu"), nodes: rejected.clone() }])
    }
    fn dry_run(&mut self, call: &Call<'_>, pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        let cpu = |case: &DryRunCase| -> i64 {
            case.plus.iter().map(|&index| pods[index as usize].placed_requests.milli_cpu).sum()
        };
        let status = |case: &DryRunCase| match fits(call, case.node, cpu(case)) {
            true => Status::success(),
            false => Status::unschedulable("Insufficient cpu"),
        };
        Ok(cases.iter().map(status).collect())
    }
}

impl PostFilter for Fake {
    fn post_filter(
        &mut self,
        _call: &Call<'_>,
        _failure: &Failure<'_>,
        _dry_run: &mut dyn DryRun,
    ) -> Result<PostFilterOutcome, Status> {
        let nothing = Status { code: Code::Unschedulable, reasons: Vec::new() };
        let scripted = self.with(|script| script.post_filter.clone());
        Ok(scripted.unwrap_or(PostFilterOutcome { status: nothing, nominate: None, effects: Vec::new() }))
    }
}

impl Score for Fake {
    fn score(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        self.with(|script| script.n_scored += 1);
        scores.extend(nodes.iter().map(|node| 100 - at(call.table.pod_counts(), node)));
        Ok(())
    }
}

impl Sign for Fake {
    fn sign(&mut self, pod: &Pod) -> Option<String> {
        Some(pod.requests.milli_cpu.to_string())
    }
}

impl Reserve for Fake {
    fn reserve(&mut self, call: &Call<'_>, node: NodeIdx) -> Status {
        self.note(format!("{} reserve {} {}", self.manifest.version, call.pod.name, node.0));
        self.with(|script| script.time_for_reserve = script.time_for_reserve.map(|left| left.saturating_sub(1)));
        self.with(|script| script.refuse_reserve.clone()).unwrap_or_else(Status::success)
    }
    fn unreserve(&mut self, call: &Call<'_>, node: NodeIdx) -> Vec<Effect> {
        self.note(format!("{} unreserve {} {}", self.manifest.version, call.pod.name, node.0));
        self.with(|script| script.unreserve.clone())
    }
}

impl Permit for Fake {
    fn permit(&mut self, call: &Call<'_>, _node: NodeIdx) -> (PermitVerdict, Vec<Effect>) {
        self.note(format!("permit {} {}", call.pod.name, label(call)));
        self.with(|script| {
            (script.permit.clone().unwrap_or(PermitVerdict::Allow), std::mem::take(&mut script.permit_effects))
        })
    }
}

impl PreBindPreFlight for Fake {
    fn pre_bind_pre_flight(&mut self, _call: &Call<'_>, _node: NodeIdx) -> Result<PreFlight, Status> {
        self.with(|script| match &script.pre_flight {
            Some(answer) => answer.clone(),
            None if script.pre_bind.is_empty() => Err(Status::skip()),
            None => Ok(PreFlight::default()),
        })
    }
}

impl PreBind for Fake {
    fn pre_bind(&mut self, call: &Call<'_>, _node: NodeIdx) -> Result<Vec<Effect>, Status> {
        self.note(format!("pre-bind {}", call.pod.name));
        self.with(|script| {
            script.bound_at = script.synced_to;
            script.refuse_pre_bind.clone().map_or(Ok(script.pre_bind.clone()), Err)
        })
    }
}

impl Bind for Fake {
    fn bind(&mut self, _call: &Call<'_>, _node: NodeIdx) -> Result<Vec<Effect>, Status> {
        let others = self.with(|script| {
            script.bound_at = script.synced_to;
            script.bind.clone()
        });
        Ok([vec![Effect::Bind], others].concat())
    }
}

impl QueueingHint for Fake {
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool {
        let shown = match call.subject {
            EventSubject::Object { new, .. } => new.map(|json| String::from_utf8_lossy(json).into_owned()),
            EventSubject::Pod { new, .. } => new.map(|pod| pod.name.to_string()),
            EventSubject::Node { new, .. } => new.map(|_| "a node".to_owned()),
            EventSubject::Hidden => Some("hidden".to_owned()),
        };
        self.note(format!("hint {} {} {}", call.pod.name, call.event.resource, shown.unwrap_or_default()));
        false
    }
}

impl PostBind for Fake {
    fn post_bind(&mut self, call: &Call<'_>, _node: NodeIdx) {
        self.note(format!("{} post-bind {}", self.manifest.version, call.pod.name));
    }
}

/// A factory of fakes of one version. It fails if `works` is false.
#[derive(Debug)]
pub(super) struct Factory {
    pub(super) manifest: Manifest,
    pub(super) script: Shared,
    pub(super) works: bool,
    /// The number of instances that can still be built; unlimited if the number is not set.
    pub(super) builds_left: OnceLock<usize>,
    /// Whether instances take long.
    pub(super) is_slow: OnceLock<()>,
    n_built: AtomicUsize,
}

impl Factory {
    pub(super) fn new(version: &str, script: &Shared, works: bool) -> Arc<Self> {
        let manifest = Manifest { name: "Fake".to_owned(), version: version.to_owned(), ..Manifest::default() };
        let (builds_left, is_slow, n_built) = (OnceLock::new(), OnceLock::new(), AtomicUsize::new(0));
        Arc::new(Self { manifest, script: Arc::clone(script), works, builds_left, is_slow, n_built })
    }
}

impl Factory {
    pub(super) fn n_built(&self) -> usize {
        self.n_built.load(Ordering::Relaxed)
    }
}

impl PluginFactory for Factory {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    fn points(&self) -> Points {
        points()
    }
    fn version(&self) -> PluginVersion {
        PluginVersion::native(&self.manifest)
    }
    fn build(&self, _args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        if !self.works {
            return Err(BuildError::Start("bad arguments".to_owned()));
        }
        let n_before = self.n_built.fetch_add(1, Ordering::Relaxed);
        if self.builds_left.get().is_some_and(|left| n_before >= *left) {
            return Err(BuildError::Start("no more".to_owned()));
        }
        Ok(Box::new(Fake::new("Fake", &self.manifest.version, &self.script)))
    }
    fn takes_long(&self) -> bool {
        self.is_slow.get().is_some()
    }
}

/// A scheduler with one fake plugin, and the actions that the scheduler asked for.
pub(super) struct Bench {
    pub(super) scheduler: Scheduler,
    pub(super) script: Shared,
    pub(super) now: Time,
    pub(super) actions: Vec<Action>,
}

impl Bench {
    pub(super) fn new() -> Self {
        let script = Shared::default();
        Self::with_profiles(vec![Self::profile("berth", &script, Grants::ALL)], script)
    }

    /// A profile of one fake, at every point that the fake or a later version implements.
    pub(super) fn profile(scheduler_name: &str, script: &Shared, grants: Grants) -> Profile {
        let mut profile = Profile::new(scheduler_name);
        let fake = profile.add(Box::new(Fake::new("Fake", "1", script)), "null", grants);
        Point::ALL.into_iter().for_each(|point| profile.want(point, fake));
        profile
    }

    /// Like [`Self::with_nodes`], with the behaviour of a release.
    pub(super) fn of_release(release: Release, n_nodes: usize, cpu: u32) -> Self {
        let queue = berth_queue::Settings { features: Features::of(release), ..Default::default() };
        let script = Shared::default();
        let profiles = vec![Self::profile("berth", &script, Grants::ALL)];
        let scheduler = Scheduler::new(Settings { queue, ..Settings::default() }, profiles);
        Self { scheduler, script, now: Time(1_000_000_000), actions: Vec::new() }.and_nodes(n_nodes, cpu)
    }

    pub(super) fn with_profiles(profiles: Vec<Profile>, script: Shared) -> Self {
        let scheduler = Scheduler::new(Settings::default(), profiles);
        Self { scheduler, script, now: Time(1_000_000_000), actions: Vec::new() }
    }

    /// A bench with synced nodes `n0`, `n1`, ..., each with `cpu`.
    pub(super) fn with_nodes(n_nodes: usize, cpu: u32) -> Self {
        Self::new().and_nodes(n_nodes, cpu)
    }

    pub(super) fn and_nodes(mut self, n_nodes: usize, cpu: u32) -> Self {
        for index in 0..n_nodes {
            self.event(Event::NodeApplied(Box::new(node(&format!("n{index}"), cpu))));
        }
        self.event(Event::Synced);
        self
    }

    /// Handles an event after it was serialized and deserialized.
    pub(super) fn event(&mut self, event: Event) {
        let written = serde_json::to_string(&event).expect("it is data");
        assert_eq!(serde_json::from_str::<Event>(&written).expect(&written), event);
        self.scheduler.handle(event, self.now);
    }

    /// Reports that another version of the plugin is ready, in all profiles.
    pub(super) fn swap(&mut self, version: &str) {
        let (name, factory) = ("Fake".to_owned(), Factory::new(version, &self.script, true));
        let ready = Event::plugin_ready(self.scheduler.objects(), name, None, factory, None);
        self.event(ready);
    }

    pub(super) fn apply(&mut self, pod: api::Pod) {
        self.event(Event::PodApplied(Box::new(pod)));
    }

    /// Runs until nothing is left to do. Returns the actions since the last time.
    pub(super) fn settle(&mut self) -> Vec<Action> {
        let mut rounds = 0;
        while self.scheduler.run(self.now, false) {
            rounds += 1;
            assert!(rounds < 1000, "the scheduler never rests");
        }
        let actions: Vec<_> = self.scheduler.drain_actions().collect();
        for action in &actions {
            let written = serde_json::to_string(action).expect("it is data");
            assert_eq!(serde_json::from_str::<Action>(&written).expect(&written), *action);
        }
        self.actions.extend(actions.iter().cloned());
        actions
    }

    pub(super) fn advance(&mut self, milliseconds: u64) {
        self.now = self.now + milliseconds;
    }

    pub(super) fn script<R>(&self, change: impl FnOnce(&mut Script) -> R) -> R {
        change(&mut self.script.lock().expect("one thread"))
    }
}

/// The pod and the node of every requested binding.
pub(super) fn binds(actions: &[Action]) -> Vec<(String, String)> {
    let bind = |action: &Action| match action {
        Action::Pod(PodRequest { pod, request: Request::Bind { node, .. }, .. }) => {
            Some((pod.name.to_string(), node.to_string()))
        }
        _ => None,
    };
    actions.iter().filter_map(bind).collect()
}

/// The reason and the note of every event.
pub(super) fn events(actions: &[Action]) -> Vec<(String, String)> {
    let event = |action: &Action| match action {
        Action::Notice(Notice::Event(event)) => Some((event.reason.to_string(), event.note.clone())),
        _ => None,
    };
    actions.iter().filter_map(event).collect()
}

/// The answer to the last binding of the pod.
pub(super) fn bind_finished(actions: &[Action], name: &str, result: Result<(), &str>) -> Event {
    let result = result.map_err(RequestError::new);
    let sent = actions.iter().rev().find_map(|action| match action {
        Action::Pod(PodRequest { pod, request: Request::Bind { cycle, .. }, .. }) if *pod.name == *name => {
            Some((*cycle, pod.uid.clone()))
        }
        _ => None,
    });
    let (cycle, uid) = sent.expect("a binding of that pod");
    Event::BindFinished { cycle, uid, result }
}

/// The answer to the last effects that a pod waits for.
pub(super) fn effects_finished(actions: &[Action], result: Result<(), &str>) -> Event {
    let result = result.map_err(RequestError::new);
    let sent = actions.iter().rev().find_map(|action| match action {
        Action::Pod(PodRequest {
            pod, request: Request::AwaitedEffects(PluginEffects { cycle, plugin, .. }), ..
        }) => Some((*cycle, pod.uid.clone(), Arc::clone(plugin))),
        _ => None,
    });
    let (cycle, uid, plugin) = sent.expect("awaited effects");
    Event::EffectsFinished { cycle, uid, plugin, result }
}

/// The effects that the host must carry out and report.
pub(super) fn awaited(actions: &[Action]) -> Vec<Effect> {
    let effects = |action: &Action| match action {
        Action::Pod(PodRequest { request: Request::AwaitedEffects(PluginEffects { effects, .. }), .. }) => {
            effects.iter().map(|granted| granted.effect.clone()).collect()
        }
        _ => Vec::new(),
    };
    actions.iter().flat_map(effects).collect()
}

/// The pod as the API server shows it after the binding.
pub(super) fn assigned(name: &str, cpu: u32, node: &str) -> api::Pod {
    pod_maker(name, cpu).on(node).resource_version("2").build()
}

/// The pod as the API server shows it while the pod is being deleted.
pub(super) fn terminating(name: &str, cpu: u32) -> api::Pod {
    pod_maker(name, cpu).terminating().resource_version("2").build()
}

/// The number of times that each line occurs.
pub(super) fn tally(calls: &[String]) -> BTreeMap<&str, usize> {
    let mut tally = BTreeMap::new();
    for call in calls {
        *tally.entry(call.as_str()).or_default() += 1;
    }
    tally
}
