//! Tests with every recorded family, natively and as components. No answer may differ.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::LazyLock,
};

use anyhow::{Context, Result, anyhow, ensure};
use berth_model::{Feature, Features, Release};
use oracle::{
    Causes, Execution, Native, Suite, Wasm, artefacts_of_tests, check,
    report::{causes_text, differences_text},
};

/// The components. They take half a minute to compile, unless an earlier test program has compiled them.
fn wasm() -> Result<&'static Wasm> {
    static WASM: LazyLock<Result<Wasm>> =
        LazyLock::new(|| Wasm::load(Some(&artefacts_of_tests(env!("CARGO_TARGET_TMPDIR")))));
    WASM.as_ref().map_err(|error| anyhow!("{error:#}"))
}

fn suite() -> Result<Suite> {
    Ok(Suite::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("cases"))?)
}

fn agrees(family: &str) -> Result<()> {
    agrees_in(family, &Native, true)
}

/// Some families leave out whole cases.
fn agrees_in(family: &str, execution: &dyn Execution, every_case_compares: bool) -> Result<()> {
    let suite = suite()?;
    let family = suite.family(family)?;
    let (mut n_cases, mut n_compared) = (0, 0);
    suite.run(family, execution, |case, findings| {
        n_cases += 1;
        n_compared += findings.n_compared;
        assert!(findings.differences.is_empty(), "{case}\n{}", differences_text(findings.differences.iter()));
    })?;
    let least = if every_case_compares { n_cases } else { 1 };
    ensure!(n_cases > 0 && n_compared >= least, "{n_compared} answers of {n_cases} cases");
    Ok(())
}

#[test]
fn fit() -> Result<()> {
    agrees("fit")
}

#[test]
fn taints() -> Result<()> {
    agrees("taints")
}

#[test]
fn affinity() -> Result<()> {
    agrees("affinity")
}

#[test]
fn ports() -> Result<()> {
    agrees("ports")
}

#[test]
fn images() -> Result<()> {
    agrees("images")
}

#[test]
fn tables() -> Result<()> {
    ["quantity", "pod_requests", "selectors", "tolerations", "numeric"].into_iter().try_for_each(agrees)
}

/// Checks that the results of `berth explain` about each case's pod equal the record.
fn is_explained(families: &[&str], execution: &dyn Execution) -> Result<()> {
    let suite = suite()?;
    for family in families {
        let (mut n_cases, mut n_compared) = (0, 0);
        suite.explain(suite.family(family)?, execution, |case, findings| {
            n_cases += 1;
            n_compared += findings.n_compared;
            assert!(findings.differences.is_empty(), "{case}\n{}", differences_text(findings.differences.iter()));
        })?;
        ensure!(n_compared >= 5 * n_cases && n_cases > 0, "{family}: {n_compared} answers of {n_cases} cases");
    }
    Ok(())
}

#[test]
fn explanations_of_nodes() -> Result<()> {
    is_explained(&["fit", "taints", "affinity", "ports", "images", "mixed", "spread", "interpod"], &Native)
}

#[test]
fn explanations_of_large_clusters() -> Result<()> {
    is_explained(&["big"], &Native)
}

#[test]
fn explanations_of_preemption_volumes_and_devices() -> Result<()> {
    is_explained(&["preemption", "volumes", "devices", "gated", "scenarios"], &Native)
}

#[test]
fn explanations_as_components() -> Result<()> {
    is_explained(&["fit", "taints", "preemption"], wasm()?)
}

#[test]
fn queueing_hints() -> Result<()> {
    agrees("queueing_hints")
}

#[test]
fn queueing_hints_as_components() -> Result<()> {
    agrees_in("queueing_hints", wasm()?, true)
}

#[test]
fn small_families_as_components() -> Result<()> {
    let wasm = wasm()?;
    ["fit", "taints", "affinity", "ports", "images"].into_iter().try_for_each(|family| agrees_in(family, wasm, true))
}

/// Families that need plugins which do not exist yet agree in the answers of all other plugins.
#[test]
fn other_families() -> Result<()> {
    ["mixed", "big", "spread", "interpod", "volumes", "preemption", "scenarios", "devices", "gated"]
        .into_iter()
        .try_for_each(agrees)
}

