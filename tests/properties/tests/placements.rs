//! The scheduler with its native plugins in a changing cluster: no placement breaks a rule.

use std::cell::RefCell;

use oracle::{Native, Subject};
use properties::{
    N_CASES, config,
    drive::{Drive, Step, Tally},
    generate::{
        nodes,
        objects::{self, Kind},
        pods,
        random::recipe,
    },
};
use proptest::{collection::vec, prelude::*, test_runner::TestRunner};

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(&Kind::ALL[..])
}

fn node() -> impl Strategy<Value = Step> {
    (0..8_u8, recipe(nodes::N_FEATURES, 3)).prop_map(|(number, recipe)| Step::SetNode(number, recipe))
}

fn object() -> impl Strategy<Value = Step> {
    (kind(), 0..12_u8, recipe(objects::N_FEATURES, 2))
        .prop_map(|(kind, number, recipe)| Step::SetObject(kind, number, recipe))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => recipe(pods::N_FEATURES, 5).prop_map(Step::CreatePod),
        2 => node(),
        1 => (0..8_u8).prop_map(Step::RemoveNode),
        1 => (recipe(pods::N_FEATURES, 4), 0..8_u8).prop_map(|(recipe, node)| Step::PlacePod(recipe, node)),
        3 => any::<u8>().prop_map(Step::DeletePod),
        4 => object(),
        1 => (kind(), 0..12_u8).prop_map(|(kind, number)| Step::RemoveObject(kind, number)),
        1 => any::<bool>().prop_map(Step::Refuse),
        2 => (0..20_000_u32).prop_map(Step::Wait),
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
    let result = TestRunner::new(config(N_CASES)).run(&cases, |(nodes, objects, steps)| {
        let mut drive = Drive::new(Subject::build(None, &Native).unwrap().profile);
        nodes.iter().chain(&objects).chain(&steps).for_each(|step| drive.step(step));
        drive.finish();
        add(&mut tally.borrow_mut(), drive.tally);
        prop_assert!(drive.broken.is_empty(), "{}", drive.broken.join("\n"));
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
                let mut drive = Drive::new(Subject::build(None, &Native).unwrap().profile);
                nodes.iter().chain(&steps).for_each(|step| drive.step(step));
                drive.placements()
            };
            prop_assert_eq!(run(), run());
            Ok(())
        })
        .unwrap();
}
