//! Compares the allocator with brute force: small random inventories, all assignments in the order of the search, and a
//! checker that shares no code with the allocator. The allocator must return the first assignment that passes the checker,
//! and nothing if none passes.

use std::collections::BTreeMap;

use berth_model::{Features, Release};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    AllocationError,
    tests::{Outcome, TestInventory, claim},
};

const COUNTERS_OF_POOL: u32 = 3;
const MEMORY: u32 = 4;
const HELD_MEMORY: u32 = 2;

#[derive(Clone, Debug)]
struct TestDevice {
    pool: &'static str,
    x: Option<i64>,
    is_shared: bool,
    counters: u32,
    is_tainted: bool,
    is_held: bool,
}

#[derive(Clone, Copy, Debug)]
enum TestSelector {
    Any,
    Has,
    Is(i64),
}

#[derive(Clone, Debug)]
struct TestRequest {
    test_selector: TestSelector,
    count: usize,
    takes_all: bool,
    is_admin: bool,
    is_tolerant: bool,
    memory: Option<u32>,
}

#[derive(Clone, Debug)]
struct Constraint {
    must_differ: bool,
    /// The request; `None` means all requests.
    request: Option<usize>,
}

#[derive(Clone, Debug)]
struct Case {
    test_devices: Vec<TestDevice>,
    /// The requests. A request with one alternative is `exactly`, and a request with several alternatives is
    /// `firstAvailable`.
    requests: Vec<Vec<TestRequest>>,
    constraint: Option<Constraint>,
}

/// The position of the alternative and the devices of each request.
type Assignment = Vec<(usize, Vec<usize>)>;

impl TestDevice {
    fn satisfies(&self, test_request: &TestRequest) -> bool {
        self.matches(test_request.test_selector) && (test_request.is_tolerant || !self.is_tainted)
    }

    fn matches(&self, test_selector: TestSelector) -> bool {
        match test_selector {
            TestSelector::Any => true,
            TestSelector::Has => self.x.is_some(),
            TestSelector::Is(x) => self.x == Some(x),
        }
    }
}

impl Case {
    fn matching(&self, test_request: &TestRequest) -> Vec<usize> {
        (0..self.test_devices.len()).filter(|idx| self.test_devices[*idx].matches(test_request.test_selector)).collect()
    }

    /// All assignments of the right number of devices, in the order in which the search meets them.
    fn assignments(&self) -> Vec<Assignment> {
        let mut all: Vec<Assignment> = vec![Vec::new()];
        for asks in &self.requests {
            let mut options = Vec::new();
            for (rank, test_request) in asks.iter().enumerate() {
                let sets = if test_request.takes_all {
                    Some(self.matching(test_request)).filter(|all| !all.is_empty()).into_iter().collect()
                } else {
                    subsets(self.test_devices.len(), test_request.count)
                };
                options.extend(sets.into_iter().map(|set| (rank, set)));
            }
            all = all
                .into_iter()
                .flat_map(|so_far| options.iter().map(move |option| [so_far.clone(), vec![option.clone()]].concat()))
                .collect();
        }
        all
    }

    fn is_valid(&self, assignment: &Assignment) -> bool {
        let mut users: BTreeMap<usize, Vec<&TestRequest>> = BTreeMap::new();
        for (request_idx, (rank, test_devices)) in assignment.iter().enumerate() {
            let test_request = &self.requests[request_idx][*rank];
            for test_device in test_devices {
                if !self.test_devices[*test_device].satisfies(test_request) {
                    return false;
                }
                users.entry(*test_device).or_default().push(test_request);
            }
        }
        users.iter().all(|(test_device, asks)| self.bears(*test_device, asks))
            && ["a", "b"].into_iter().all(|pool| self.has_counters(pool, &users))
            && self.constraint_holds(assignment)
    }

    /// Whether the device can serve these requests. A request with admin access takes a share like others, and may have
    /// a device that claims hold.
    fn bears(&self, test_device: usize, asks: &[&TestRequest]) -> bool {
        let test_device = &self.test_devices[test_device];
        if !test_device.is_shared {
            return asks.len() == 1 && (asks[0].is_admin || !test_device.is_held) && asks[0].memory.is_none();
        }
        let held = if test_device.is_held { HELD_MEMORY } else { 0 };
        held + asks.iter().map(|test_request| test_request.memory.unwrap_or(MEMORY)).sum::<u32>() <= MEMORY
    }

