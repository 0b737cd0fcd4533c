//! Compares searches that use results of earlier searches with searches that start without them. Both must find the
//! same devices after any history.

use std::collections::BTreeMap;

use berth_model::{Features, Sym, api::StringMap};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::{Outcome, TestInventory, claim};
use crate::dynamic_resources::{
    allocator::AllocationError,
    node_devices::{NodeDevices, NodeDevicesCache},
    objects::{Allocation, ResourceSlice},
    slices::NodeView,
};

const NODES: [&str; 2] = ["node-0", "node-1"];
const N_DEVICES: usize = 3;

#[derive(Clone, Debug)]
enum HistoryStep {
    Slice(usize, Value),
    NoSlice(usize),
    /// Some claim gets a device, or the oldest such claim is removed.
    Hold(Value),
    Release,
    /// A node moves to another zone.
    Label(usize, u32),
    Search(usize, Value),
}

/// The objects, and the inventory that has processed every change of them.
struct History {
    slices: BTreeMap<usize, ResourceSlice>,
    held: Vec<Allocation>,
    zones: [u32; NODES.len()],
    inventory: TestInventory,
    devices_by_node: NodeDevicesCache,
}

fn new_inventory() -> TestInventory {
    TestInventory::new(&[]).with_class("picky", json!({"selectors": selector()}))
}

fn selector() -> Value {
    let x = "device.attributes['d.example.com'].x";
    json!([{"cel": {"expression": format!("has({x}) && {x} == 1")}}])
}

fn text_of(labels: &[(Sym, Sym)]) -> StringMap {
    labels.iter().map(|(_, zone)| ("zone".to_owned(), format!("zone-{}", zone.0))).collect()
}

impl History {
    fn new() -> Self {
        let (slices, held, devices_by_node) = (BTreeMap::new(), Vec::new(), NodeDevicesCache::default());
        Self { slices, held, zones: [0; NODES.len()], inventory: new_inventory(), devices_by_node }
    }

    fn step(&mut self, step: HistoryStep) -> Result<(), TestCaseError> {
        let TestInventory { slices, in_use, .. } = &mut self.inventory;
        match step {
            HistoryStep::Slice(number, spec) => {
                let slice = json!({"metadata": {"name": format!("slice-{number}")}, "spec": spec});
                let slice: ResourceSlice = serde_json::from_value(slice).unwrap();
                slices.insert(&slice, in_use);
                self.slices.insert(number, slice);
                self.devices_by_node.forget(&slices.refresh());
            }
            HistoryStep::NoSlice(number) => {
                slices.remove(&format!("slice-{number}"), in_use);
                self.slices.remove(&number);
                self.devices_by_node.forget(&slices.refresh());
            }
            HistoryStep::Hold(result) => {
                let allocation = serde_json::from_value(json!({"devices": {"results": [result]}})).unwrap();
                in_use.add(&allocation);
                self.held.push(allocation);
            }
            HistoryStep::Release if self.held.is_empty() => {}
            HistoryStep::Release => in_use.remove(&self.held.remove(0)),
            HistoryStep::Label(node, zone) => self.zones[node] = zone,
            HistoryStep::Search(node, devices) => {
                prop_assert_eq!(self.search(node, devices.clone()), self.search_anew(node, devices));
            }
        }
        Ok(())
    }

    fn search(&mut self, node: usize, devices: Value) -> Result<Outcome, AllocationError> {
        let labels = [(Sym(100), Sym(self.zones[node]))];
        let labels = if self.inventory.slices.has_shared_slices() { &labels[..] } else { &[] };
        let name = NODES[node];
        let slices = &self.inventory.slices;
        let make = || NodeDevices::new(slices, Features::default(), NodeView { name, labels: &text_of(labels) });
        let node_devices = self.devices_by_node.of(name, labels, make).unwrap();
        self.inventory.allocate_in(&[&claim(devices)], name, node_devices)
    }

    fn search_anew(&self, node: usize, devices: Value) -> Result<Outcome, AllocationError> {
        let mut inventory = new_inventory();
        for slice in self.slices.values() {
            inventory.slices.insert(slice, &mut inventory.in_use);
        }
        inventory.slices.refresh();
        self.held.iter().for_each(|allocation| inventory.in_use.add(allocation));
        let labels = text_of(&[(Sym(100), Sym(self.zones[node]))]);
        let mut node_devices =
            NodeDevices::new(&inventory.slices, Features::default(), NodeView { name: NODES[node], labels: &labels })
                .unwrap();
        inventory.allocate_in(&[&claim(devices)], NODES[node], &mut node_devices)
    }
}

