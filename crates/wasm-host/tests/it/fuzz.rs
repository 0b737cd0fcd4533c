//! Random bytes in place of components and of answers. Errors in the bytes are reported, and have no other consequence.
//! `cargo xtask fuzz` runs more random bytes.

use berth_framework::{DryRun, DryRunCase, Failure, Plugin, PluginFactory as _, Removal, Status};
use berth_model::{NodeIdx, Pod};
use berth_test_guests::{ANSWER_ADDRESS, At, GuestFault, answers, by_priority_named, faults_at, harmless, in_letters};
use berth_wasm_host::{Binary, ComponentFactory, FaultKind};
use fuzz_targets::{Random, rounds};

use crate::cluster::{Cluster, engine};

#[test]
fn bytes_are_a_plugin_or_refused() {
    let engine = engine();
    let samples: Vec<Vec<u8>> = [
        harmless("Mutant", At::Filter),
        harmless("Mutant", At::PostFilter),
        by_priority_named("Mutant"),
        faults_at("Mutant", At::Score, GuestFault::Trap),
        berth_test_guests::opens_sockets("Mutant"),
        berth_test_guests::core_module(),
    ]
    .into_iter()
    .collect::<Result<_, _>>()
    .unwrap();
    let cluster = Cluster::new(3);
    rounds(48, |random| {
        let mut bytes = random.one_of(&samples).clone();
        for _ in 0..=random.below(4) {
            mutate(&mut bytes, &samples, random);
        }
        match engine.load(&Binary::new("Mutant", bytes)) {
            Ok(factory) => ask(&factory, "null", &cluster),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
}

fn mutate(bytes: &mut Vec<u8>, samples: &[Vec<u8>], random: &mut Random) {
    let at = random.below(bytes.len());
    let len = random.below(64).min(bytes.len() - at);
    match random.below(6) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..at + len)),
        2 => {
            let donor = random.one_of(samples);
            let from = random.below(donor.len());
            let part = donor[from..].iter().take(len).copied().collect::<Vec<_>>();
            bytes.splice(at..at, part);
        }
        // The usual sizes, flags and opcodes are small.
        3 => bytes[at..at + len].fill(u8::try_from(random.below(4)).unwrap_or_default()),
        4 => bytes[at] = bytes[at].wrapping_add(1),
        _ => bytes[at] = random.byte(),
    }
    if bytes.is_empty() {
        bytes.push(0);
    }
}

#[test]
fn answers_are_understood_or_a_fault() {
    let engine = engine();
    let load = |at: At| engine.load(&Binary::new("Answers", answers("Answers", at).unwrap())).unwrap();
    let factories: Vec<ComponentFactory> = At::answering().map(load).collect();
    let cluster = Cluster::new(3);
    rounds(400, |random| ask(random.one_of(&factories), &in_letters(&answer(random)), &cluster));
    for factory in &factories {
        let faults = |kind: FaultKind| factory.stats().faults(kind);
        // The bytes are read as an answer, right or wrong; no code runs.
        assert_eq!([faults(FaultKind::Trap), faults(FaultKind::Timeout), faults(FaultKind::Memory)], [0; 3]);
    }
}

/// The words of an answer: small numbers, pointers into the answer, and arbitrary values.
fn answer(random: &mut Random) -> Vec<u8> {
    let n_words = 8 + random.below(56);
    let mut bytes = Vec::new();
    for _ in 0..n_words {
        let inside = u32::try_from(random.below(64) * 8).unwrap_or_default();
        let any = u32::try_from(random.bits() & 0xFFFF_FFFF).unwrap_or_default();
        let word = match random.below(8) {
            0 | 1 => 0,
            2 | 3 => u32::try_from(random.below(9)).unwrap_or_default(),
            4 | 5 => ANSWER_ADDRESS + inside,
            6 => 1 << random.below(32),
            _ => any,
        };
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

/// A dry run in which every node passes.
struct AllFits;

impl DryRun for AllFits {
    fn dry_run(&mut self, cases: &[Removal]) -> Result<Vec<Status>, Status> {
        Ok(vec![Status::success(); cases.len()])
    }
}

/// Asks a plugin at each point that it has. The plugin's answers must be valid.
fn ask(factory: &ComponentFactory, args: &str, cluster: &Cluster) {
    let Ok(mut plugin) = factory.build(args) else { return };
    let pod = Pod::default();
    let call = cluster.call(1, &pod);
    let nodes = cluster.nodes();
    if plugin.sync(cluster.cache()).is_err() {
        return;
    }
    if let Some(point) = plugin.pre_enqueue() {
        point.pre_enqueue(&pod, call.table);
    }
    if let Some(point) = plugin.pre_filter() {
        let _ = point.pre_filter(&call);
    }
    if let Some(point) = plugin.filter() {
        let mut passed = nodes.clone();
        if point.filter(&call, &mut passed).is_ok() {
            assert!(passed.is_subset(nodes), "nodes that it was not asked about");
        }
        for group in point.node_to_status(&call, nodes).unwrap_or_default() {
            assert!(group.nodes.is_subset(nodes), "{group:?}");
        }
        if let Ok(statuses) = point.dry_run(&call, &[&pod], &[DryRunCase::default(), DryRunCase::default()]) {
            assert_eq!(statuses.len(), 2);
        }
    }
    if let Some(point) = plugin.post_filter() {
        let absent = Status::unschedulable("no");
        let failure = Failure { rejections: &[], absent: Some(&absent), nominated: &[] };
        let outcome = point.post_filter(&call, &failure, &mut AllFits);
        if let Ok(Some(Some(node))) = outcome.map(|outcome| outcome.nominate) {
            assert!(nodes.contains(node), "{node:?}");
        }
    }
    let mut scores = Vec::new();
    if let Some(point) = plugin.score()
        && point.score(&call, nodes, &mut scores).is_ok()
    {
        assert_eq!(scores.len(), 3);
    }
    place(&mut *plugin, cluster, &pod);
    plugin.end_cycle(call.cycle);
}

fn place(plugin: &mut dyn Plugin, cluster: &Cluster, pod: &Pod) {
    let (call, node) = (cluster.call(1, pod), NodeIdx(0));
    if let Some(point) = plugin.reserve() {
        point.reserve(&call, node);
        point.unreserve(&call, node);
    }
    if let Some(point) = plugin.permit() {
        point.permit(&call, node);
    }
    if let Some(point) = plugin.pre_bind_pre_flight() {
        let _ = point.pre_bind_pre_flight(&call, node);
    }
    if let Some(point) = plugin.pre_bind() {
        let _ = point.pre_bind(&call, node);
    }
    if let Some(point) = plugin.bind() {
        let _ = point.bind(&call, node);
    }
}
