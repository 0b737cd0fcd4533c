//! The allocator against brute force: small worlds, all assignments in the order of the search, and a checker that
//! knows the rules but none of the allocator's code. What the allocator gives must be the first assignment that the checker
//! passes; when it gives nothing, there must be none.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::{Outcome, World, claim};

const COUNTERS_OF_POOL: u32 = 3;
const MEMORY: u32 = 4;
const HELD_MEMORY: u32 = 2;

#[derive(Clone, Debug)]
struct Gadget {
    pool: &'static str,
    x: Option<i64>,
    is_shared: bool,
    counters: u32,
    is_tainted: bool,
    is_held: bool,
}

#[derive(Clone, Copy, Debug)]
enum Wish {
    Any,
    Has,
    Is(i64),
}

#[derive(Clone, Debug)]
struct Ask {
    wish: Wish,
    count: usize,
    takes_all: bool,
    is_admin: bool,
    is_tolerant: bool,
    memory: Option<u32>,
}

#[derive(Clone, Debug)]
struct Constraint {
    must_differ: bool,
    /// `None`: all requests.
    request: Option<usize>,
}

#[derive(Clone, Debug)]
struct Case {
    gadgets: Vec<Gadget>,
    /// One ask: `exactly`; several: `firstAvailable`.
    requests: Vec<Vec<Ask>>,
    constraint: Option<Constraint>,
}

/// For each request, the position of the alternative and the devices.
type Assignment = Vec<(usize, Vec<usize>)>;

impl Gadget {
    fn satisfies(&self, ask: &Ask) -> bool {
        self.matches(ask.wish) && (ask.is_tolerant || !self.is_tainted)
    }

    fn matches(&self, wish: Wish) -> bool {
        match wish {
            Wish::Any => true,
            Wish::Has => self.x.is_some(),
            Wish::Is(x) => self.x == Some(x),
        }
    }
}

impl Case {
    fn matching(&self, ask: &Ask) -> Vec<usize> {
        (0..self.gadgets.len()).filter(|idx| self.gadgets[*idx].matches(ask.wish)).collect()
    }

