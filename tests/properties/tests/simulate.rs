//! Tests that `berth simulate` places pods on the same nodes as a scheduler that gets the pods one by one, and that a
//! fork of its cluster leaves no trace, natively and as components.

#![expect(clippy::unwrap_used, reason = "a test ends where its footing is gone")]

use std::{cell::RefCell, collections::BTreeMap, sync::LazyLock};

use berth_scheduler::Settings;
use berth_what_if::{
    Arrival, Cluster, ClusterPod, ClusterReader, Conditions, Eviction, Placed, Placing, PodOutcome, RefusalReason,
    place,
};
use oracle::{Execution, Native, TestedProfile, Wasm, artefacts_of_tests};
use properties::{
    config,
    generate::{
        nodes,
        objects::{self, Kind},
        pods::{self, Place},
        random::{Recipe, recipe},
        text,
    },
    simulation::{ClusterStep, Simulation, new_pod},
};
use proptest::{
    collection::{btree_map, vec},
    prelude::*,
    test_runner::TestRunner,
};
use serde_json::{Value, json};

/// The number of clusters. The number is high enough to trust the result.
const N_CLUSTERS: u32 = 200;

/// The time is longer than a backoff. All pods together wait for less than the five minutes after which a refused pod
/// is tried again.
const WAIT: u32 = 10_500;

/// The time until every refused pod has been tried again.
const FLUSH: u32 = 330_000;

/// The components. They take half a minute to compile, unless an earlier test program has compiled them.
static WASM: LazyLock<Wasm> =
    LazyLock::new(|| Wasm::load(Some(&artefacts_of_tests(env!("CARGO_TARGET_TMPDIR")))).unwrap());

#[derive(Clone, Debug)]
struct Case {
    nodes: Vec<Recipe>,
    objects: BTreeMap<(Kind, u8), Recipe>,
    placed: Vec<(Recipe, u8)>,
    pending: Vec<Recipe>,
}

fn case() -> impl Strategy<Value = Case> {
    let kind = prop::sample::select(&Kind::ALL[..]);
    let nodes = vec(recipe(nodes::N_FEATURES, 3), 1..8);
    let objects = btree_map((kind, 0..12_u8), recipe(objects::N_FEATURES, 2), 0..30);
    let placed = vec((recipe(pods::N_FEATURES, 4), 0..8_u8), 0..8);
    let pending = vec(recipe(pods::N_FEATURES, 5), 1..12);
    (nodes, objects, placed, pending).prop_map(|(nodes, objects, placed, pending)| Case {
        nodes,
        objects,
        placed,
        pending,
    })
}

impl Case {
    /// The steps that make the cluster without its pending pods.
    fn steps(&self) -> Vec<ClusterStep> {
        let nodes = (0..).zip(&self.nodes).map(|(number, recipe)| ClusterStep::SetNode(number, *recipe));
        let objects =
            self.objects.iter().map(|((kind, number), recipe)| ClusterStep::SetObject(*kind, *number, *recipe));
        let placed = self.placed.iter().map(|(recipe, node)| ClusterStep::PlacePod(*recipe, *node));
        nodes.chain(objects).chain(placed).collect()
    }

    /// The pods are created one by one. After an eviction, enough time passes for all pods to be tried again, even
    /// without an event.
    fn run(&self, running: &mut Simulation) {
        self.steps().iter().for_each(|step| running.step(step));
        for recipe in &self.pending {
            let mut n_evictions = running.tally.evictions;
            running.step(&ClusterStep::CreatePod(*recipe));
            running.step(&ClusterStep::Wait(WAIT));
            while running.tally.evictions > n_evictions {
                n_evictions = running.tally.evictions;
                running.step(&ClusterStep::Wait(FLUSH));
                running.step(&ClusterStep::Wait(WAIT));
            }
        }
    }

    /// The cluster as a manifest.
    fn manifest(&self) -> String {
        let nodes = (0..).zip(&self.nodes).map(|(number, recipe)| {
            let mut node = nodes::node(number, recipe);
            (node["apiVersion"], node["kind"]) = (json!("v1"), json!("Node"));
            node
        });
        // Some numbers give the same name. A running scheduler keeps the last of these objects, while a manifest may
        // contain each name only once.
        let objects: BTreeMap<[String; 3], Value> = self
            .objects
            .iter()
            .map(|((kind, number), recipe)| {
                let mut object = objects::object(*kind, *number, recipe);
                if object["apiVersion"] == "apps/v1" {
                    // The case lists the pods itself. A workload with no replicas adds no pods.
                    object["spec"]["replicas"] = json!(0);
                }
                (["/kind", "/metadata/namespace", "/metadata/name"].map(|field| text(&object, field)), object)
            })
            .collect();
        let placed = self.placed.iter().map(|(recipe, node)| (*recipe, Some(nodes::name(*node))));
        let pods = placed.chain(self.pending.iter().map(|recipe| (*recipe, None)));
        let pods = (1..).zip(pods).map(|(number, (recipe, node))| {
            new_pod(number, &recipe, node.as_deref().map_or(Place::Pending, Place::On))
        });
        let items: Vec<Value> = nodes.chain(objects.into_values()).chain(pods).collect();
        json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
    }

