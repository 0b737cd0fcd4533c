//! Cases of the documentation: "Dynamic Resource Allocation" and the API reference of `resource.k8s.io/v1`, KEP-4381
//! (structured parameters), KEP-4816 (prioritized list), KEP-5055 (taints), KEP-4815 (partitions), KEP-5075 (shares).

mod releases;

use std::{collections::BTreeMap, time::Duration};

use berth_framework::{Deadline, SchedulingTime};
use berth_model::{Feature, api::StringMap};
use serde_json::{Value, json};

use super::*;
use crate::dynamic_resources::{
    objects::{DeviceClass, ResourceClaim},
    slices::NodeView,
};

/// A cluster to allocate in. Objects are JSON, as in the API server.
#[derive(Default)]
pub(super) struct TestInventory {
    pub(super) slices: SliceTable,
    pub(super) classes: BTreeMap<String, Arc<DeviceClass>>,
    pub(super) in_use: InUse,
    pub(super) selectors: Selectors,
    pub(super) features: Features,
    max_steps: Option<u64>,
}

/// An [`AllocationOutcome`] as text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    Allocated { allocations: Vec<Allocation>, choices: Vec<usize> },
    Nothing,
    NothingWithInvalidPool,
}

/// The first of the allocations.
struct First {
    allocation: Allocation,
    choices: Vec<usize>,
}

impl TestInventory {
    /// A cluster with a class `any` that includes every device.
    pub(super) fn new(slices: &[Value]) -> Self {
        let mut inventory = Self::default();
        for (position, slice) in slices.iter().enumerate() {
            let mut slice = json!({"metadata": {"name": format!("slice-{position}")}, "spec": slice});
            let pool = slice.pointer_mut("/spec/pool").unwrap();
            if pool.get("resourceSliceCount").is_none() {
                pool["resourceSliceCount"] = json!(1);
            }
            inventory.slices.insert(&serde_json::from_value(slice).unwrap(), &mut inventory.in_use);
        }
        inventory.slices.refresh();
        inventory.with_class("any", json!({}))
    }

    pub(super) fn with_class(mut self, name: &str, spec: Value) -> Self {
        let class = json!({"metadata": {"name": name}, "spec": spec});
        self.classes.insert(name.to_owned(), Arc::new(serde_json::from_value(class).unwrap()));
        self
    }

    fn with_held(mut self, results: Value) -> Self {
        self.in_use.add(&serde_json::from_value(json!({"devices": {"results": results}})).unwrap());
        self
    }

    pub(super) fn allocate(&mut self, claims: &[&ResourceClaim], node: &str) -> Result<Outcome, AllocationError> {
        let labels = StringMap::from([("zone".to_owned(), format!("zone-of-{node}"))]);
        let mut node_devices =
            NodeDevices::new(&self.slices, self.features, NodeView { name: node, labels: &labels }).unwrap();
        self.allocate_in(claims, node, &mut node_devices)
    }

    pub(super) fn allocate_in(
        &mut self,
        claims: &[&ResourceClaim],
        node: &str,
        node_devices: &mut NodeDevices,
    ) -> Result<Outcome, AllocationError> {
        let claims = claims.iter().map(|claim| Arc::new(ResourceClaim::clone(claim)));
        let features = self.features;
        let inventory = Inventory { slices: &self.slices, in_use: &self.in_use, features };
        let plan = Plan::new(&inventory, &self.classes, &mut self.selectors, claims, Deadline::NEVER);
        let limit = SearchLimit { steps: self.max_steps.unwrap_or(1_000_000), ..SearchLimit::NONE };
        Ok(match allocate(&inventory, &mut self.selectors, &plan, node_devices, limit)? {
            AllocationOutcome::Devices(devices) => {
                Outcome::Allocated { allocations: devices.allocations(features, &plan, node), choices: devices.choices }
            }
            AllocationOutcome::Nothing => Outcome::Nothing,
            AllocationOutcome::NothingWithInvalidPool => Outcome::NothingWithInvalidPool,
        })
    }