#[test]
fn families_of_nodes_and_pods_as_components() -> Result<()> {
    let wasm = wasm()?;
    ["mixed", "big", "spread", "interpod"].into_iter().try_for_each(|family| agrees_in(family, wasm, true))
}

#[test]
fn families_with_other_objects_as_components() -> Result<()> {
    let wasm = wasm()?;
    ["volumes", "preemption", "scenarios", "devices", "gated"]
        .into_iter()
        .try_for_each(|family| agrees_in(family, wasm, true))
}

/// The answers of the components really come from components: a plugin without its file is missing, and another file
/// under its name gives other answers.
#[test]
fn components_decide() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let artefacts = artefacts_of_tests(env!("CARGO_TARGET_TMPDIR"));
    let load = || Wasm::load_from(dir.path(), Some(&artefacts));
    for component in &berth_components::COMPONENTS {
        fs::write(dir.path().join(format!("{}.wasm", component.name)), component.bytes())?;
    }
    agrees_in("fit", &load()?, true)?;
    let fit = dir.path().join("NodeResourcesFit.wasm");
    fs::write(&fit, berth_test_guests::by_priority_named("NodeResourcesFit")?)?;
    ensure!(n_differences("fit", &load()?)? > 0, "a plugin that passes every node goes unnoticed");
    fs::remove_file(&fit)?;
    ensure!(n_differences("fit", &load()?)? > 0, "a missing component goes unnoticed");
    Ok(())
}

fn n_differences(family: &str, execution: &dyn Execution) -> Result<usize> {
    let suite = suite()?;
    let mut n = 0;
    suite.run(suite.family(family)?, execution, |_, findings| n += findings.differences.len())?;
    Ok(n)
}

/// kube-scheduler answered these cases with a gate at another value than the default. Berth answers as recorded only
/// with this value.
#[test]
fn each_gate_of_the_cases_changes_an_answer() -> Result<()> {
    let suite = suite()?;
    let (mut shown, mut named) = (BTreeSet::new(), BTreeSet::new());
    for case in suite.cases(suite.family("gated")?)? {
        let mut case = case?;
        let gates: Vec<String> = case.gates.keys().cloned().collect();
        let [gate] = gates.as_slice() else { continue };
        let gate = gate.clone();
        named.insert(gate.clone());
        if shown.contains(&gate) || !check(&case, &Native).differences.is_empty() {
            continue;
        }
        case.gates.clear();
        if !check(&case, &Native).differences.is_empty() {
            shown.insert(gate);
        }
    }
    let expected = [
        "DRAConsumableCapacity",
        "DRADeviceBindingConditions",
        "DRADeviceTaintRules",
        "DRADeviceTaints",
        "DRAExtendedResource",
        "DRAListTypeAttributes",
        "DRAPartitionableDevices",
        "StorageCapacityScoring",
        "TaintTolerationComparisonOperators",
        "VolumeLimitScaling",
    ];
    assert_eq!(shown, expected.map(str::to_owned).into());
    assert_eq!(named, shown, "each gate that was recorded is shown to decide");
    Ok(())
}

/// Another choice of a volume must fail the test, and so must a missing volume.
#[test]
fn a_doctored_choice_of_volumes_differs() -> Result<()> {
    let suite = suite()?;
    let (_, case) = suite.find("big-000010")?;
    ensure!(check(&case, &Native).differences.is_empty(), "the record itself agrees");
    let first = |case: &oracle::case::Case| case.expect.volumes.keys().next().cloned().context("a node with choices");
    let node = first(&case)?;
    let mut other_volume = case.clone();
    let choices = other_volume.expect.volumes.get_mut(&node).context("choices")?;
    choices.chosen.values_mut().for_each(|volume| volume.push_str("-other"));
    ensure!(check(&other_volume, &Native).differences.len() == 1);
    let mut made = case;
    made.expect.volumes.get_mut(&node).context("choices")?.provision.push("another-claim".to_owned());
    ensure!(check(&made, &Native).differences.len() == 1);
    Ok(())
}