    /// The cluster of the manifest.
    fn cluster(&self) -> Cluster {
        let mut reader = ClusterReader::default();
        reader.read("the case", &self.manifest());
        let (cluster, errors) = reader.finish();
        assert!(errors.is_empty(), "{errors:#?}");
        cluster
    }

    fn simulated(&self, execution: &dyn Execution) -> Placed {
        place(&self.cluster(), conditions(execution)).unwrap()
    }

    /// The results for the pending pods in a fork, before and after another fork in which the first node is gone.
    fn before_and_after_a_fork(&self, execution: &dyn Execution) -> [(Vec<PodOutcome>, Vec<Eviction>); 2] {
        let cluster = self.cluster();
        let mut placing = Placing::new(&cluster, conditions(execution));
        let pods: Vec<ClusterPod> = cluster.pending().cloned().collect();
        let before = in_a_fork(&mut placing, &pods, None);
        in_a_fork(&mut placing, &pods, Some(&nodes::name(0)));
        [before, in_a_fork(&mut placing, &pods, None)]
    }
}

fn conditions<'a>(execution: &dyn Execution) -> Conditions<'a> {
    Conditions {
        settings: Settings::default(),
        profiles: vec![TestedProfile::defaults(execution).unwrap().profile],
        tell_time: Box::new(|_| ()),
        whole_pods: false,
        arrival: Arrival::OneByOne,
        is_over: &|| false,
    }
}

/// The results for these pods on the cluster without a node. Everything is reverted.
fn in_a_fork(
    placing: &mut Placing<'_>,
    pods: &[ClusterPod],
    without: Option<&str>,
) -> (Vec<PodOutcome>, Vec<Eviction>) {
    let fork = placing.fork();
    let displaced = without.and_then(|node| placing.remove_node(node)).unwrap_or_default();
    displaced.iter().for_each(|pod| placing.arrive(&pod.made_again()));
    pods.iter().for_each(|pod| placing.arrive(pod));
    placing.settle().unwrap();
    let results = placing.outcomes();
    placing.revert(fork).unwrap();
    results
}

/// The nodes of the pods that waited, by uid.
fn nodes_of(placed: &Placed, case: &Case) -> BTreeMap<String, String> {
    let gone: Vec<&str> = placed.evictions.iter().map(|pod| pod.name.as_str()).collect();
    let first = case.placed.len() + 1;
    let pods = (first..).zip(&placed.pods).filter(|(_, pod)| !gone.contains(&pod.name.as_str()));
    pods.map(|(number, pod)| {
        let pod_of_number = new_pod(u8::try_from(number).unwrap(), &case.pending[number - first], Place::Pending);
        assert_eq!(text(&pod_of_number, "/metadata/name"), pod.name);
        (text(&pod_of_number, "/metadata/uid"), pod.node.clone().unwrap_or_default())
    })
    .collect()
}

/// Whether the attempts of the pod fail with an error. Such a pod is tried again and again, so that two schedulers never
/// have the same number of attempts.
fn has_failed(pod: &PodOutcome) -> bool {
    pod.refusal.as_ref().is_some_and(|it| it.reason == RefusalReason::SchedulerError)
}

#[test]
fn a_simulation_places_pods_where_a_running_scheduler_does() {
    let n_placed = RefCell::new([0_usize; 2]);
    let result = TestRunner::new(config(N_CLUSTERS)).run(&case(), |case| {
        let mut running = Simulation::new(TestedProfile::defaults(&Native).unwrap().profile);
        case.run(&mut running);
        let there = running.placements();
        let simulated = case.simulated(&Native);
        prop_assume!(!running.has_had_errors() && !simulated.pods.iter().any(has_failed));
        let nodes = nodes_of(&simulated, &case);
        let expected: BTreeMap<String, String> = there.into_iter().filter(|(uid, _)| nodes.contains_key(uid)).collect();
        prop_assert_eq!(&nodes, &expected, "{:#?}\n{}", simulated, case.manifest());
        let n_with_node = nodes.values().filter(|node| !node.is_empty()).count();
        let [placed, all] = &mut *n_placed.borrow_mut();
        *placed += n_with_node;
        *all += nodes.len();
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let [placed, all] = n_placed.into_inner();
    assert!(placed * 4 > all && placed < all, "{placed} of {all} pods are placed: that shows little");
}

#[test]
fn components_are_simulated_as_native_plugins_are() {
    let result = TestRunner::new(config(N_CLUSTERS / 10)).run(&case(), |case| {
        prop_assert_eq!(nodes_of(&case.simulated(&Native), &case), nodes_of(&case.simulated(&*WASM), &case));
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// A component has a replica of the cluster, which must also be restored.
#[test]
fn a_fork_leaves_no_trace() {
    let executions: [(&dyn Execution, u32); 2] = [(&Native, N_CLUSTERS), (&*WASM, N_CLUSTERS / 10)];
    for (execution, n_clusters) in executions {
        let result = TestRunner::new(config(n_clusters)).run(&case(), |case| {
            let [before, after] = case.before_and_after_a_fork(execution);
            prop_assume!(!before.0.iter().any(has_failed));
            prop_assert_eq!(before, after, "{}", case.manifest());
            Ok(())
        });
        if let Err(error) = result {
            panic!("{error}");
        }
    }
}