    fn first(&mut self, devices: Value) -> First {
        match self.allocate(&[&claim(devices)], "node-1") {
            Ok(Outcome::Allocated { mut allocations, choices }) => First { allocation: allocations.remove(0), choices },
            other => panic!("{other:?}"),
        }
    }

    /// Checks the results, each as `request: device`, or the reason why there are no results.
    #[track_caller]
    fn check(&mut self, devices: Value, expected: &[&str]) {
        assert_eq!(self.shown(devices.clone()), expected, "{devices}");
    }

    fn shown(&mut self, devices: Value) -> Vec<String> {
        match self.allocate(&[&claim(devices)], "node-1") {
            Ok(Outcome::Allocated { allocations, .. }) => shown(&allocations[0]),
            Ok(Outcome::Nothing) => vec!["nothing".to_owned()],
            Ok(Outcome::NothingWithInvalidPool) => vec!["nothing without an invalid pool".to_owned()],
            Err(error) => vec![error.to_string()],
        }
    }
}

pub(super) fn claim(devices: Value) -> ResourceClaim {
    let metadata = json!({"namespace": "default", "name": "claim", "uid": "claim-uid"});
    serde_json::from_value(json!({"metadata": metadata, "spec": {"devices": devices}})).unwrap()
}

fn shown(allocation: &Allocation) -> Vec<String> {
    allocation.devices.results.iter().map(|it| format!("{}: {}", it.request, it.device)).collect()
}

fn slice(pool: &str, devices: Value) -> Value {
    json!({"driver": "gpu.example.com", "pool": {"name": pool}, "nodeName": "node-1", "devices": devices})
}

/// Devices `gpu-0` and so on. Each has the additional fields of its entry in `devices`.
fn gpus(devices: &[Value]) -> Value {
    let named = devices.iter().enumerate().map(|(position, device)| {
        let mut device = device.clone();
        device["name"] = json!(format!("gpu-{position}"));
        device
    });
    Value::Array(named.collect())
}

fn one(request: &str, extra: Value) -> Value {
    let mut exactly = json!({"deviceClassName": "any", "count": 1});
    exactly.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({"name": request, "exactly": exactly})
}

fn requests(requests: &[Value]) -> Value {
    json!({"requests": requests})
}

fn cel(expression: &str) -> Value {
    json!([{"cel": {"expression": expression}}])
}

/// KEP-4381, "Scheduling + Allocation": first fit in the order of pools, slices and devices.
#[test]
fn the_first_devices_in_order_win() {
    let mut inventory =
        TestInventory::new(&[slice("b", gpus(&[json!({})])), slice("a", gpus(&[json!({}), json!({})]))]);
    inventory.check(requests(&[one("r", json!({"count": 2}))]), &["r: gpu-0", "r: gpu-1"]);
    let pools = inventory.first(requests(&[one("r", json!({"count": 3}))])).allocation.devices.results;
    assert_eq!(pools.iter().map(|it| it.pool.as_str()).collect::<Vec<_>>(), ["a", "a", "b"]);
    inventory.check(requests(&[one("r", json!({"count": 4}))]), &["nothing"]);
    inventory.check(requests(&[one("x", json!({})), one("y", json!({}))]), &["x: gpu-0", "y: gpu-1"]);
}

/// API reference, DeviceRequest: selectors of the class and of the request must all hold.
#[test]
fn selectors_of_class_and_request_must_all_hold() {
    let devices = [json!({"attributes": {"tier": {"int": 1}}}), json!({"attributes": {"tier": {"int": 2}}}), json!({})];
    let mut inventory = TestInventory::new(&[slice("p", gpus(&devices))])
        .with_class("tiered", json!({"selectors": cel("has(device.attributes['gpu.example.com'].tier)")}))
        .with_class("broken", json!({"selectors": cel("device.attributes['gpu.example.com'].tier > 0")}));
    let tier_2 = cel("device.attributes['gpu.example.com'].tier == 2");
    inventory.check(requests(&[one("r", json!({"deviceClassName": "tiered", "selectors": tier_2}))]), &["r: gpu-1"]);
    inventory.check(requests(&[one("r", json!({"deviceClassName": "tiered", "count": 3}))]), &["nothing"]);
    inventory.check(
        requests(&[one("r", json!({"selectors": tier_2, "count": 2}))]),
        &["claim default/claim: selector #0: CEL runtime error: no such key: tier"],
    );
    // The search ends before it reaches the device without the attribute.
    inventory.check(requests(&[one("r", json!({"deviceClassName": "broken"}))]), &["r: gpu-0"]);
    inventory.check(
        requests(&[one("r", json!({"deviceClassName": "broken", "count": 3}))]),
        &["class broken: selector #0: CEL runtime error: no such key: tier"],
    );
    let unknown = inventory.shown(requests(&[one("r", json!({"deviceClassName": "gone"}))]));
    let error = "claim default/claim, request r: could not retrieve device class gone: deviceclass.resource.k8s.io \"gone\" not found";
    assert_eq!(unknown, [error]);
}