fn device() -> impl Strategy<Value = Value> {
    (prop::bool::ANY, prop::bool::weighted(0.2), prop::bool::weighted(0.3)).prop_map(
        |(has_x, is_tainted, is_shared)| {
            let mut device = json!({"allNodes": true});
            if has_x {
                device["attributes"] = json!({"x": {"int": 1}});
            }
            if is_tainted {
                device["taints"] = json!([{"key": "t", "effect": "NoSchedule"}]);
            }
            if is_shared {
                device["allowMultipleAllocations"] = json!(true);
                device["capacity"] = json!({"memory": {"value": "4", "requestPolicy": {"default": "2"}}});
            }
            device
        },
    )
}

fn slice() -> impl Strategy<Value = Value> {
    let devices = prop::collection::vec(device(), 1..=N_DEVICES);
    (devices, 0..7usize, 0..2u32, 1..3i64, 1..3i64).prop_map(|(mut devices, whose, pool, generation, n_slices)| {
        for (position, device) in devices.iter_mut().enumerate() {
            device["name"] = json!(format!("g{position}"));
        }
        let in_zone = json!({"key": "zone", "operator": "In", "values": ["zone-1"]});
        let mut spec = json!({"driver": "d.example.com", "devices": devices,
            "pool": {"name": format!("p{pool}"), "generation": generation, "resourceSliceCount": n_slices}});
        match whose {
            0..4 => spec["nodeName"] = json!(NODES[whose % 2]),
            4 => spec["allNodes"] = json!(true),
            5 => spec["nodeSelector"] = json!({"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]}),
            _ => spec["perDeviceNodeSelection"] = json!(true),
        }
        spec
    })
}

fn held() -> impl Strategy<Value = Value> {
    (0..2u32, 0..N_DEVICES, prop::bool::weighted(0.3)).prop_map(|(pool, device, is_share)| {
        let mut result = json!({"driver": "d.example.com", "pool": format!("p{pool}"), "device": format!("g{device}")});
        if is_share {
            result["shareID"] = json!("s");
            result["consumedCapacity"] = json!({"memory": "1"});
        }
        result
    })
}

fn wanted() -> impl Strategy<Value = Value> {
    let flags = (prop::bool::ANY, prop::bool::ANY, prop::bool::weighted(0.3), prop::bool::weighted(0.2));
    (flags, 1..3u32).prop_map(|((is_picky, has_selector, is_tolerant, takes_all), count)| {
        let mut wanted = json!({"deviceClassName": if is_picky { "picky" } else { "any" }, "count": count});
        if has_selector {
            wanted["selectors"] = selector();
        }
        if is_tolerant {
            wanted["tolerations"] = json!([{"operator": "Exists"}]);
        }
        if takes_all {
            wanted["allocationMode"] = json!("All");
        }
        wanted
    })
}

fn asked() -> impl Strategy<Value = Value> {
    prop::collection::vec(prop::collection::vec(wanted(), 1..3), 1..3).prop_map(|requests| {
        let requests = requests.into_iter().enumerate().map(|(idx, mut wanted)| match wanted.len() {
            1 => json!({"name": format!("r{idx}"), "exactly": wanted[0]}),
            _ => {
                for (rank, wanted) in wanted.iter_mut().enumerate() {
                    wanted["name"] = json!(format!("s{rank}"));
                }
                json!({"name": format!("r{idx}"), "firstAvailable": wanted})
            }
        });
        json!({"requests": requests.collect::<Value>()})
    })
}

fn step() -> impl Strategy<Value = HistoryStep> {
    prop_oneof![
        3 => (0..4usize, slice()).prop_map(|(number, spec)| HistoryStep::Slice(number, spec)),
        1 => (0..4usize).prop_map(HistoryStep::NoSlice),
        2 => held().prop_map(HistoryStep::Hold),
        1 => Just(HistoryStep::Release),
        1 => (0..NODES.len(), 0..2u32).prop_map(|(node, zone)| HistoryStep::Label(node, zone)),
        6 => (0..NODES.len(), asked()).prop_map(|(node, devices)| HistoryStep::Search(node, devices)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_kept_changes_no_answer(steps in prop::collection::vec(step(), 1..40)) {
        let mut history = History::new();
        for step in steps {
            history.step(step)?;
        }
    }
}
