//! Tests with probes: plugins that show the data which they see of a node. The tests compare this data with the
//! scheduler's table.

use std::{fs, iter};

use anyhow::{Context as _, Result, ensure};
use berth_author::{PluginAnswers, PluginHarness};
use berth_framework::{Point, Reach};
use berth_model::{NodeIdx, Pod, Sym, api};
use berth_test_languages::{Language, awkward_cluster, build, dump, folder, load};
use berth_testing::{node, pod as lonely};
use berth_wasm_host::{ComponentFactory, FaultKind};

use crate::failed;

pub(crate) fn a_probe_sees_everything(language: Language) -> Result<()> {
    let component = build(&folder("tests/languages/probes").join(language.folder), "Probe")?;
    let factory = load("Probe", component)?;
    the_replica_is_the_table(&factory)?;
    a_mistake_is_a_fault(language, &factory)?;
    an_error_is_an_answer(&factory)
}

/// All columns, after a full delta, after small deltas, and after a delta that makes the table grow.
fn the_replica_is_the_table(factory: &ComponentFactory) -> Result<()> {
    let mut harness = PluginHarness::new(factory, "null").unwrap();
    for generation in awkward_cluster()? {
        let pod = generation.enter(&mut harness).map_err(anyhow::Error::msg)?;
        check_probe(&mut harness, &pod)?;
        check_dry_run(&mut harness, &pod)?;
    }
    // The node was added and removed between two deltas. The delta reports the node's row as removed, although the
    // plugin never had this row.
    harness.set_node(&node("fleeting").build());
    harness.remove_node("fleeting");
    let pod = harness.intern(&api::Pod::default());
    check_probe(&mut harness, &pod)?;
    pods_come_and_go(&mut harness, &pod)?;
    alike_pods_come_and_go(&mut harness, &pod)?;
    for n in 0..300 {
        let name = format!("node-{n}");
        harness.set_node(&node(&name).label("n", &name).build());
    }
    let pod = harness.intern(&api::Pod::default());
    check_probe(&mut harness, &pod)?;
    // An instance that was not asked for too long is also correct, although more changes happened than are kept.
    let n_resyncs = factory.stats().resyncs();
    for n in 0..(1 << 16) {
        harness.set_node(&node("node-0").label("n", &n.to_string()).build());
    }
    check_probe(&mut harness, &pod)?;
    ensure!(factory.stats().resyncs() == n_resyncs + 1, "it was given the changes");
    // An instance that starts late gets all data in one delta.
    let late = harness.ask_fresh(factory, "null", &pod).map_err(anyhow::Error::msg)?;
    compare(&harness, &pod, &late)
}

/// A removed pod has the strings with which it was added, although no other object has them and their symbols are free.
fn pods_come_and_go(harness: &mut PluginHarness, pod: &Pod) -> Result<()> {
    for round in 0..3 {
        let name = format!("lonely-{round}");
        let placed = lonely(&name).uid(&name).namespace(&format!("only-{round}")).on("bare").build();
        harness.set_pod(&placed)?;
        check_probe(harness, pod)?;
        ensure!(harness.remove_pod(&name));
    }
    check_probe(harness, pod)
}

/// Pods that equal other pods come with fewer values. Their common strings stay until the last of these pods is
/// removed.
fn alike_pods_come_and_go(harness: &mut PluginHarness, pod: &Pod) -> Result<()> {
    let twin = |n: u32| {
        let name = format!("twin-{n}");
        let twin = lonely(&name).uid(&name).namespace("twins").label("only", "twins").on("bare");
        twin.request("cpu", "250m").request("example.com/gpu", "1").build()
    };
    for n in 0..6 {
        harness.set_pod(&twin(n))?;
        check_probe(harness, pod)?;
    }
    // The first pod came completely, and is removed first.
    for n in [0, 3, 1] {
        ensure!(harness.remove_pod(&format!("twin-{n}")));
        check_probe(harness, pod)?;
    }
    harness.set_pod(&twin(7))?;
    check_probe(harness, pod)?;
    for n in [2, 4, 5, 7] {
        ensure!(harness.remove_pod(&format!("twin-{n}")));
    }
    check_probe(harness, pod)
}