/// API reference, ResourceSliceSpec: exactly one of nodeName, nodeSelector, allNodes, perDeviceNodeSelection.
#[test]
fn slices_are_for_the_nodes_that_they_name() {
    let in_zone = json!({"nodeSelectorTerms": [{"matchExpressions":
        [{"key": "zone", "operator": "In", "values": ["zone-of-node-1"]}]}]});
    let network = |placement: Value, device: Value| {
        let mut slice = json!({"driver": "net.example.com", "pool": {"name": "net"}, "devices": [device]});
        slice.as_object_mut().unwrap().extend(placement.as_object().unwrap().clone());
        slice
    };
    let nic = json!({"name": "nic"});
    let claim = claim(requests(&[one("r", json!({}))]));
    let check = |slice: Value, node_1: Option<Value>, on_node_2: bool| {
        let mut inventory = TestInventory::new(&[slice]);
        let Ok(Outcome::Allocated { allocations, .. }) = inventory.allocate(&[&claim], "node-1") else {
            panic!("node-1")
        };
        let selector = serde_json::to_value(&allocations[0]).unwrap().get("nodeSelector").cloned();
        assert_eq!(selector, node_1);
        let is_offered = matches!(inventory.allocate(&[&claim], "node-2"), Ok(Outcome::Allocated { .. }));
        assert_eq!(is_offered, on_node_2);
    };
    let only_node_1 = json!({"nodeSelectorTerms": [{"matchFields":
        [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]});
    check(network(json!({"nodeName": "node-1"}), nic.clone()), Some(only_node_1.clone()), false);
    check(network(json!({"allNodes": true}), nic.clone()), None, true);
    check(network(json!({"nodeSelector": in_zone}), nic.clone()), Some(in_zone.clone()), false);
    let binding = json!({"name": "nic", "bindsToNode": true});
    check(network(json!({"allNodes": true}), binding), Some(only_node_1.clone()), true);
    let per_device = json!({"perDeviceNodeSelection": true});
    check(network(per_device.clone(), json!({"name": "nic", "nodeName": "node-1"})), Some(only_node_1), false);
    check(network(per_device.clone(), json!({"name": "nic", "nodeSelector": in_zone})), Some(in_zone), false);
    check(network(per_device, json!({"name": "nic", "allNodes": true})), None, true);
}

/// kube-scheduler evaluates selectors before it compares the node selection of a device with the node.
#[test]
fn selectors_see_the_devices_of_a_slice_that_are_for_other_nodes() {
    let devices = json!([{"name": "there", "nodeName": "node-2"},
        {"name": "here", "nodeName": "node-1", "attributes": {"x": {"int": 1}}}]);
    let spec = json!({"driver": "gpu.example.com", "pool": {"name": "p"}, "perDeviceNodeSelection": true,
        "devices": devices});
    let mut inventory = TestInventory::new(&[spec]);
    let all = json!({"allocationMode": "All", "count": 0});
    for request in [json!({}), all, json!({"selectors": cel("has(device.attributes['gpu.example.com'].x)")})] {
        inventory.check(requests(&[one("r", request)]), &["r: here"]);
    }
    inventory.check(requests(&[one("r", json!({"count": 2}))]), &["nothing"]);
    inventory.check(
        requests(&[one("r", json!({"selectors": cel("device.attributes['gpu.example.com'].x == 1")}))]),
        &["claim default/claim: selector #0: CEL runtime error: no such key: x"],
    );
}

/// API reference, ResourcePool: generation and resourceSliceCount.
#[test]
fn only_the_newest_generation_of_a_complete_pool_counts() {
    let with_pool = |generation: i64, n_slices: i64, node: &str, name: &str| {
        json!({"driver": "gpu.example.com", "devices": [{"name": name}], "nodeName": node,
            "pool": {"name": "p", "generation": generation, "resourceSliceCount": n_slices}})
    };
    let any = || requests(&[one("r", json!({}))]);
    let all = || requests(&[one("r", json!({"allocationMode": "All"}))]);
    let mut outdated = TestInventory::new(&[with_pool(1, 1, "node-1", "old"), with_pool(2, 1, "node-1", "new")]);
    outdated.check(any(), &["r: new"]);
    let mut incomplete = TestInventory::new(&[with_pool(1, 2, "node-1", "lonely")]);
    incomplete.check(any(), &["nothing"]);
    incomplete.check(
        all(),
        &["claim default/claim, request r: asks for all devices, but resource pool gpu.example.com/p is currently being \
           updated"],
    );
    let mut elsewhere = TestInventory::new(&[with_pool(1, 2, "node-1", "here"), with_pool(1, 2, "node-2", "there")]);
    elsewhere.check(any(), &["r: here"]);
    elsewhere.check(all(), &["r: here"]);
    let mut alike = TestInventory::new(&[with_pool(1, 2, "node-1", "gpu"), with_pool(1, 2, "node-2", "gpu")]);
    alike.check(any(), &["r: gpu"]);
    let mut coming = TestInventory::new(&[with_pool(1, 2, "node-1", "old"), with_pool(2, 2, "node-2", "new")]);
    coming.check(any(), &["nothing"]);
    coming.check(all(), &["nothing"]);
    let mut invalid = TestInventory::new(&[with_pool(1, 2, "node-1", "twice"), with_pool(1, 2, "node-1", "twice")]);
    invalid.check(any(), &["nothing without an invalid pool"]);
    assert!(invalid.shown(all())[0].ends_with("is currently invalid"));
}

/// API reference, AllocationMode: All needs every matching device, at least one, and none in use but for admins.
#[test]
fn all_means_every_matching_device() {
    let mut inventory =
        TestInventory::new(&[slice("p", gpus(&[json!({}), json!({}), json!({"attributes": {"x": {"int": 1}}})]))]);
    let all = |extra: Value| {
        let mut request = one("r", json!({"allocationMode": "All", "count": 0}));
        request["exactly"].as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        requests(&[request])
    };
    inventory.check(all(json!({})), &["r: gpu-0", "r: gpu-1", "r: gpu-2"]);
    inventory.check(all(json!({"selectors": cel("has(device.attributes['gpu.example.com'].x)")})), &["r: gpu-2"]);
    inventory.check(all(json!({"selectors": cel("false")})), &["nothing"]);
    let mut inventory = inventory.with_held(json!([{"driver": "gpu.example.com", "pool": "p", "device": "gpu-1"}]));
    inventory.check(all(json!({})), &["nothing"]);
    inventory.check(all(json!({"adminAccess": true})), &["r: gpu-0", "r: gpu-1", "r: gpu-2"]);
    inventory.check(requests(&[one("r", json!({"count": 2}))]), &["r: gpu-0", "r: gpu-2"]);
}

/// API reference, adminAccess: the claim may get devices in use, but not the same device twice.
#[test]
fn admin_access_does_not_mind_others() {
    let held = json!([{"driver": "gpu.example.com", "pool": "p", "device": "gpu-0"}]);
    let mut inventory = TestInventory::new(&[slice("p", gpus(&[json!({})]))]).with_held(held);
    let admin = |name| one(name, json!({"adminAccess": true}));
    inventory.check(requests(&[one("r", json!({}))]), &["nothing"]);
    inventory.check(requests(&[admin("r")]), &["r: gpu-0"]);
    inventory.check(requests(&[admin("x"), admin("y")]), &["nothing"]);
    let results = inventory.first(requests(&[admin("r")])).allocation.devices.results;
    assert_eq!(results[0].admin_access, Some(true));
}

/// API reference, DeviceConstraint.matchAttribute; the example of KEP-4381 with two devices on one NUMA node.
#[test]
fn constraints_tie_devices_together_or_keep_them_apart() {
    let numa = |node: i64| json!({"attributes": {"example.com/numa": {"int": node}, "model": {"string": "a"}}});
    let mut inventory = TestInventory::new(&[slice("p", gpus(&[numa(0), numa(1), json!({}), numa(1)]))]);
    let pair = requests(&[one("x", json!({})), one("y", json!({}))]);
    let constrained = |constraint: Value| {
        let mut devices = pair.clone();
        devices["constraints"] = json!([constraint]);
        devices
    };
    inventory.check(constrained(json!({"matchAttribute": "example.com/numa"})), &["x: gpu-1", "y: gpu-3"]);
    inventory.check(constrained(json!({"distinctAttribute": "example.com/numa"})), &["x: gpu-0", "y: gpu-1"]);
    inventory.check(constrained(json!({"matchAttribute": "gpu.example.com/model"})), &["x: gpu-0", "y: gpu-1"]);
    inventory.check(constrained(json!({"matchAttribute": "other.example.com/model"})), &["nothing"]);
    inventory.check(
        constrained(json!({"matchAttribute": "example.com/numa", "requests": ["y"]})),
        &["x: gpu-0", "y: gpu-1"],
    );
    let unknown = "claim default/claim, constraint #0: empty constraint (unsupported constraint type?)";
    inventory.check(constrained(json!({"ofTheFuture": "example.com/numa"})), &[unknown]);
}

/// The first device of a constraint is compared with no other device, so its attribute may be a list.
#[test]
fn lists_are_not_compared() {
    let links = json!({"attributes": {"example.com/links": {"strings": ["a"]}}});
    let mut inventory = TestInventory::new(&[slice("p", gpus(&[links.clone(), links]))]);
    for kind in ["matchAttribute", "distinctAttribute"] {
        for (count, expected) in [(1, "r: gpu-0"), (2, "nothing")] {
            let mut devices = requests(&[one("r", json!({ "count": count }))]);
            devices["constraints"] = json!([{kind: "example.com/links"}]);
            inventory.check(devices, &[expected]);
        }
    }
}

/// KEP-4816: alternatives in order of preference; constraints and config may name the request or a sub-request.
#[test]
fn the_first_available_alternative_is_taken() {
    let size = |size: &str| json!({"attributes": {"size": {"string": size}}});
    let mut inventory = TestInventory::new(&[slice("p", gpus(&[size("small"), size("small"), size("large")]))])
        .with_class(
            "configured",
            json!({"config": [{"opaque": {"driver": "gpu.example.com", "parameters": {"c": 1}}}]}),
        );
    let sub = |name: &str, class: &str, wanted: &str, count: i64| {
        json!({"name": name, "deviceClassName": class, "count": count,
            "selectors": cel(&format!("device.attributes['gpu.example.com'].size == '{wanted}'"))})
    };
    let prioritized = |count: i64| {
        json!({"requests": [{"name": "r", "firstAvailable":
                [sub("big", "any", "large", count), sub("pair", "configured", "small", 2)]}],
            "config": [{"requests": ["r/big"], "opaque": {"driver": "d", "parameters": 1}},
                {"requests": ["r/pair"], "opaque": {"driver": "d", "parameters": 2}},
                {"requests": ["r"], "opaque": {"driver": "d", "parameters": 3}},
                {"opaque": {"driver": "d", "parameters": 4}}]})
    };
    inventory.check(prioritized(1), &["r/big: gpu-2"]);
    assert_eq!(inventory.first(prioritized(1)).choices, [0]);
    inventory.check(prioritized(2), &["r/pair: gpu-0", "r/pair: gpu-1"]);
    let allocated = inventory.first(prioritized(2));
    assert_eq!(allocated.choices, [1]);
    let config = serde_json::to_value(allocated.allocation.devices.config).unwrap();
    let of_claim = |requests: &[&str], parameters: i64| {
        let opaque = json!({"driver": "d", "parameters": parameters});
        match requests {
            [] => json!({"source": "FromClaim", "opaque": opaque}),
            some => json!({"source": "FromClaim", "requests": some, "opaque": opaque}),
        }
    };
    let of_class = json!({"source": "FromClass", "requests": ["r/pair"],
        "opaque": {"driver": "gpu.example.com", "parameters": {"c": 1}}});
    assert_eq!(config, json!([of_class, of_claim(&["r/pair"], 2), of_claim(&["r"], 3), of_claim(&[], 4)]));
    // The next alternative is tried if an alternative for all devices matches no device.
    let all = json!({"name": "all", "deviceClassName": "any", "allocationMode": "All", "selectors": cel("false")});
    let devices = json!({"requests": [{"name": "r", "firstAvailable": [all, sub("s", "any", "small", 1)]}]});
    inventory.check(devices.clone(), &["r/s: gpu-0"]);
    assert_eq!(inventory.first(devices).choices, [1]);
}

/// A later request makes an earlier one choose again.
#[test]
fn the_search_goes_back_when_it_must() {
    let mut inventory = TestInventory::new(&[slice("p", gpus(&[json!({"attributes": {"x": {"int": 1}}}), json!({})]))]);
    let picky = one("picky", json!({"selectors": cel("has(device.attributes['gpu.example.com'].x)")}));
    inventory.check(requests(&[one("any", json!({})), picky]), &["any: gpu-1", "picky: gpu-0"]);
}

/// KEP-5055: NoSchedule and NoExecute keep requests away that do not tolerate them.
#[test]
fn taints_keep_requests_away() {
    let tainted = |effect: &str| json!({"taints": [{"key": "bad", "value": "v", "effect": effect}]});
    let mut inventory =
        TestInventory::new(&[slice("p", gpus(&[tainted("NoSchedule"), tainted("NoExecute"), tainted("None")]))]);
    inventory.check(requests(&[one("r", json!({}))]), &["r: gpu-2"]);
    let tolerating = |toleration: Value| requests(&[one("r", json!({"tolerations": [toleration], "count": 2}))]);
    inventory.check(tolerating(json!({"operator": "Exists"})), &["r: gpu-0", "r: gpu-1"]);
    inventory.check(tolerating(json!({"key": "bad", "value": "v", "effect": "NoExecute"})), &["r: gpu-1", "r: gpu-2"]);
    inventory.check(tolerating(json!({"key": "bad", "value": "other"})), &["nothing"]);
    let results = inventory.first(tolerating(json!({"operator": "Exists"}))).allocation.devices.results;
    assert_eq!(serde_json::to_value(&results[0].tolerations).unwrap(), json!([{"operator": "Exists"}]));
}

/// KEP-4815: partitions draw on the counters of their pool.
#[test]
fn partitions_share_counters() {
    let consuming =
        |memory: &str| json!({"consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": memory}}}]});
    let partitions = || gpus(&[consuming("40Gi"), consuming("10Gi"), consuming("20Gi"), consuming("20Gi")]);
    let mut spec = slice("p", partitions());
    spec["sharedCounters"] = json!([{"name": "gpu", "counters": {"memory": {"value": "40Gi"}}}]);
    let mut inventory = TestInventory::new(&[spec.clone()]);
    inventory.check(requests(&[one("r", json!({}))]), &["r: gpu-0"]);
    inventory.check(requests(&[one("r", json!({"count": 2}))]), &["r: gpu-1", "r: gpu-2"]);
    inventory.check(requests(&[one("r", json!({"count": 3}))]), &["nothing"]);
    let mut inventory = inventory.with_held(json!([{"driver": "gpu.example.com", "pool": "p", "device": "gpu-2"}]));
    inventory.check(requests(&[one("r", json!({"count": 2}))]), &["nothing"]);
    inventory.check(requests(&[one("r", json!({}))]), &["r: gpu-1"]);
    // Counters that no slice defines make a pool invalid.
    TestInventory::new(&[slice("p", partitions())])
        .check(requests(&[one("r", json!({}))]), &["nothing without an invalid pool"]);
}

