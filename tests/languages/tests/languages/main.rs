//! Plugins in other languages answer like one another.
//!
//! A language whose tools are not installed is not run, and the output says so; with `BERTH_LANGUAGES=all` that fails.
//! `cargo xtask languages` installs the tools and runs everything.

#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::io::Write as _;

use anyhow::{Context as _, Result, ensure};
use berth_framework::{PluginFactory as _, Point};
use berth_model::{Node, NodeIdx, Pod, intern};
use berth_test_languages::{LANGUAGES, Language, Subject, Suite, awkward_cluster, build, dump, folder, load};
use berth_wasm_host::ComponentFactory;

/// Runs a test in one language, if its tools are there.
fn run(language: Language, test: impl FnOnce(Language) -> Result<()>) {
    if !language.is_present().unwrap() {
        let name = language.name;
        // Not `println!`, which the runner hides when a test passes.
        let line = format!("not run: {name} toolchain absent; run cargo xtask languages\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return;
    }
    test(language).with_context(|| language.name).unwrap();
}

macro_rules! languages {
    ($($test:ident $number:literal,)*) => {
        mod example {
            $(#[test] fn $test() { super::run(super::LANGUAGES[$number], super::an_example_answers); })*
        }
        mod probe {
            $(#[test] fn $test() { super::run(super::LANGUAGES[$number], super::a_probe_sees_everything); })*
        }
        mod template {
            $(#[test] fn $test() { super::run(super::LANGUAGES[$number], super::a_new_plugin_works); })*
        }
    };
}

languages! {
    c 0,
    python 1,
    js 2,
    go 3,
}

fn an_example_answers(language: Language) -> Result<()> {
    let plugin = folder("plugins/examples").join(format!("node-metadata-{}", language.folder));
    let factory = load("NodeMetadata", build(&plugin, "NodeMetadata")?)?;
    let points: Vec<Point> = factory.points().iter().collect();
    ensure!(points == [Point::Filter, Point::Score, Point::Normalize], "exports {points:?}");
    Suite::read(&folder("plugins/examples/node-metadata.cases.yaml"))?.check(&factory)?;
    thousands_of_nodes_are_no_trouble(&factory)
}

fn a_probe_sees_everything(language: Language) -> Result<()> {
    let component = build(&folder("tests/languages/probes").join(language.folder), "Probe")?;
    let factory = load("Probe", component)?;
    the_replica_is_the_table(&factory)?;
    // There are no exceptions in C.
    if language.folder == "c" { Ok(()) } else { a_mistake_fails_one_attempt(&factory) }
}

/// All columns, after a full delta, small ones, and one that makes the table grow.
fn the_replica_is_the_table(factory: &ComponentFactory) -> Result<()> {
    let mut subject = Subject::new(factory, "null").unwrap();
    for generation in awkward_cluster()? {
        let pod = generation.apply(&mut subject.cache)?;
        check_probe(&mut subject, &pod)?;
        check_dry_run(&mut subject, &pod)?;
    }
    for n in 0..300 {
        let name = subject.cache.symbols_mut().intern(&format!("node-{n}"));
        let labels = vec![(subject.cache.symbols_mut().intern("n"), name)];
        subject.cache.set_node(Node { name, labels, ..Node::default() });
    }
    let pod = intern::pod(&berth_model::api::Pod::default(), subject.cache.symbols_mut());
    check_probe(&mut subject, &pod)?;
    // An instance that starts late is given everything at once.
    let mut late = Subject::new(factory, "null").unwrap();
    late.cache = subject.cache;
    check_probe(&mut late, &pod)
}

/// What goes wrong in a plugin's own code costs the attempt, and the instance serves on.
fn a_mistake_fails_one_attempt(factory: &ComponentFactory) -> Result<()> {
    let mut subject = Subject::new(factory, r#""fail""#).unwrap();
    let n_resyncs = factory.stats().resyncs();
    for attempt in 0..2 {
        let name = subject.cache.symbols_mut().intern(&format!("node-{attempt}"));
        subject.cache.set_node(Node { name, ..Node::default() });
        let failure = subject.ask(&Pod::default()).err().context("nothing failed")?.to_string();
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

fn told(subject: &Subject, node: NodeIdx, pod: &Pod) -> String {
    sorted(&dump(subject.cache.snapshot(), node, pod))
}

/// What a dry run shows is what the table would be.
fn check_dry_run(subject: &mut Subject, pod: &Pod) -> Result<()> {
    let name = subject.cache.symbols_mut().intern("full");
    let node = subject.cache.snapshot().find(name).context("no node")?;
    let placed: Vec<_> = subject.cache.pods_on(name).cloned().collect();
    let [first, .., last] = placed.as_slice() else { anyhow::bail!("{} pods on the node", placed.len()) };
    let mut guest = Pod::clone(first);
    (guest.uid, guest.name, guest.node_name) = ("guest".into(), "guest".into(), name);
    guest.placed_requests.milli_cpu = 77;
    let status = subject.dry_run(pod, node, &[last, first], &[&guest])?;

    subject.cache.remove_pod(&first.uid).context("not there")?;
    subject.cache.remove_pod(&last.uid).context("not there")?;
    subject.cache.add_pod(guest.clone().into())?;
    let expected = told(subject, node, pod);
    ensure!(sorted(&status.message()) == expected, "tried {}\n  expected {expected}", status.message());
    subject.cache.remove_pod(&guest.uid).context("not there")?;
    subject.cache.add_pod(first.clone())?;
    subject.cache.add_pod(last.clone())?;
    check_probe(subject, pod)
}

fn check_probe(subject: &mut Subject, pod: &Pod) -> Result<()> {
    let answers = subject.ask(pod)?;
    let snapshot = subject.cache.snapshot();
    for node in snapshot.nodes().iter() {
        let name = snapshot.symbols.text(snapshot.name(node));
        let rejection = answers.rejected.get(name).with_context(|| format!("{name} passed"))?;
        let reasons: Vec<String> = rejection.reasons.iter().map(|reason| sorted(reason)).collect();
        let expected = told(subject, node, pod);
        ensure!(
            reasons == [expected.as_str()],
            "{name}:\n  the plugin's table {reasons:?}\n  the scheduler's {expected:?}"
        );
    }
    Ok(())
}

/// More than one page of everything, and enough garbage to be collected.
fn thousands_of_nodes_are_no_trouble(factory: &ComponentFactory) -> Result<()> {
    let mut subject = Subject::new(factory, r#"{"key": "rank", "require": true}"#).unwrap();
    for n in 0..5000 {
        set_rank(&mut subject, n, n);
    }
    for round in 0..10 {
        let answers = subject.ask(&Pod::default())?;
        ensure!(answers.rejected.len() == 500 && answers.scores.len() == 4500);
        // The lowest rank is 1, the highest 4999.
        let expected = 1 + 99 * (2500 + i64::from(round)) / 4998;
        let scores = ["node-1", "node-2501", "node-4999"].map(|name| answers.scores[name]);
        ensure!(scores == [1, expected, 100], "round {round}: {scores:?}, expected {expected}");
        set_rank(&mut subject, 2501, 2502 + round);
    }
    Ok(())
}

/// One node in ten has none.
fn set_rank(subject: &mut Subject, n: u32, rank: u32) {
    let symbols = subject.cache.symbols_mut();
    let name = symbols.intern(&format!("node-{n}"));
    let rank = (symbols.intern("rank"), symbols.intern(&rank.to_string()));
    let labels = if n.is_multiple_of(10) { Vec::new() } else { vec![rank] };
    subject.cache.set_node(Node { name, labels, ..Node::default() });
}

/// A template builds as created, and passes the cases that come with it.
fn a_new_plugin_works(language: Language) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let plugin = directory.path().join("My Plugin");
    language.instantiate("MyPlugin", &plugin)?;
    let component = build(&plugin, "MyPlugin")?;
    Suite::read(&plugin.join("cases.yaml"))?.check(&load("MyPlugin", component)?)
}
