//! A handful of objects in place of an API server.

use std::collections::BTreeMap;

use berth_framework::{
    Call, ClusterEvent, CycleId, DryRun, Effect, EventSubject, Failure, HintCall, PatchType, Plugin, Removal,
    SchedulingTime, SearchLength, Status,
};
use berth_model::{NodeIdx, ObjectKey, Pod, Time};
use serde_json::{Value, json};

use crate::{
    BuiltIn,
    dynamic_resources::DynamicResources,
    dynamic_resources::objects,
    testing::{TestCluster, merge, show},
};

/// Nodes, pods and the plugin. The effects that the plugin returns are applied to the objects, as the API server would.
pub(super) struct DeviceCluster {
    pub(super) cluster: TestCluster,
    pub(super) plugin: Box<dyn Plugin>,
    pub(super) now: Time,
    /// Bounds the time of searches for devices. There is no bound by default.
    pub(super) time: SchedulingTime,
    /// The objects by kind, namespace and name.
    objects: BTreeMap<(String, String, String), Value>,
    n_versions: u64,
}

/// A dry run that is never called.
struct NoDryRun;

impl DryRun for NoDryRun {
    fn dry_run(&mut self, _cases: &[Removal]) -> Result<Vec<Status>, Status> {
        Ok(Vec::new())
    }
}

impl DeviceCluster {
    /// Nodes `node-1` and `node-2`, and the class `gpu`.
    pub(super) fn new() -> Self {
        Self::with_args("null")
    }

    pub(super) fn with_args(args: &str) -> Self {
        let mut cluster = TestCluster::default();
        for name in ["node-1", "node-2"] {
            cluster.edit_node(name, |_| ());
        }
        let plugin = Box::new(DynamicResources::new(args).unwrap());
        let now = Time(1_795_327_200_700);
        let (time, objects) = (SchedulingTime::default(), BTreeMap::new());
        let mut devices = Self { cluster, plugin, now, time, objects, n_versions: 0 };
        devices.put("DeviceClass", json!({"metadata": {"name": "gpu"}}));
        devices
    }

    /// A slice on `node-1` with these devices.
    pub(super) fn slice(&mut self, devices: Value) {
        self.slice_on("node-1", devices);
    }

    pub(super) fn slice_on(&mut self, node: &str, devices: Value) {
        self.put(
            "ResourceSlice",
            json!({"metadata": {"name": format!("slice-of-{node}")}, "spec": {
            "driver": "gpu.example.com", "pool": {"name": node, "resourceSliceCount": 1}, "nodeName": node,
            "devices": devices}}),
        );
    }

