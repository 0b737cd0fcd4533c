//! Probes: plugins that spell what they see of a node, held against the scheduler's table.

use anyhow::{Context as _, Result, ensure};
use berth_author::{PluginAnswers, PluginHarness};
use berth_model::{NodeIdx, Pod, api};
use berth_test_languages::{Language, awkward_cluster, build, dump, folder, load};
use berth_testing::node;
use berth_wasm_host::ComponentFactory;

use crate::failed;

pub(crate) fn a_probe_sees_everything(language: Language) -> Result<()> {
    let component = build(&folder("tests/languages/probes").join(language.folder), "Probe")?;
    let factory = load("Probe", component)?;
    the_replica_is_the_table(&factory)?;
    // There are no exceptions in C.
    if language.folder == "c" { Ok(()) } else { a_mistake_fails_one_attempt(&factory) }
}

/// All columns, after a full delta, small ones, and one that makes the table grow.
fn the_replica_is_the_table(factory: &ComponentFactory) -> Result<()> {
    let mut harness = PluginHarness::new(factory, "null").unwrap();
    for generation in awkward_cluster()? {
        let pod = generation.enter(&mut harness).map_err(anyhow::Error::msg)?;
        check_probe(&mut harness, &pod)?;
        check_dry_run(&mut harness, &pod)?;
    }
    // One that came and went between two deltas: its row is said to be removed, and was never there.
    harness.set_node(&node("fleeting").build());
    harness.remove_node("fleeting");
    let pod = harness.intern(&api::Pod::default());
    check_probe(&mut harness, &pod)?;
    for n in 0..300 {
        let name = format!("node-{n}");
        harness.set_node(&node(&name).label("n", &name).build());
    }
    let pod = harness.intern(&api::Pod::default());
    check_probe(&mut harness, &pod)?;
    // An instance that starts late is given everything at once.
    let late = harness.ask_fresh(factory, "null", &pod).map_err(anyhow::Error::msg)?;
    compare(&harness, &pod, &late)
}

/// What goes wrong in a plugin's own code costs the attempt, and the instance serves on.
fn a_mistake_fails_one_attempt(factory: &ComponentFactory) -> Result<()> {
    let mut harness = PluginHarness::new(factory, r#""fail""#).unwrap();
    let n_resyncs = factory.stats().resyncs();
    for attempt in 0..2 {
        harness.set_node(&node(&format!("node-{attempt}")).build());
        let failure = harness.ask(&Pod::default()).map_err(failed).err().context("nothing failed")?.to_string();
        ensure!(failure.starts_with("Error: ") && failure.ends_with("on demand"), "{failure}");
    }
    ensure!(factory.stats().resyncs() == n_resyncs + 1, "the instance was replaced");
    Ok(())
}

/// A dump in which ports and pods, which have no order, stand in a certain one.
fn sorted(dump: &str) -> String {
    const PORTS: usize = 9;
    let mut columns: Vec<String> = dump.split(';').map(str::to_owned).collect();
    for column in [PORTS, columns.len() - 2] {
        let mut items: Vec<&str> = columns[column].split(',').collect();
        items.sort_unstable();
        columns[column] = items.join(",");
    }
    columns.join(";")
}

fn expected_dump(harness: &PluginHarness, node: NodeIdx, pod: &Pod) -> String {
    sorted(&dump(harness.cluster().table(), node, pod))
}

/// What a dry run shows is what the table would be.
fn check_dry_run(harness: &mut PluginHarness, pod: &Pod) -> Result<()> {
    let node = harness.cluster().node("full").context("no node")?;
    let name = harness.cluster().table().name(node);
    let placed: Vec<_> = harness.cluster().cache().pods_on(name).cloned().collect();
    let [first, .., last] = placed.as_slice() else { anyhow::bail!("{} pods on the node", placed.len()) };
    let mut guest = Pod::clone(first);
    (guest.uid, guest.name, guest.node_name) = ("guest".into(), "guest".into(), name);
    guest.placed_requests.milli_cpu = 77;
    let status = harness.dry_run(pod, "full", &[last, first], &[&guest]).map_err(failed)?;

    harness.cluster_mut().cache_mut().remove_pod(&first.uid).context("not there")?;
    harness.cluster_mut().cache_mut().remove_pod(&last.uid).context("not there")?;
    harness.cluster_mut().cache_mut().add_pod(guest.clone().into())?;
    let expected = expected_dump(harness, node, pod);
    ensure!(sorted(&status.message()) == expected, "tried {}\n  expected {expected}", status.message());
    harness.cluster_mut().cache_mut().remove_pod(&guest.uid).context("not there")?;
    harness.cluster_mut().cache_mut().add_pod(first.clone())?;
    harness.cluster_mut().cache_mut().add_pod(last.clone())?;
    check_probe(harness, pod)
}

fn check_probe(harness: &mut PluginHarness, pod: &Pod) -> Result<()> {
    let answers = harness.ask(pod).map_err(failed)?;
    compare(harness, pod, &answers)
}

fn compare(harness: &PluginHarness, pod: &Pod, answers: &PluginAnswers) -> Result<()> {
    for node in harness.cluster().table().nodes().iter() {
        let name = harness.cluster().node_name(node);
        let rejection = answers.rejected.get(name).with_context(|| format!("{name} passed"))?;
        let reasons: Vec<String> = rejection.reasons.iter().map(|reason| sorted(reason)).collect();
        let expected = expected_dump(harness, node, pod);
        ensure!(
            reasons == [expected.as_str()],
            "{name}:\n  the plugin's table {reasons:?}\n  the scheduler's {expected:?}"
        );
    }
    Ok(())
}