/// A changed record must fail the test.
#[test]
fn a_doctored_record_differs() -> Result<()> {
    let (_, case) = suite()?.find("fit-000001")?;
    ensure!(check(&case, &Native).differences.is_empty(), "the record itself agrees");
    let mut other_reason = case.clone();
    let verdicts = other_reason.expect.filter.as_mut().context("verdicts")?;
    let rejected = verdicts.values_mut().find(|verdict| !verdict.reasons.is_empty()).context("a rejected node")?;
    rejected.reasons = vec!["Insufficient patience".to_owned()];
    ensure!(check(&other_reason, &Native).differences.len() == 1);
    let mut other_node = case;
    other_node.expect.feasible.push("elsewhere".to_owned());
    ensure!(!check(&other_node, &Native).differences.is_empty());
    Ok(())
}

#[test]
fn requests_that_make_no_sense_are_refused() -> Result<()> {
    ensure!(Suite::open(Path::new("/nowhere")).is_err());
    ensure!(Suite::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).is_err());
    ensure!(suite()?.family("nonsense").is_err());
    ensure!(suite()?.find("nonsense-1").is_err());
    Ok(())
}

/// Families with each cause that occurs in any family. All families would take minutes in a debug build.
const FAMILIES_OF_1_37: [&str; 7] = ["fit", "images", "volumes", "preemption", "devices", "gated", "queueing_hints"];

/// The cases were recorded from 1.36. In 1.37, some answers differ, each because of a change of that release which the
/// case shows.
#[test]
fn what_1_37_answers_otherwise_has_causes() -> Result<()> {
    let suite = suite()?;
    let mut found = BTreeSet::new();
    for family in FAMILIES_OF_1_37 {
        let family = suite.family(family)?;
        let mut causes = Causes::default();
        suite.run_each(family, &Native, |id, check| causes.add(id, Release::V1_37, check))?;
        let text = causes_text(family.name, "native", &causes);
        assert!(causes.unexplained.is_empty(), "{text}");
        ensure!(causes.n_cases > 0 && causes.n_agreeing > 0, "{text}");
        found.extend(causes.by_feature.into_keys());
    }
    let expected =
        [Feature::StorageCapacityScoring, Feature::PreemptionHasMessage, Feature::ResizedPodsTakeMaximumOfTotals];
    for feature in expected {
        assert!(found.contains(&feature), "{} shows in no case", feature.name());
    }
    Ok(())
}

/// Components differ from the records in the same answers as native plugins, so their differences have the same causes.
/// Each case takes as long as a profile of components needs for a cycle, so one in [`ONE_IN`] is compared.
#[test]
fn what_1_37_answers_otherwise_is_the_same_as_components() -> Result<()> {
    let (suite, wasm) = (suite()?, wasm()?);
    let features = Features::of(Release::V1_37);
    let mut found = BTreeSet::new();
    for family in FAMILIES_OF_1_37 {
        let family = suite.family(family)?;
        let (mut causes, mut natively) = (Causes::default(), BTreeMap::new());
        suite.run_each(family, &Native, |id, check| {
            if is_chosen(id) {
                causes.add(id, Release::V1_37, check);
                natively.insert(id.to_owned(), check(features).differences);
            }
        })?;
        ensure!(causes.n_cases > 10, "{}: {} cases", family.name, causes.n_cases);
        assert!(causes.unexplained.is_empty(), "{}", causes_text(family.name, "native", &causes));
        found.extend(causes.by_feature.into_keys());
        suite.run_each(family, wasm, |id, check| {
            if let Some(expected) = natively.remove(id) {
                assert_eq!(check(features).differences, expected, "{id}");
            }
        })?;
        assert!(natively.is_empty(), "{}: some cases were not compared", family.name);
    }
    for feature in [Feature::StorageCapacityScoring, Feature::PreemptionHasMessage] {
        assert!(found.contains(&feature), "{} shows in no case", feature.name());
    }
    Ok(())
}

/// The share of the cases that are compared as components of 1.37.
const ONE_IN: u64 = 5;

/// Whether a case is among the compared cases. A hash of its name (FNV-1a) decides, so each run compares the same
/// cases.
fn is_chosen(id: &str) -> bool {
    let hash =
        id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    hash.is_multiple_of(ONE_IN)
}