    fn has_counters(&self, pool: &str, users: &BTreeMap<usize, Vec<&TestRequest>>) -> bool {
        let of_pool = (0..self.test_devices.len()).filter(|idx| self.test_devices[*idx].pool == pool);
        let of_pool: Vec<(usize, &TestDevice)> = of_pool.map(|idx| (idx, &self.test_devices[idx])).collect();
        let held: u32 = of_pool.iter().filter(|(_, it)| it.is_held).map(|(_, it)| it.counters).sum();
        // A further share of a device takes no counters.
        let is_new = |(idx, it): &&(usize, &TestDevice)| users.contains_key(idx) && !(it.is_shared && it.is_held);
        let new: Vec<u32> = of_pool.iter().filter(is_new).map(|(_, it)| it.counters).collect();
        held + new.iter().sum::<u32>() <= COUNTERS_OF_POOL || new.iter().all(|counters| *counters == 0)
    }

    fn constraint_holds(&self, assignment: &Assignment) -> bool {
        let Some(constraint) = &self.constraint else { return true };
        let concerned = assignment.iter().enumerate().filter(|(idx, _)| constraint.request.is_none_or(|it| it == *idx));
        let values: Vec<Option<i64>> = concerned
            .flat_map(|(_, (_, test_devices))| test_devices.iter().map(|idx| self.test_devices[*idx].x))
            .collect();
        let equal = |left: usize, right: usize| values[left] == values[right];
        values.iter().all(Option::is_some)
            && (0..values.len()).all(|left| (0..left).all(|right| equal(left, right) != constraint.must_differ))
    }

    fn inventory(&self) -> TestInventory {
        let mut inventory = TestInventory::new(&["a", "b"].map(|pool| {
            let of_pool = self.test_devices.iter().enumerate().filter(|(_, test_device)| test_device.pool == pool);
            json!({"driver": "d.example.com", "pool": {"name": pool}, "nodeName": "node-1",
                "devices": of_pool.map(|(idx, test_device)| device(idx, test_device)).collect::<Value>(),
                "sharedCounters": [{"name": "s", "counters": {"c": {"value": COUNTERS_OF_POOL.to_string()}}}]})
        }));
        for (idx, test_device) in self.test_devices.iter().enumerate().filter(|(_, test_device)| test_device.is_held) {
            let mut result = json!({"driver": "d.example.com", "pool": test_device.pool, "device": format!("g{idx}")});
            if test_device.is_shared {
                result["shareID"] = json!("s");
                result["consumedCapacity"] = json!({"memory": HELD_MEMORY.to_string()});
            }
            inventory.in_use.add(&serde_json::from_value(json!({"devices": {"results": [result]}})).unwrap());
        }
        // Kubernetes 1.36 keeps counters of failed tries, and compares attributes with only some devices.
        inventory.features = Features::of(Release::V1_37);
        inventory
    }

    fn claim(&self) -> Value {
        let requests = self.requests.iter().enumerate().map(|(idx, asks)| match asks.as_slice() {
            [test_request] => json!({"name": format!("r{idx}"), "exactly": wanted(test_request)}),
            several => {
                let named = several.iter().enumerate().map(|(rank, test_request)| {
                    let mut wanted = wanted(test_request);
                    wanted["name"] = json!(format!("s{rank}"));
                    wanted
                });
                json!({"name": format!("r{idx}"), "firstAvailable": named.collect::<Value>()})
            }
        });
        let mut claim = json!({"requests": requests.collect::<Value>()});
        if let Some(constraint) = &self.constraint {
            let kind = if constraint.must_differ { "distinctAttribute" } else { "matchAttribute" };
            let requests: Value = constraint.request.iter().map(|idx| json!(format!("r{idx}"))).collect();
            claim["constraints"] = json!([{kind: "d.example.com/x", "requests": requests}]);
        }
        claim
    }

    /// `request device` for each device, as the allocator reports them.
    fn shown(&self, assignment: &Assignment) -> Vec<String> {
        let mut lines = Vec::new();
        for (request_idx, (rank, test_devices)) in assignment.iter().enumerate() {
            let sub = if self.requests[request_idx].len() > 1 { format!("/s{rank}") } else { String::new() };
            lines.extend(test_devices.iter().map(|test_device| format!("r{request_idx}{sub} g{test_device}")));
        }
        lines
    }
}