    /// All assignments of the right number of devices, in the order in which the search meets them.
    fn assignments(&self) -> Vec<Assignment> {
        let mut all: Vec<Assignment> = vec![Vec::new()];
        for asks in &self.requests {
            let mut options = Vec::new();
            for (rank, ask) in asks.iter().enumerate() {
                let sets = if ask.takes_all {
                    Some(self.matching(ask)).filter(|all| !all.is_empty()).into_iter().collect()
                } else {
                    subsets(self.gadgets.len(), ask.count)
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
        let mut users: BTreeMap<usize, Vec<&Ask>> = BTreeMap::new();
        for (request_idx, (rank, gadgets)) in assignment.iter().enumerate() {
            let ask = &self.requests[request_idx][*rank];
            for gadget in gadgets {
                if !self.gadgets[*gadget].satisfies(ask) {
                    return false;
                }
                users.entry(*gadget).or_default().push(ask);
            }
        }
        users.iter().all(|(gadget, asks)| self.bears(*gadget, asks))
            && ["a", "b"].into_iter().all(|pool| self.has_counters(pool, &users))
            && self.constraint_holds(assignment)
    }

    fn bears(&self, gadget: usize, asks: &[&Ask]) -> bool {
        let gadget = &self.gadgets[gadget];
        let n_admins = asks.iter().filter(|ask| ask.is_admin).count();
        if n_admins > 0 {
            return asks.len() == 1;
        }
        if !gadget.is_shared {
            return asks.len() == 1 && !gadget.is_held && asks[0].memory.is_none();
        }
        let held = if gadget.is_held { HELD_MEMORY } else { 0 };
        held + asks.iter().map(|ask| ask.memory.unwrap_or(MEMORY)).sum::<u32>() <= MEMORY
    }

    fn has_counters(&self, pool: &str, users: &BTreeMap<usize, Vec<&Ask>>) -> bool {
        let uses = |idx: &usize| users.get(idx).is_some_and(|asks| asks.iter().any(|ask| !ask.is_admin));
        let of_pool: Vec<usize> = (0..self.gadgets.len()).filter(|idx| self.gadgets[*idx].pool == pool).collect();
        let total: u32 = of_pool
            .iter()
            .filter(|idx| self.gadgets[**idx].is_held || uses(idx))
            .map(|idx| self.gadgets[*idx].counters)
            .sum();
        // What is held already is not asked for again.
        let mut new = of_pool.iter().filter(|idx| uses(idx) && !self.gadgets[**idx].is_held);
        total <= COUNTERS_OF_POOL || new.all(|idx| self.gadgets[*idx].counters == 0)
    }

    fn constraint_holds(&self, assignment: &Assignment) -> bool {
        let Some(constraint) = &self.constraint else { return true };
        let concerned = assignment.iter().enumerate().filter(|(idx, _)| constraint.request.is_none_or(|it| it == *idx));
        let values: Vec<Option<i64>> =
            concerned.flat_map(|(_, (_, gadgets))| gadgets.iter().map(|idx| self.gadgets[*idx].x)).collect();
        let equal = |left: usize, right: usize| values[left] == values[right];
        values.iter().all(Option::is_some)
            && (0..values.len()).all(|left| (0..left).all(|right| equal(left, right) != constraint.must_differ))
    }

    fn world(&self) -> World {
        let mut world = World::new(&["a", "b"].map(|pool| {
            let of_pool = self.gadgets.iter().enumerate().filter(|(_, gadget)| gadget.pool == pool);
            json!({"driver": "d.example.com", "pool": {"name": pool}, "nodeName": "node-1",
                "devices": of_pool.map(|(idx, gadget)| device(idx, gadget)).collect::<Value>(),
                "sharedCounters": [{"name": "s", "counters": {"c": {"value": COUNTERS_OF_POOL.to_string()}}}]})
        }));
        for (idx, gadget) in self.gadgets.iter().enumerate().filter(|(_, gadget)| gadget.is_held) {
            let mut result = json!({"driver": "d.example.com", "pool": gadget.pool, "device": format!("g{idx}")});
            if gadget.is_shared {
                result["shareID"] = json!("s");
                result["consumedCapacity"] = json!({"memory": HELD_MEMORY.to_string()});
            }
            world.in_use.add(&serde_json::from_value(json!({"devices": {"results": [result]}})).unwrap());
        }
        world
    }

    fn claim(&self) -> Value {
        let requests = self.requests.iter().enumerate().map(|(idx, asks)| match asks.as_slice() {
            [ask] => json!({"name": format!("r{idx}"), "exactly": wanted(ask)}),
            several => {
                let named = several.iter().enumerate().map(|(rank, ask)| {
                    let mut wanted = wanted(ask);
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
        for (request_idx, (rank, gadgets)) in assignment.iter().enumerate() {
            let sub = if self.requests[request_idx].len() > 1 { format!("/s{rank}") } else { String::new() };
            lines.extend(gadgets.iter().map(|gadget| format!("r{request_idx}{sub} g{gadget}")));
        }
        lines
    }
}

fn device(idx: usize, gadget: &Gadget) -> Value {
    let mut device = json!({"name": format!("g{idx}")});
    if let Some(x) = gadget.x {
        device["attributes"] = json!({"x": {"int": x}});
    }
    if gadget.is_shared {
        device["allowMultipleAllocations"] = json!(true);
        device["capacity"] = json!({"memory": {"value": MEMORY.to_string()}});
    }
    if gadget.counters > 0 {
        let amount = json!({"c": {"value": gadget.counters.to_string()}});
        device["consumesCounters"] = json!([{"counterSet": "s", "counters": amount}]);
    }
    if gadget.is_tainted {
        device["taints"] = json!([{"key": "t", "effect": "NoSchedule"}]);
    }
    device
}

fn wanted(ask: &Ask) -> Value {
    let x = "device.attributes['d.example.com'].x";
    let expression = match ask.wish {
        Wish::Any => "true".to_owned(),
        Wish::Has => format!("has({x})"),
        Wish::Is(value) => format!("has({x}) && {x} == {value}"),
    };
    let mut wanted =
        json!({"deviceClassName": "any", "count": ask.count, "selectors": [{"cel": {"expression": expression}}]});
    if ask.takes_all {
        wanted["allocationMode"] = json!("All");
    }
    if ask.is_admin {
        wanted["adminAccess"] = json!(true);
    }
    if ask.is_tolerant {
        wanted["tolerations"] = json!([{"operator": "Exists"}]);
    }
    if let Some(memory) = ask.memory {
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

fn gadget() -> impl Strategy<Value = Gadget> {
    let kind = (prop::option::weighted(0.8, 0..2i64), prop::bool::weighted(0.3), 0..3u32);
    let state = (prop::bool::weighted(0.2), prop::bool::weighted(0.2), prop::bool::ANY);
    (kind, state).prop_map(|((x, is_shared, counters), (is_tainted, is_held, is_first))| Gadget {
        pool: if is_first { "a" } else { "b" },
        x,
        is_shared,
        counters,
        is_tainted,
        is_held,
    })
}

fn ask() -> impl Strategy<Value = Ask> {
    let wish = prop_oneof![2 => Just(Wish::Any), 1 => Just(Wish::Has), 1 => (0..2i64).prop_map(Wish::Is)];
    let flags = (prop::bool::weighted(0.2), prop::bool::weighted(0.1), prop::bool::weighted(0.5));
    let memory = prop::option::weighted(0.2, 1..=MEMORY + 1);
    (wish, 1..=2usize, flags, memory).prop_map(|(wish, count, (takes_all, is_admin, is_tolerant), memory)| Ask {
        wish,
        count,
        takes_all,
        is_admin,
        is_tolerant,
        memory: memory.filter(|_| !is_admin),
    })
}

fn case() -> impl Strategy<Value = Case> {
    let request = prop_oneof![3 => prop::collection::vec(ask(), 1), 1 => prop::collection::vec(ask(), 2)];
    let constraint = (prop::bool::ANY, prop::option::of(0..2usize));
    let constraint = constraint.prop_map(|(must_differ, request)| Constraint { must_differ, request });
    let parts = (
        prop::collection::vec(gadget(), 0..6),
        prop::collection::vec(request, 1..4),
        prop::option::weighted(0.4, constraint),
    );
    parts.prop_map(|(mut gadgets, requests, constraint)| {
        gadgets.sort_by_key(|gadget| gadget.pool);
        Case { gadgets, requests, constraint }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_first_valid_assignment_is_found_or_there_is_none(case in case()) {
        let expected = case.assignments().into_iter().find(|assignment| case.is_valid(assignment));
        let found = case.world().allocate(&[&claim(case.claim())], "node-1");
        let found = match found {
            Ok(Outcome::Allocated { allocations, .. }) => Some(allocations[0].devices.results.clone()),
            Ok(Outcome::Nothing) => None,
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        };
        let found = found.map(|results| results.iter().map(|it| format!("{} {}", it.request, it.device)).collect());
        prop_assert_eq!(found, expected.map(|assignment| case.shown(&assignment)));
    }
}
