//! Tests of the scheduler with its native plugins in a changing cluster: no placement violates a rule.

use std::cell::RefCell;

use berth_scheduler::Settings;
use oracle::{Native, TestedProfile};
use properties::{
    N_CASES, config,
    generate::{
        nodes,
        objects::{self, Kind},
        pods,
        random::{Recipe, recipe},
    },
    simulation::{ClusterStep, Simulation, Tally},
};
use proptest::{collection::vec, prelude::*, test_runner::TestRunner};

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(&Kind::ALL[..])
}

fn node() -> impl Strategy<Value = ClusterStep> {
    (0..8_u8, recipe(nodes::N_FEATURES, 3)).prop_map(|(number, recipe)| ClusterStep::SetNode(number, recipe))
}

fn object() -> impl Strategy<Value = ClusterStep> {
    (kind(), 0..12_u8, recipe(objects::N_FEATURES, 2))
        .prop_map(|(kind, number, recipe)| ClusterStep::SetObject(kind, number, recipe))
}

fn step() -> impl Strategy<Value = ClusterStep> {
    prop_oneof![
        12 => recipe(pods::N_FEATURES, 5).prop_map(ClusterStep::CreatePod),
        2 => node(),
        1 => (0..8_u8).prop_map(ClusterStep::RemoveNode),
        1 => (recipe(pods::N_FEATURES, 4), 0..8_u8).prop_map(|(recipe, node)| ClusterStep::PlacePod(recipe, node)),
        3 => any::<u8>().prop_map(ClusterStep::DeletePod),
        4 => object(),
        1 => (kind(), 0..12_u8).prop_map(|(kind, number)| ClusterStep::RemoveObject(kind, number)),
        1 => any::<bool>().prop_map(ClusterStep::Refuse),
        2 => (0..20_000_u32).prop_map(ClusterStep::Wait),
    ]
}

fn add(sum: &mut Tally, more: Tally) {
    sum.placements += more.placements;
    sum.bindings += more.bindings;
    sum.refused += more.refused;
    sum.evictions += more.evictions;
    sum.pending += more.pending;
    sum.effects += more.effects;
}

#[test]
fn no_placement_breaks_a_rule() {
    let tally = RefCell::new(Tally::default());
    let cases = (vec(node(), 1..8), vec(object(), 0..30), vec(step(), 1..50));
    let result = TestRunner::new(config(N_CASES * 4)).run(&cases, |(nodes, objects, steps)| {
        let mut simulation = Simulation::new(TestedProfile::defaults(&Native).unwrap().profile);
        nodes.iter().chain(&objects).chain(&steps).for_each(|step| simulation.step(step));
        simulation.finish();
        add(&mut tally.borrow_mut(), simulation.tally);
        prop_assert!(simulation.broken.is_empty(), "{}", simulation.broken.join("\n"));
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let tally = tally.into_inner();
    println!("{tally:?}");
    assert!(tally.placements * 3 > tally.pending, "hardly anything is placed: {tally:?}");
    let all = [tally.placements, tally.bindings, tally.refused, tally.evictions, tally.pending, tally.effects];
    assert!(all.iter().all(|count| *count > 0), "not everything happens: {tally:?}");
}

/// Two runs with the same steps give the same result.
#[test]
fn the_same_steps_lead_to_the_same_placements() {
    let cases = (vec(node(), 1..8), vec(step(), 1..30));
    TestRunner::new(config(N_CASES / 10))
        .run(&cases, |(nodes, steps)| {
            let run = || {
                let mut simulation = Simulation::new(TestedProfile::defaults(&Native).unwrap().profile);
                nodes.iter().chain(&steps).for_each(|step| simulation.step(step));
                simulation.placements()
            };
            prop_assert_eq!(run(), run());
            Ok(())
        })
        .unwrap();
}

/// Most pods are made from a recipe of this list.
fn step_of_one_of(recipes: Vec<Recipe>) -> impl Strategy<Value = ClusterStep> {
    let alike = prop::sample::select(recipes);
    prop_oneof![
        20 => alike.clone().prop_map(ClusterStep::CreatePod),
        2 => (alike, 0..8_u8).prop_map(|(recipe, node)| ClusterStep::PlacePod(recipe, node)),
        12 => step(),
    ]
}

/// Pods of a few equivalence classes in a cluster that is sometimes so large that not every node is examined.
fn streams_of_few_classes() -> impl Strategy<Value = (Vec<ClusterStep>, Vec<ClusterStep>)> {
    let few_recipes = vec(recipe(pods::N_FEATURES, 4), 1..5);
    let n_nodes = prop_oneof![3 => 1..8_usize, 1 => 101..140_usize];
    (few_recipes, n_nodes).prop_flat_map(|(recipes, n_nodes)| {
        let nodes = vec(recipe(nodes::N_FEATURES, 3), n_nodes);
        let nodes = nodes.prop_map(|recipes| {
            (0..).zip(recipes).map(|(number, recipe)| ClusterStep::SetNode(number, recipe)).collect::<Vec<_>>()
        });
        let steps = (nodes, vec(object(), 0..20)).prop_map(|(nodes, objects)| [nodes, objects].concat());
        (steps, vec(step_of_one_of(recipes), 1..60))
    })
}

/// The reuse of answers for equal pods changes no decision.
#[test]
fn earlier_answers_change_no_placement() {
    let n_with_earlier_answers = RefCell::new(0);
    let result = TestRunner::new(config(N_CASES)).run(&streams_of_few_classes(), |(cluster, steps)| {
        let mut simulations = [true, false].map(|equivalence_cache| {
            let settings = Settings { equivalence_cache, ..Settings::default() };
            Simulation::with_settings(TestedProfile::defaults(&Native).unwrap().profile, settings)
        });
        for step in cluster.iter().chain(&steps) {
            simulations.iter_mut().for_each(|simulation| simulation.step(step));
            let [with, without] = &simulations;
            prop_assert_eq!(with.placements(), without.placements(), "after {:?}", step);
        }
        *n_with_earlier_answers.borrow_mut() += simulations[0].n_cycles_with_earlier_answers();
        prop_assert_eq!(simulations[1].n_cycles_with_earlier_answers(), 0);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    let n_with_earlier_answers = n_with_earlier_answers.into_inner();
    assert!(n_with_earlier_answers > 1000, "{n_with_earlier_answers} cycles had earlier answers");
}
