//! The real scheduler in a simulated cluster. Its API server and controllers carry out every request immediately.
//!
//! Every placement is checked when the scheduler assumes it. Volumes and devices are checked again when the pod is
//! bound, because they are created only before the binding.

use std::collections::BTreeMap;

use berth_framework::{Effect, PatchType, Profile};
use berth_model::{ObjectKey, Time};
use berth_scheduler::{
    Action, AttemptResult, Event, PluginEffects, PodRequest, Request, RequestError, Scheduler, Settings, StatusChange,
};
use berth_what_if::merge_strategically;
use serde_json::{Value, json};

use crate::{
    changing_cluster::{decode_node, decode_pod},
    checker::{Facts, device_violations, violations, volume_violations},
    generate::{
        nodes,
        objects::{self, Kind},
        pods::{self, Place},
        random::Recipe,
        text,
    },
};

/// An event in the cluster.
#[derive(Clone, Copy, Debug)]
pub enum ClusterStep {
    SetNode(u8, Recipe),
    RemoveNode(u8),
    CreatePod(Recipe),
    /// Another program places a pod on a node.
    PlacePod(Recipe, u8),
    /// One of the pods, by its number modulo their count.
    DeletePod(u8),
    SetObject(Kind, u8, Recipe),
    RemoveObject(Kind, u8),
    /// Whether bindings fail from now on.
    Refuse(bool),
    /// Time passes, in milliseconds.
    Wait(u32),
}

/// The number of events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub placements: u64,
    pub bindings: u64,
    pub refused: u64,
    pub evictions: u64,
    pub pending: u64,
    pub effects: u64,
}

/// The scheduler, and the objects of the API server.
#[derive(Debug)]
pub struct Simulation {
    scheduler: Scheduler,
    now: Time,
    nodes: BTreeMap<String, Value>,
    /// The pods by uid.
    pods: BTreeMap<String, Value>,
    objects: BTreeMap<(Kind, String, String), Value>,
    /// The nodes of pods that are placed but not bound yet, by uid.
    assumed: BTreeMap<String, String>,
    n_pods: u8,
    n_versions: u64,
    refuses: bool,
    pub tally: Tally,
    /// The violated rules, with the data to understand them.
    pub broken: Vec<String>,
}

/// The features that a new pod of the API server does not have: a resize, an eviction, a deletion, a nomination.
const NOT_NEW: [u32; 4] = [29, 30, 33, 39];

/// A pod in the form of the API server after its creation.
#[must_use]
pub fn new_pod(number: u8, recipe: &Recipe, place: Place<'_>) -> Value {
    let features = NOT_NEW.iter().fold(recipe.features, |features, feature| features & !(1 << feature));
    let mut pod = pods::pod(number, &Recipe { features, ..*recipe }, 0, place);
    merge_label_keys(&mut pod);
    pod
}

