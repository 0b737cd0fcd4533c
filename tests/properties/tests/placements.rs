//! The scheduler with its native plugins in a changing cluster: no placement breaks a rule.

use std::cell::RefCell;

use oracle::{Native, Subject};
use properties::{
    N_CASES, config,
    generate::{
        nodes,
        objects::{self, Kind},
        pods,
        random::recipe,
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
        let mut simulation = Simulation::new(Subject::build(None, &Native).unwrap().profile);
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

/// Two runs are one.
#[test]
fn the_same_steps_lead_to_the_same_placements() {
    let cases = (vec(node(), 1..8), vec(step(), 1..30));
    TestRunner::new(config(N_CASES / 10))
        .run(&cases, |(nodes, steps)| {
            let run = || {
                let mut simulation = Simulation::new(Subject::build(None, &Native).unwrap().profile);
                nodes.iter().chain(&steps).for_each(|step| simulation.step(step));
                simulation.placements()
            };
            prop_assert_eq!(run(), run());
            Ok(())
        })
        .unwrap();
}