/// A plugin that only reads the usage of pods gets the usage without the pods. Its answers may be reused.
pub(crate) fn usage_follows_the_pods(language: Language) -> Result<()> {
    let component = build(&folder("tests/languages/usage").join(language.folder), "Usage")?;
    let mut harness = PluginHarness::new(&load("Usage", component)?, "null").map_err(anyhow::Error::msg)?;
    for n in 0..3 {
        harness.set_node(&node(&format!("n{n}")).allocatable("cpu", "8").build());
    }
    let pod = harness.intern(&lonely("asks").uid("asks").build());
    for n in 0..8 {
        let name = format!("p{n}");
        let placed = lonely(&name).uid(&name).on(&format!("n{}", n % 2));
        let placed = if n < 6 { placed.request("cpu", "100m").request("example.com/gpu", "2") } else { placed };
        harness.set_pod(&placed.build())?;
        check_usage(&mut harness, &pod)?;
    }
    for n in [6, 0, 1, 2, 3, 4] {
        ensure!(harness.remove_pod(&format!("p{n}")));
        check_usage(&mut harness, &pod)?;
    }
    for (priority, expected) in [(0, Reach::Row { version: 7 }), (5, Reach::Nothing)] {
        let mut reach = Reach::Cluster;
        // The plugin is asked about the second of two equal pods.
        for uid in ["first", "second"] {
            let pod = harness.intern(&lonely(uid).uid(uid).spec("priority", priority.into()).build());
            reach = harness.in_cycle(&pod, |plugin, call| plugin.reach(call));
        }
        ensure!(reach == expected, "{reach:?}, expected {expected:?}");
    }
    Ok(())
}

fn check_usage(harness: &mut PluginHarness, pod: &Pod) -> Result<()> {
    let answers = harness.ask(pod).map_err(failed)?;
    let table = harness.cluster().table();
    let gpu = table.symbols.lookup("example.com/gpu").unwrap_or(Sym::NONE);
    for row in table.nodes().iter() {
        let requested = [Sym::CPU, Sym::MEMORY, gpu].map(|name| table.requested().get(name, row));
        let [cpu, memory, count] = [table.non_zero_cpu(), table.non_zero_memory(), table.pod_counts()]
            .map(|column| column.get(row.index()).copied().unwrap_or(0));
        let [a, b, c] = requested;
        let expected = format!("{a},{b},{c},{cpu},{memory},{count}");
        let name = table.symbols.text(table.name(row));
        let told = answers.rejected.get(name).with_context(|| format!("{name} passed"))?;
        ensure!(told.reasons == [expected.clone()], "{name}: {told:?}, expected {expected}");
    }
    Ok(())
}

/// An error in a plugin's own code is a fault, which names the line.
fn a_mistake_is_a_fault(language: Language, factory: &ComponentFactory) -> Result<()> {
    let sources = folder("tests/languages/probes").join(language.folder);
    let source = ["plugin.py", "plugin.js", "plugin.go", "plugin.c"].into_iter().find(|it| sources.join(it).is_file());
    let source = source.context("no source")?;
    let text = fs::read_to_string(sources.join(source))?;
    let line = 1 + text.lines().position(|line| line.contains("on demand")).context("no mistake")?;

    let mut harness = PluginHarness::new(factory, r#""fault""#).unwrap();
    harness.set_node(&node("a").build());
    let fault = harness.ask(&Pod::default()).map_err(failed).err().context("nothing failed")?.to_string();
    let place = format!("on demand, at {source}:{line}");
    ensure!(fault.contains("trapped in filter: ") && fault.contains(&place), "{fault:?} without {place:?}");
    ensure!(!fault.contains('\n') && !fault.contains("\\n"), "{fault}");
    ensure!((factory.stats().faults(FaultKind::Trap), factory.stats().errors(Point::Filter)) == (1, 0));
    Ok(())
}

/// An error that the plugin returns ends only the attempt, and the instance continues to serve.
fn an_error_is_an_answer(factory: &ComponentFactory) -> Result<()> {
    let mut harness = PluginHarness::new(factory, r#""error""#).unwrap();
    let n_resyncs = factory.stats().resyncs();
    for attempt in 0..2 {
        harness.set_node(&node(&format!("node-{attempt}")).build());
        let failure = harness.ask(&Pod::default()).map_err(failed).err().context("nothing failed")?.to_string();
        ensure!(failure == "Error: on purpose", "{failure}");
    }
    ensure!(factory.stats().resyncs() == n_resyncs + 1, "the instance was replaced");
    ensure!((factory.stats().faults(FaultKind::Trap), factory.stats().errors(Point::Filter)) == (1, 2));
    Ok(())
}

/// A dump in which ports, pods and nodes, which have no order, are sorted.
fn sorted(dump: &str) -> String {
    const PORTS: usize = 9;
    let mut columns: Vec<String> = dump.split(';').map(str::to_owned).collect();
    // Pods are the last column, or the last four are pods, nodes, and pods twice.
    let n_columns = if dump.starts_with("bare;") { 4 } else { 1 };
    let last = columns.len() - 1;
    for column in iter::once(PORTS).chain(last - n_columns..last) {
        let mut items: Vec<&str> = columns[column].split(',').collect();
        items.sort_unstable();
        columns[column] = items.join(",");
    }
    columns.join(";")
}

fn expected_dump(harness: &PluginHarness, node: NodeIdx, pod: &Pod) -> String {
    sorted(&dump(harness.cluster().table(), node, pod))
}

/// A dry run shows the table after the change of the case.
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