impl Simulation {
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self::with_settings(profile, Settings::default())
    }

    #[must_use]
    pub fn with_settings(profile: Profile, settings: Settings) -> Self {
        let mut scheduler = Scheduler::new(settings, vec![profile]);
        let now = Time(1_000_000_000);
        scheduler.handle(Event::Synced, now);
        Self {
            scheduler,
            now,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            objects: BTreeMap::new(),
            assumed: BTreeMap::new(),
            n_pods: 0,
            n_versions: 0,
            refuses: false,
            tally: Tally::default(),
            broken: Vec::new(),
        }
    }

    /// Makes the step, and lets the scheduler work until it has nothing to do.
    pub fn step(&mut self, step: &ClusterStep) {
        match step {
            ClusterStep::SetNode(number, recipe) => self.set_node(nodes::node(*number, recipe)),
            ClusterStep::RemoveNode(number) => {
                let name = nodes::name(*number);
                self.nodes.remove(&name);
                self.send(Event::NodeDeleted { name });
            }
            ClusterStep::CreatePod(recipe) => self.create_pod(recipe, Place::Pending),
            ClusterStep::PlacePod(recipe, number) => self.create_pod(recipe, Place::On(&nodes::name(*number))),
            ClusterStep::DeletePod(number) => {
                let n_pods = self.pods.len().max(1);
                if let Some(uid) = self.pods.keys().nth(usize::from(*number) % n_pods).cloned() {
                    self.delete_pod(&uid);
                }
            }
            ClusterStep::SetObject(kind, number, recipe) => {
                let mut object = objects::object(*kind, *number, recipe);
                if *kind == Kind::DeviceClaim && self.has_device_of_others(&object) {
                    object["status"] = json!({});
                }
                self.set_object(*kind, object);
            }
            ClusterStep::RemoveObject(kind, number) => {
                let object = objects::object(*kind, *number, &Recipe { seed: 0, features: 0 });
                self.remove_object(*kind, &object);
            }
            ClusterStep::Refuse(refuses) => self.refuses = *refuses,
            ClusterStep::Wait(milliseconds) => self.now = self.now + u64::from(*milliseconds),
        }
        self.settle();
    }

    /// Lets every backoff end.
    pub fn finish(&mut self) {
        self.refuses = false;
        for _ in 0..3 {
            self.now = self.now + 400_000;
            self.settle();
        }
        self.tally.pending += self.pods.values().filter(|pod| text(pod, "/spec/nodeName").is_empty()).count() as u64;
    }

    /// The node of each pod, by uid.
    #[must_use]
    pub fn placements(&self) -> BTreeMap<String, String> {
        self.pods.iter().map(|(uid, pod)| (uid.clone(), text(pod, "/spec/nodeName"))).collect()
    }

    /// Whether an attempt ended with an error. The pod is then tried again after its backoff, without any event.
    #[must_use]
    pub fn has_had_errors(&self) -> bool {
        self.scheduler.metrics().attempts.keys().any(|(_, result)| *result == AttemptResult::Error)
    }

    /// The number of cycles that reused the plugins' answers about earlier pods.
    #[must_use]
    pub fn n_cycles_with_earlier_answers(&self) -> u64 {
        self.scheduler.metrics().cycles_with_earlier_answers
    }

    fn send(&mut self, event: Event) {
        self.scheduler.handle(event, self.now);
    }

    fn set_node(&mut self, node: Value) {
        self.send(Event::NodeApplied(Box::new(decode_node(&node))));
        self.nodes.insert(text(&node, "/metadata/name"), node);
    }

    fn create_pod(&mut self, recipe: &Recipe, place: Place<'_>) {
        self.n_pods = self.n_pods.wrapping_add(1);
        self.apply_pod(new_pod(self.n_pods, recipe, place));
    }

    fn apply_pod(&mut self, mut pod: Value) {
        self.n_versions += 1;
        pod["metadata"]["resourceVersion"] = json!(self.n_versions.to_string());
        let uid = text(&pod, "/metadata/uid");
        self.send(Event::PodApplied(Box::new(decode_pod(&pod))));
        self.pods.insert(uid, pod);
    }

    fn delete_pod(&mut self, uid: &str) {
        let Some(pod) = self.pods.remove(uid) else { return };
        self.assumed.remove(uid);
        let (namespace, name) = (text(&pod, "/metadata/namespace"), text(&pod, "/metadata/name"));
        self.send(Event::PodDeleted { namespace, name, uid: uid.to_owned() });
    }

    /// Whether a claim has a device of another claim. Generated claims must not share a device, because a scheduler
    /// never allocates a device twice.
    fn has_device_of_others(&self, claim: &Value) -> bool {
        let devices = |claim: &Value| -> Vec<[Value; 3]> {
            let results = claim.pointer("/status/allocation/devices/results").and_then(Value::as_array);
            let device = |result: &Value| ["driver", "pool", "device"].map(|field| result[field].clone());
            results.into_iter().flatten().map(device).collect()
        };
        let own = ObjectKey::of(claim);
        let others = self.objects.iter().filter(|((kind, namespace, name), _)| {
            *kind == Kind::DeviceClaim && (namespace, name) != (&own.namespace, &own.name)
        });
        let taken: Vec<_> = others.flat_map(|(_, other)| devices(other)).collect();
        devices(claim).iter().any(|device| taken.contains(device))
    }

    fn set_object(&mut self, kind: Kind, mut object: Value) {
        self.n_versions += 1;
        object["metadata"]["resourceVersion"] = json!(self.n_versions.to_string());
        let (key, json) = (ObjectKey::of(&object), object.to_string().into_bytes().into());
        self.objects.insert((kind, key.namespace.clone(), key.name.clone()), object);
        self.send(Event::ObjectApplied { resource: kind.resource().to_owned(), key, json });
    }

    fn remove_object(&mut self, kind: Kind, object: &Value) {
        let key = ObjectKey::of(object);
        self.objects.remove(&(kind, key.namespace.clone(), key.name.clone()));
        self.send(Event::ObjectDeleted { resource: kind.resource().to_owned(), key });
    }

    fn settle(&mut self) {
        for _ in 0..2000 {
            let did = self.scheduler.run(self.now, false);
            self.check_new_placements();
            let actions: Vec<_> = self.scheduler.drain_actions().collect();
            if !did && actions.is_empty() {
                return;
            }
            actions.into_iter().for_each(|action| self.perform(action));
        }
        self.broken.push("the scheduler never rests".to_owned());
    }

    /// Checks the pods that the scheduler has just placed.
    fn check_new_placements(&mut self) {
        let table = self.scheduler.cache();
        let mut assumed = BTreeMap::new();
        for uid in self.pods.keys() {
            if let Some(pod) = table.pod(uid).filter(|pod| pod.is_assumed()) {
                assumed.insert(uid.clone(), table.table().symbols.text(pod.node()).to_owned());
            }
        }
        let new: Vec<String> = assumed.keys().filter(|uid| !self.assumed.contains_key(*uid)).cloned().collect();
        self.assumed = assumed;
        for uid in new {
            self.tally.placements += 1;
            self.check(&uid, violations);
        }
    }

    fn check(&mut self, uid: &str, rules: impl Fn(&Facts<'_>, &Value, &str) -> Vec<String>) {
        let place = |(other, pod): (&String, &'_ Value)| -> Option<String> {
            let bound = text(pod, "/spec/nodeName");
            if bound.is_empty() { self.assumed.get(other).cloned() } else { Some(bound) }
        };
        let Some(pod) = self.pods.get(uid) else { return };
        let Some(node) = place((&uid.to_owned(), pod)) else { return };
        let places: Vec<(&Value, String)> = self
            .pods
            .iter()
            .filter(|(other, _)| *other != uid)
            .filter_map(|(other, pod)| Some((pod, place((other, pod))?)))
            .collect();
        let placed: Vec<(&Value, &str)> = places.iter().map(|(pod, node)| (*pod, node.as_str())).collect();
        let facts = Facts { nodes: &self.nodes, placed: &placed, objects: &self.objects };
        let broken = rules(&facts, pod, &node);
        if !broken.is_empty() {
            let on: Vec<String> = placed.iter().map(|(pod, node)| format!("{node}: {pod}")).collect();
            let nodes: Vec<String> = self.nodes.values().map(Value::to_string).collect();
            let text =
                format!("{broken:#?}\n{pod}\non {node}; others:\n{}\nnodes:\n{}", on.join("\n"), nodes.join("\n"));
            self.broken.push(text);
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Pod(PodRequest { pod, request: Request::Bind { cycle, node }, .. }) => {
                let result = if self.refuses { Err(RequestError::new("refused")) } else { Ok(()) };
                if self.refuses {
                    self.tally.refused += 1;
                } else {
                    self.tally.bindings += 1;
                    self.check(&pod.uid, volume_violations);
                    self.check(&pod.uid, device_violations);
                }
                self.send(Event::BindFinished { cycle, uid: pod.uid.clone(), result });
                if let Some(mut bound) = self.pods.get(&*pod.uid).filter(|_| !self.refuses).cloned() {
                    bound["spec"]["nodeName"] = json!(*node);
                    self.apply_pod(bound);
                }
            }
            Action::PreparePlugin { preparation, .. } => {
                let objects = self.scheduler.objects().clone();
                if let Some(preparation) = objects.take(preparation) {
                    self.send(Event::plugin_prepared(&objects, preparation.run()));
                }
            }
            Action::Pod(PodRequest {
                pod,
                request: Request::PatchStatus(StatusChange { nominated_node_name: Some(node), .. }),
                ..
            }) => {
                if let Some(mut changed) = self.pods.get(&*pod.uid).cloned() {
                    changed["status"]["nominatedNodeName"] = json!(node);
                    self.apply_pod(changed);
                }
            }
            Action::Pod(PodRequest { request: Request::Effects(PluginEffects { effects, .. }), .. }) => {
                effects.into_iter().for_each(|granted| self.carry_out(granted.effect));
            }
            Action::Pod(PodRequest { pod, request: Request::AwaitedEffects(requested), .. }) => {
                let PluginEffects { cycle, plugin, effects, .. } = requested;
                effects.into_iter().for_each(|granted| self.carry_out(granted.effect));
                self.send(Event::EffectsFinished { cycle, uid: pod.uid, plugin, result: Ok(()) });
            }
            // There are no extenders.
            Action::Pod(PodRequest { request: Request::PatchStatus(_) | Request::BindByExtender { .. }, .. })
            | Action::Supervise(_)
            | Action::Notice(_)
            | Action::Traced(_) => {}
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        self.tally.effects += 1;
        match effect {
            Effect::Evict { uid, .. } => {
                self.tally.evictions += 1;
                self.delete_pod(&uid);
            }
            Effect::Patch { kind, namespace, name, patch, patch_type, .. } => {
                let patch: Value = serde_json::from_slice(&patch).unwrap_or_default();
                self.patch(&kind, namespace, name, patch_type, &patch);
            }
            Effect::Create { kind, body, .. } => {
                let mut object: Value = serde_json::from_slice(&body).unwrap_or_default();
                object["metadata"]["uid"] = json!(format!("made-{}", self.n_versions));
                if object["metadata"]["name"].is_null() {
                    object["metadata"]["name"] =
                        json!(format!("{}{}", text(&object, "/metadata/generateName"), self.n_versions));
                }
                let (version, short) = kind.rsplit_once('/').unwrap_or(("", &kind));
                (object["apiVersion"], object["kind"]) = (json!(version), json!(short));
                if let Some(kind) = kind_of(&kind) {
                    self.set_object(kind, object);
                }
            }
            Effect::Delete { kind, namespace, name } => {
                let object = kind_of(&kind).and_then(|kind| self.objects.get(&(kind, namespace, name)).cloned());
                if let Some((kind, object)) = kind_of(&kind).zip(object) {
                    self.remove_object(kind, &object);
                }
            }
            Effect::Bind
            | Effect::Allow { .. }
            | Effect::Reject { .. }
            | Effect::Activate { .. }
            | Effect::Nominate { .. }
            | Effect::Event { .. }
            | Effect::Wait { .. } => {}
        }
    }

    /// Applies a patch as the API server and the volume controllers do.
    fn patch(&mut self, kind: &str, namespace: String, name: String, patch_type: PatchType, patch: &Value) {
        let merge: fn(&mut Value, &Value) = match patch_type {
            PatchType::Merge => json_patch::merge,
            PatchType::StrategicMerge => merge_strategically,
        };
        if kind == "v1/Pod" {
            let is_it =
                |pod: &&Value| text(pod, "/metadata/name") == name && text(pod, "/metadata/namespace") == namespace;
            if let Some(mut pod) = self.pods.values().find(is_it).cloned() {
                merge(&mut pod, patch);
                self.apply_pod(pod);
            }
            return;
        }
        let Some(known) = kind_of(kind) else { return };
        let Some(mut object) = self.objects.get(&(known, namespace.clone(), name.clone())).cloned() else { return };
        merge(&mut object, patch);
        match known {
            Kind::Volume => {
                let claim = &object["spec"]["claimRef"];
                let key = (Kind::Claim, text(claim, "/namespace"), text(claim, "/name"));
                object["status"]["phase"] = json!("Bound");
                self.set_object(known, object);
                self.bind_claim(&key, &name);
            }
            Kind::Claim if object.pointer("/metadata/annotations/volume.kubernetes.io~1selected-node").is_some() => {
                let made = format!("made-for-{namespace}-{name}");
                let spec = json!({"capacity": object["spec"]["resources"]["requests"], "storageClassName": object["spec"]["storageClassName"],
                    "accessModes": object["spec"]["accessModes"], "claimRef": {"name": name, "namespace": namespace, "uid": object["metadata"]["uid"]}});
                let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": made}, "spec": spec,
                    "status": {"phase": "Bound"}});
                self.set_object(known, object);
                self.set_object(Kind::Volume, volume);
                self.bind_claim(&(Kind::Claim, namespace, name), &made);
            }
            _ => self.set_object(known, object),
        }
    }

    fn bind_claim(&mut self, key: &(Kind, String, String), volume: &str) {
        let Some(mut claim) = self.objects.get(key).cloned() else { return };
        claim["spec"]["volumeName"] = json!(volume);
        claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
        claim["status"]["phase"] = json!("Bound");
        self.set_object(Kind::Claim, claim);
    }
}

