//! The events of a run, and their times. Everything depends on the seed.

use std::time::Duration;

use serde_json::{Value, json};

/// The requested size of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) nodes: u32,
    pub(crate) pods: u32,
    pub(crate) time: Duration,
}

/// An action of users.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operation {
    Create {
        pod: u32,
        milli_cpu: u32,
    },
    /// `gracefully` means that the pod stays on its node until its kubelet removes it.
    Delete {
        pod: u32,
        gracefully: bool,
    },
    Resize {
        pod: u32,
        milli_cpu: u32,
    },
}

/// A disturbance of the schedulers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Trouble {
    /// Rules for the engine that makes faults.
    Faults(Value),
    /// SIGKILL, and a new process after a pause.
    Kill { whom: Victim, pause: Duration },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    Leader,
    Replica(usize),
}

/// The plan. Both lists are in the order of their times, which count from the beginning of the run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) operations: Vec<(Duration, Operation)>,
    pub(crate) troubles: Vec<(Duration, Trouble)>,
}

/// CPU of a node, in thousandths.
pub(crate) const NODE_MILLI_CPU: u32 = 16_000;
/// The number of pods that fit on a node.
pub(crate) const NODE_PODS: u32 = 110;

/// The user agent of the schedulers, so that only the requests of schedulers meet faults.
const SCHEDULERS: &str = "berth/";

impl Plan {
    pub(crate) fn new(seed: u64, size: Size, replicas: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let operations = operations(&mut random, size);
        let mut troubles = faults(&mut random, seed, size.time);
        troubles.extend(kills(&mut random, size.time, replicas));
        troubles.sort_by_key(|(at, _)| *at);
        Self { operations, troubles }
    }
}