/// KEP-5075: shares of a device consume its capacity.
#[test]
fn shares_consume_capacity() {
    let shared = json!({"allowMultipleAllocations": true, "capacity": {"memory": {"value": "10Gi",
        "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "step": "2Gi"}}}}});
    let mut inventory = TestInventory::new(&[slice("p", gpus(&[shared.clone(), shared]))]);
    let asking = |name: &str, memory: &str| one(name, json!({"capacity": {"requests": {"memory": memory}}}));
    inventory.check(
        requests(&[asking("x", "4Gi"), asking("y", "4Gi"), asking("z", "4Gi")]),
        &["x: gpu-0", "y: gpu-0", "z: gpu-1"].map(|it| it),
    );
    let results = inventory.first(requests(&[asking("x", "4Gi"), one("y", json!({}))])).allocation.devices.results;
    let consumed: Vec<String> = results.iter().map(|it| it.consumed_capacity["memory"].to_string()).collect();
    assert_eq!(consumed, ["5Gi", "1Gi"]);
    let ids: Vec<&String> = results.iter().filter_map(|it| it.share_id.as_ref()).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1] && ids.iter().all(|id| id.len() == 36), "{ids:?}");
    inventory.check(requests(&[asking("x", "10Gi")]), &["nothing"]);
    inventory.check(requests(&[one("x", json!({"capacity": {"requests": {"nonsense": "1"}}}))]), &["nothing"]);
    let held = json!([{"driver": "gpu.example.com", "pool": "p", "device": "gpu-0", "shareID": "s",
        "consumedCapacity": {"memory": "7Gi"}}]);
    let mut inventory = inventory.with_held(held);
    inventory.check(requests(&[asking("x", "4Gi")]), &["x: gpu-1"]);
    inventory.check(requests(&[asking("x", "2Gi")]), &["x: gpu-0"]);
}

/// API reference, AllocationResultsMaxSize.
#[test]
fn a_claim_holds_32_devices_at_most() {
    let many: Vec<Value> = (0..40).map(|_| json!({})).collect();
    let mut inventory = TestInventory::new(&[slice("p", gpus(&many))]);
    assert_eq!(inventory.first(requests(&[one("r", json!({"count": 32}))])).allocation.devices.results.len(), 32);
    inventory.check(
        requests(&[one("x", json!({"count": 30})), one("y", json!({"count": 3}))]),
        &["claim default/claim: number of requested devices 33 exceeds the claim limit of 32"],
    );
    let sub = |name: &str, count: i64| json!({"name": name, "deviceClassName": "any", "count": count});
    let devices = json!({"requests": [one("x", json!({"count": 30})),
        {"name": "y", "firstAvailable": [sub("many", 3), sub("few", 2)]}]});
    assert_eq!(inventory.first(devices).choices, [1]);
}

/// KEP-5007: pools with devices that need binding come last, and the result has the binding conditions of their
/// devices.
#[test]
fn devices_that_need_binding_come_last() {
    let binding = json!({"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]});
    let mut inventory = TestInventory::new(&[
        slice("a", json!([{"name": "fabric", "bindingConditions": ["ready"]}])),
        slice("b", gpus(&[json!({})])),
    ]);
    inventory.check(requests(&[one("r", json!({}))]), &["r: gpu-0"]);
    let results = TestInventory::new(&[slice("a", gpus(&[binding]))])
        .first(requests(&[one("r", json!({}))]))
        .allocation
        .devices
        .results;
    assert_eq!(
        (results[0].binding_conditions.as_slice(), results[0].binding_failure_conditions.len()),
        (&["ready".to_owned()][..], 1)
    );
}

/// kube-scheduler's stable allocator decides if the gates of capacity and of binding conditions are both off.
#[test]
fn the_stable_allocator_knows_no_binding_and_no_distinct_attributes() {
    let fabric = json!([{"name": "fabric", "bindingConditions": ["ready"]}, {"name": "plain", "bindsToNode": true}]);
    let mut everywhere = slice("a", fabric);
    everywhere["nodeName"] = json!(null);
    everywhere["allNodes"] = json!(true);
    let with = |gates: &[Feature]| {
        let features = gates.iter().fold(Features::default(), |features, gate| features.with(*gate, false));
        TestInventory { features, ..TestInventory::new(&[everywhere.clone(), slice("b", gpus(&[json!({})]))]) }
    };
    let both = [Feature::DRAConsumableCapacity, Feature::DRADeviceBindingConditions];
    let any = || requests(&[one("r", json!({}))]);
    for gate in both {
        with(&[gate]).check(any(), &["r: gpu-0"]);
    }
    let mut with_lists = with(&both);
    with_lists.features = with_lists.features.with(Feature::DRAListTypeAttributes, true);
    with_lists.check(any(), &["r: gpu-0"]);
    with(&both).check(any(), &["r: plain"]);
    assert_eq!(with(&both).first(any()).allocation.node_selector, None);
    let mut distinct = any();
    distinct["constraints"] = json!([{"distinctAttribute": "example.com/numa"}]);
    with(&both)
        .check(distinct, &["claim default/claim, constraint #0: empty constraint (unsupported constraint type?)"]);
}

#[test]
fn claims_of_a_pod_do_not_share_devices() {
    let mut inventory = TestInventory::new(&[slice("p", gpus(&[json!({}), json!({})]))]);
    let (first, second) = (claim(requests(&[one("x", json!({}))])), claim(requests(&[one("y", json!({}))])));
    let Ok(Outcome::Allocated { allocations, .. }) = inventory.allocate(&[&first, &second], "node-1") else { panic!() };
    let devices: Vec<_> = allocations.iter().flat_map(shown).collect();
    assert_eq!(devices, ["x: gpu-0", "y: gpu-1"]);
    let greedy = claim(requests(&[one("z", json!({"count": 2}))]));
    assert_eq!(inventory.allocate(&[&first, &greedy], "node-1"), Ok(Outcome::Nothing));
}

/// A pod may have many claims, each as large as an object can be.
#[test]
fn claims_are_planned_as_long_as_the_search_has_time() {
    let TestInventory { slices, classes, in_use, mut selectors, features, .. } = TestInventory::new(&[]);
    let inventory = Inventory { slices: &slices, in_use: &in_use, features };
    let time = SchedulingTime::default();
    let claim = Arc::new(claim(requests(&[one("r", json!({}))])));
    let mut n_planned = |milliseconds| {
        let mut n_planned = 0;
        let claims = (0..100).map(|_| Arc::clone(&claim)).inspect(|_| n_planned += 1);
        let deadline = Deadline::after(&time, Duration::from_millis(milliseconds));
        let _plan = Plan::new(&inventory, &classes, &mut selectors, claims, deadline);
        n_planned
    };
    assert_eq!((n_planned(0), n_planned(1)), (1, 100));
}

#[test]
fn a_long_search_is_cut_off_and_a_hopeless_one_ends_at_once() {
    let many: Vec<Value> = (0..30).map(|_| json!({"attributes": {"x": {"int": 1}}})).collect();
    let mut inventory = TestInventory { max_steps: Some(2_000), ..TestInventory::new(&[slice("p", gpus(&many))]) };
    inventory.check(requests(&[one("r", json!({"count": 31}))]), &["nothing"]);
    let impossible = one("y", json!({"selectors": cel("false")}));
    inventory.check(requests(&[one("x", json!({"count": 15})), impossible]), &["nothing"]);
    let mut devices = requests(&[one("x", json!({"count": 15})), one("y", json!({}))]);
    devices["constraints"] = json!([{"distinctAttribute": "gpu.example.com/x", "requests": ["x"]}]);
    inventory.check(devices, &["nothing"]);
    let mut devices = requests(&[one("x", json!({"count": 10})), one("y", json!({}))]);
    devices["constraints"] = json!([{"matchAttribute": "gpu.example.com/nonsense", "requests": ["y"]}]);
    inventory.check(devices, &["timed out trying to allocate devices"]);
}