/// The kind of an `apiVersion/kind`, which is the form in effects.
fn kind_of(kind: &str) -> Option<Kind> {
    match kind.rsplit('/').next() {
        Some("PersistentVolume") => Some(Kind::Volume),
        Some("PersistentVolumeClaim") => Some(Kind::Claim),
        Some("ResourceClaim") => Some(Kind::DeviceClaim),
        _ => None,
    }
}

/// Adds `matchLabelKeys` and `mismatchLabelKeys` of affinity terms to their selectors, as the API server does.
fn merge_label_keys(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].clone();
    for kind in ["podAffinity", "podAntiAffinity"] {
        for list in
            ["requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"]
        {
            let terms =
                pod["spec"]["affinity"].get_mut(kind).and_then(|it| it.get_mut(list)).and_then(Value::as_array_mut);
            for term in terms.into_iter().flatten() {
                let term = if term["podAffinityTerm"].is_null() { term } else { &mut term["podAffinityTerm"] };
                for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
                    let value = &labels["rev"];
                    if !term[field].is_null() && !value.is_null() {
                        let requirement = json!({"key": "rev", "operator": operator, "values": [value]});
                        match term["labelSelector"]["matchExpressions"].as_array_mut() {
                            Some(expressions) => expressions.push(requirement),
                            None => term["labelSelector"]["matchExpressions"] = json!([requirement]),
                        }
                    }
                    if let Some(term) = term.as_object_mut() {
                        term.remove(field);
                    }
                }
            }
        }
    }
}