/// Pods are created during the first three fifths of the time, and six tenths of them are deleted again. In the middle
/// of the run, the pods request one and a half times the amounts of the cluster, so some pods wait until others are
/// deleted. At the end, the cluster has just enough room for all pods.
fn operations(random: &mut fastrand::Rng, size: Size) -> Vec<(Duration, Operation)> {
    let at_once = f64::from(size.pods) * 0.45;
    let mean = f64::from(size.nodes) * f64::from(NODE_MILLI_CPU) / at_once.max(1.0);
    let mut operations = Vec::new();
    for pod in 0..size.pods {
        let factor = [0.25, 0.5, 1.0, 1.0, 2.5][random.usize(..5)];
        let milli_cpu = milli_cpu(mean * factor);
        let created = size.time.mul_f64(random.f64() * 0.6);
        operations.push((created, Operation::Create { pod, milli_cpu }));
        if random.f64() < 0.6 {
            let lifetime = Duration::from_secs(1) + size.time.mul_f64(random.f64() * 0.5);
            let deleted = (created + lifetime).min(size.time);
            operations.push((deleted, Operation::Delete { pod, gracefully: random.bool() }));
        }
        if random.f64() < 0.15 {
            let factor = if random.bool() { 0.5 } else { 1.5 };
            let resized = created + size.time.mul_f64(random.f64() * 0.2);
            let milli_cpu = self::milli_cpu(f64::from(milli_cpu) * factor);
            operations.push((resized.min(size.time), Operation::Resize { pod, milli_cpu }));
        }
    }
    operations.sort_by_key(|(at, _)| *at);
    operations
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousands at most, and positive")]
fn milli_cpu(wanted: f64) -> u32 {
    (wanted.clamp(10.0, f64::from(NODE_MILLI_CPU)) / 10.0).round() as u32 * 10
}

/// One or two faults at a time with pauses between them. All kinds are repeated until nine tenths of the time are over.
fn faults(random: &mut fastrand::Rng, seed: u64, time: Duration) -> Vec<(Duration, Trouble)> {
    let end = time.mul_f64(0.9);
    let mut at = time.mul_f64(0.05);
    let mut kinds: Vec<usize> = Vec::new();
    let mut troubles = Vec::new();
    while at < end {
        let mut rules = Vec::new();
        let longest = (end - at).as_secs_f64();
        for _ in 0..random.u32(1..=2) {
            if kinds.is_empty() {
                kinds = (0..KINDS).collect();
                random.shuffle(&mut kinds);
            }
            let seconds = (2.0 + random.f64() * 8.0).min(longest.max(1.0));
            let rule_seed = seed.wrapping_mul(1000).wrapping_add(troubles.len() as u64);
            rules.push(rule(kinds.pop().unwrap_or_default(), random, seconds, rule_seed));
        }
        troubles.push((at, Trouble::Faults(Value::Array(rules))));
        at += Duration::from_secs_f64(6.0 + random.f64() * 8.0);
    }
    troubles
}

const KINDS: usize = 11;

fn rule(kind: usize, random: &mut fastrand::Rng, seconds: f64, seed: u64) -> Value {
    let all = json!({"userAgent": SCHEDULERS});
    let writes = json!({"userAgent": SCHEDULERS, "verbs": ["create", "update", "patch"]});
    let bindings = json!({"userAgent": SCHEDULERS, "resources": ["pods/binding"]});
    let watches = json!({"userAgent": SCHEDULERS, "verbs": ["watch"]});
    let status = |code: u16| json!({"type": "Status", "code": code});
    let (matches, fault, probability) = match kind {
        0 => (writes, status(409), 0.3),
        1 => (json!({"userAgent": SCHEDULERS, "verbs": ["list", "watch"]}), status(410), 0.5),
        2 => (all, json!({"type": "Status", "code": 429, "retryAfterSeconds": random.u32(1..=2)}), 0.4),
        3 => (all, status(500), 0.3),
        4 => (all, status(503), 0.5),
        5 => (all, json!({"type": "Latency", "milliseconds": random.u64(50..1500)}), 0.5),
        6 => (bindings, json!({"type": "LostAnswer"}), 0.4),
        7 => (watches, json!({"type": "CutWatch", "afterMilliseconds": random.u64(0..2000)}), 1.0),
        8 => (watches, json!({"type": "SilentWatch", "afterMilliseconds": random.u64(0..2000)}), 0.4),
        9 => (watches, json!({"type": "DuplicateEvents"}), 0.5),
        _ => (all, json!({"type": "Outage"}), 1.0),
    };
    json!({"match": matches, "fault": fault, "probability": probability, "durationSeconds": seconds, "seed": seed})
}

/// Three kills in the run, and one more for every minute.
fn kills(random: &mut fastrand::Rng, time: Duration, replicas: usize) -> Vec<(Duration, Trouble)> {
    let n_kills = 3 + time.as_secs() / 60;
    let mut kills = Vec::new();
    for _ in 0..n_kills {
        let whom = if random.f64() < 0.7 { Victim::Leader } else { Victim::Replica(random.usize(..replicas)) };
        let pause = Duration::from_millis(random.u64(..3000));
        kills.push((time.mul_f64(0.05 + random.f64() * 0.85), Trouble::Kill { whom, pause }));
    }
    kills
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { nodes: 100, pods: 2000, time: Duration::from_secs(120) };

    #[test]
    fn the_seed_alone_decides() {
        let [first, same, other] = [1, 1, 2].map(|seed| Plan::new(seed, SIZE, 3));
        assert_eq!((&first.operations, &first.troubles), (&same.operations, &same.troubles));
        assert_ne!(first.operations, other.operations);
        assert_ne!(first.troubles, other.troubles);
    }

    #[test]
    fn every_rule_is_one_and_every_kind_comes() {
        let plan = Plan::new(7, Size { time: Duration::from_secs(300), ..SIZE }, 3);
        let mut kinds = std::collections::BTreeSet::new();
        for (_, trouble) in &plan.troubles {
            if let Trouble::Faults(rules) = trouble {
                berth_faults::read_rules(&rules.to_string()).expect("rules");
                kinds.extend(rules.as_array().into_iter().flatten().map(|rule| rule["fault"].to_string()));
            }
        }
        for kind in ["409", "410", "429", "500", "503", "Latency", "Lost", "Cut", "Silent", "Duplicate", "Outage"] {
            assert!(kinds.iter().any(|fault| fault.contains(kind)), "{kind} in {kinds:?}");
        }
    }
}