fn device(idx: usize, test_device: &TestDevice) -> Value {
    let mut device = json!({"name": format!("g{idx}")});
    if let Some(x) = test_device.x {
        device["attributes"] = json!({"x": {"int": x}});
    }
    if test_device.is_shared {
        device["allowMultipleAllocations"] = json!(true);
        device["capacity"] = json!({"memory": {"value": MEMORY.to_string()}});
    }
    if test_device.counters > 0 {
        let amount = json!({"c": {"value": test_device.counters.to_string()}});
        device["consumesCounters"] = json!([{"counterSet": "s", "counters": amount}]);
    }
    if test_device.is_tainted {
        device["taints"] = json!([{"key": "t", "effect": "NoSchedule"}]);
    }
    device
}

fn wanted(test_request: &TestRequest) -> Value {
    let x = "device.attributes['d.example.com'].x";
    let expression = match test_request.test_selector {
        TestSelector::Any => "true".to_owned(),
        TestSelector::Has => format!("has({x})"),
        TestSelector::Is(value) => format!("has({x}) && {x} == {value}"),
    };
    let mut wanted = json!({"deviceClassName": "any", "count": test_request.count, "selectors": [{"cel": {"expression": expression}}]});
    if test_request.takes_all {
        wanted["allocationMode"] = json!("All");
    }
    if test_request.is_admin {
        wanted["adminAccess"] = json!(true);
    }
    if test_request.is_tolerant {
        wanted["tolerations"] = json!([{"operator": "Exists"}]);
    }
    if let Some(memory) = test_request.memory {
        wanted["capacity"] = json!({"requests": {"memory": memory.to_string()}});
    }
    wanted
}

/// Sets of `size` numbers below `n`, in lexicographic order.
fn subsets(n: usize, size: usize) -> Vec<Vec<usize>> {
    let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..size {
        let longer = |set: Vec<usize>| {
            let start = set.last().map_or(0, |last| last + 1);
            (start..n).map(move |next| [set.clone(), vec![next]].concat())
        };
        sets = sets.into_iter().flat_map(longer).collect();
    }
    sets
}

fn test_device() -> impl Strategy<Value = TestDevice> {
    let kind = (prop::option::weighted(0.8, 0..2i64), prop::bool::weighted(0.3), 0..3u32);
    let state = (prop::bool::weighted(0.2), prop::bool::weighted(0.2), prop::bool::ANY);
    (kind, state).prop_map(|((x, is_shared, counters), (is_tainted, is_held, is_first))| TestDevice {
        pool: if is_first { "a" } else { "b" },
        x,
        is_shared,
        counters,
        is_tainted,
        is_held,
    })
}

fn test_request() -> impl Strategy<Value = TestRequest> {
    let test_selector = prop_oneof![2 => Just(TestSelector::Any), 1 => Just(TestSelector::Has), 1 => (0..2i64).prop_map(TestSelector::Is)];
    let flags = (prop::bool::weighted(0.2), prop::bool::weighted(0.1), prop::bool::weighted(0.5));
    let memory = prop::option::weighted(0.2, 1..=MEMORY + 1);
    (test_selector, 1..=2usize, flags, memory).prop_map(
        |(test_selector, count, (takes_all, is_admin, is_tolerant), memory)| TestRequest {
            test_selector,
            count,
            takes_all,
            is_admin,
            is_tolerant,
            memory: memory.filter(|_| !is_admin),
        },
    )
}

fn case() -> impl Strategy<Value = Case> {
    let request =
        prop_oneof![3 => prop::collection::vec(test_request(), 1), 1 => prop::collection::vec(test_request(), 2)];
    let constraint = (prop::bool::ANY, prop::option::of(0..2usize));
    let constraint = constraint.prop_map(|(must_differ, request)| Constraint { must_differ, request });
    let parts = (
        prop::collection::vec(test_device(), 0..6),
        prop::collection::vec(request, 1..4),
        prop::option::weighted(0.4, constraint),
    );
    parts.prop_map(|(mut test_devices, requests, constraint)| {
        test_devices.sort_by_key(|test_device| test_device.pool);
        Case { test_devices, requests, constraint }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_first_valid_assignment_is_found_or_there_is_none(case in case()) {
        let expected = case.assignments().into_iter().find(|assignment| case.is_valid(assignment));
        let found = case.inventory().allocate(&[&claim(case.claim())], "node-1");
        let found = match found {
            Ok(Outcome::Allocated { allocations, .. }) => Some(allocations[0].devices.results.clone()),
            Ok(Outcome::Nothing) => None,
            // The claim contradicts itself: a constraint forbids a device that the claim must have.
            Err(AllocationError::ConstraintForbidsDevice { .. }) => return Ok(()),
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        };
        let found = found.map(|results| results.iter().map(|it| format!("{} {}", it.request, it.device)).collect());
        prop_assert_eq!(found, expected.map(|assignment| case.shown(&assignment)));
    }
}