    pub(super) fn claim(&mut self, name: &str, edit: impl FnOnce(&mut Value)) {
        let exactly = json!({"deviceClassName": "gpu", "count": 1});
        let mut claim = json!({"metadata": {"namespace": "default", "name": name, "uid": format!("{name}-uid")},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}});
        edit(&mut claim);
        self.put("ResourceClaim", claim);
    }

    pub(super) fn put(&mut self, kind: &str, mut object: Value) {
        self.n_versions += 1;
        object["metadata"]["resourceVersion"] = json!(self.n_versions.to_string());
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = (kind.to_owned(), text("namespace"), text("name"));
        self.announce(&key, Some(&object));
        self.objects.insert(key, object);
    }

    pub(super) fn announce(&mut self, key: &(String, String, String), object: Option<&Value>) {
        let (kind, namespace, name) = key.clone();
        let key = ObjectKey { api_version: objects::API_VERSION.to_owned(), kind, namespace, name };
        let json = object.map(|object| object.to_string().into_bytes().into());
        self.cluster.cache_mut().set_object(key, json);
    }

    /// Whether the plugin's hint is to try `pod` again after an event.
    pub(super) fn hint(&mut self, pod: &Pod, subject: EventSubject<'_>) -> bool {
        let event = ClusterEvent::new("resource.k8s.io/ResourceClaim", ClusterEvent::UPDATE);
        let call = HintCall { table: self.cluster.table(), pod, event: &event, subject };
        self.plugin.queueing_hint().unwrap().queueing_hint(&call)
    }

    pub(super) fn object(&self, kind: &str, name: &str) -> &Value {
        let of_name = |key: &&(String, String, String)| key.0 == kind && key.2 == name;
        let key = self.objects.keys().find(of_name).unwrap_or_else(|| panic!("no {kind} {name}"));
        &self.objects[key]
    }

    /// Carries out an effect. It refuses a wrong uid or version, as the API server would.
    pub(super) fn perform(&mut self, effect: &Effect) {
        let key = |kind: &str, namespace: &str, name: &str| {
            (kind.rsplit('/').next().unwrap().to_owned(), namespace.to_owned(), name.to_owned())
        };
        match effect {
            Effect::Patch { kind, namespace, name, patch, subresource, patch_type } => {
                let key = key(kind, namespace, name);
                if key.0 == "Pod" {
                    return;
                }
                let mut object = self.objects.get(&key).unwrap_or_else(|| panic!("no {key:?}")).clone();
                let patch: Value = serde_json::from_slice(patch).unwrap();
                for field in ["uid", "resourceVersion"] {
                    let wanted = &patch["metadata"][field];
                    assert!(wanted.is_null() || *wanted == object["metadata"][field], "conflict: {patch}");
                }
                assert_eq!(subresource.is_some(), patch.get("status").is_some(), "{patch}");
                match patch_type {
                    PatchType::Merge => merge(&mut object, &patch),
                    PatchType::StrategicMerge => release(&mut object, &patch),
                }
                self.put(&key.0, object);
            }
            Effect::Create { kind, namespace, body } => {
                let mut object: Value = serde_json::from_slice(body).unwrap();
                object["metadata"]["uid"] = json!("made-uid");
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                assert!(!self.objects.contains_key(&key(kind, namespace, &name)), "{name} exists");
                self.put("ResourceClaim", object);
            }
            Effect::Delete { kind, namespace, name } => {
                let key = key(kind, namespace, name);
                assert!(self.objects.remove(&key).is_some());
                self.announce(&key, None);
            }
            Effect::Event { .. } | Effect::Wait { .. } => {}
            Effect::Bind
            | Effect::Evict { .. }
            | Effect::Allow { .. }
            | Effect::Reject { .. }
            | Effect::Activate { .. }
            | Effect::Nominate { .. } => panic!("{effect:?}"),
        }
    }

    /// A pod that names claims, with the fields of `spec`.
    pub(super) fn pod(&mut self, name: &str, claims: &[&str], spec: Value) -> Pod {
        let claims: Value = claims.iter().map(|claim| json!({"name": claim, "resourceClaimName": claim})).collect();
        let mut pod = json!({"metadata": {"namespace": "default", "name": name, "uid": format!("{name}-uid")},
            "spec": {"resourceClaims": claims}});
        merge(&mut pod["spec"], &spec);
        self.decode_pod(pod)
    }

    pub(super) fn decode_pod(&mut self, pod: Value) -> Pod {
        self.cluster.intern(&serde_json::from_value(pod).unwrap())
    }

    pub(super) fn call<R>(&mut self, cycle: u64, pod: &Pod, ask: impl FnOnce(&mut dyn Plugin, &Call<'_>) -> R) -> R {
        let deadline = self.time.search_deadline(SearchLength::Full);
        let call = Call { deadline, ..Call::new(CycleId(cycle), self.now, pod, self.cluster.table()) };
        ask(self.plugin.as_mut(), &call)
    }

    pub(super) fn pre_enqueue(&mut self, pod: &Pod) -> String {
        show(&self.plugin.pre_enqueue().unwrap().pre_enqueue(pod, self.cluster.table()))
    }

    pub(super) fn pre_filter(&mut self, cycle: u64, pod: &Pod) -> String {
        self.call(cycle, pod, |plugin, call| plugin.pre_filter().unwrap().pre_filter(call))
            .map_or_else(|status| show(&status), |_| String::new())
    }

    /// Runs PreFilter, and returns the answer for each node. Filter, node-to-status and dry-run must agree.
    pub(super) fn verdicts(&mut self, cycle: u64, pod: &Pod) -> Vec<String> {
        let turned_down = self.pre_filter(cycle, pod);
        if !turned_down.is_empty() {
            return vec![turned_down];
        }
        self.call(cycle, pod, |plugin, call| {
            let nodes = call.table.nodes();
            match berth_testing::filter(plugin, call, &mut nodes.clone()) {
                Ok(rejected) => {
                    let name = |node| call.table.symbols.text(call.table.name(node));
                    nodes.iter().map(|node| rejected.get(name(node)).map_or_else(String::new, show)).collect()
                }
                Err(status) => vec![show(&status)],
            }
        })
    }

    pub(super) fn reserve(&mut self, cycle: u64, pod: &Pod, node: u32) -> String {
        show(&self.call(cycle, pod, |plugin, call| plugin.reserve().unwrap().reserve(call, NodeIdx(node))))
    }

    pub(super) fn pre_bind(&mut self, cycle: u64, pod: &Pod, node: u32) -> Result<Vec<Effect>, String> {
        self.call(cycle, pod, |plugin, call| plugin.pre_bind().unwrap().pre_bind(call, NodeIdx(node)))
            .map_err(|status| show(&status))
    }

    /// The effects of Unreserve on `node-1`.
    pub(super) fn unreserve(&mut self, cycle: u64, pod: &Pod) -> Vec<Effect> {
        self.call(cycle, pod, |plugin, call| plugin.reserve().unwrap().unreserve(call, NodeIdx(0)))
    }

    pub(super) fn post_filter(&mut self, cycle: u64, pod: &Pod) -> (String, Vec<Effect>) {
        let outcome = self
            .call(cycle, pod, |plugin, call| {
                plugin.post_filter().unwrap().post_filter(call, &Failure::default(), &mut NoDryRun)
            })
            .unwrap();
        assert_eq!(outcome.nominate, None);
        (show(&outcome.status), outcome.effects)
    }

    /// Takes the pod from PreFilter to its binding to `node-1`.
    #[track_caller]
    pub(super) fn place(&mut self, cycle: u64, pod: &Pod) {
        assert_eq!(self.verdicts(cycle, pod)[0], "");
        assert_eq!(self.reserve(cycle, pod, 0), "");
        for effect in self.pre_bind(cycle, pod, 0).unwrap() {
            self.perform(&effect);
        }
        self.plugin.end_cycle(CycleId(cycle));
    }
}

/// Applies a strategic merge patch that only removes entries of `status.reservedFor`.
fn release(claim: &mut Value, patch: &Value) {
    let gone = patch["status"]["reservedFor"].as_array().unwrap();
    assert!(gone.iter().all(|entry| entry["$patch"] == "delete"), "{patch}");
    if let Some(reserved) = claim.pointer_mut("/status/reservedFor").and_then(Value::as_array_mut) {
        reserved.retain(|entry| !gone.iter().any(|it| it["uid"] == entry["uid"]));
    }
}
