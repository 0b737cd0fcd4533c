//! Plugins that loop, use up memory or stack, answer wrongly or too much, or import functions that the host does not
//! provide. The pods of their profile wait for a better binary under `failurePolicy: Fail`. No pod waits under
//! `Ignore`.

use berth_test_guests::{
    At, Behavior, GuestFault, always, faults_at, harmless, opens_files, opens_sockets, reads_environment,
};
use serde_json::{Value, json};

use super::bench::{Bench, Guest, is_bound, name_of, pod_of};
use crate::cluster::Cluster;

/// A guest, with its expected final state.
struct Row {
    guest: Guest,
    /// `quarantined`, `refused` or `serving`.
    state: &'static str,
    /// The kind of the faults in metrics and in the list; empty if the guest does not fault.
    kind: &'static str,
    /// Part of the text in the pod's condition and in the list.
    reason: String,
}

const PODS_EACH: usize = 2;

/// The guest serves or is in quarantine, which depends on timing. PostBind of the second pod may find the instance that
/// failed for the first pod, which is not a fault, or may come a cycle later.
const EITHER: &str = "";

/// The second fault starts a quarantine that is longer than any test. The plugin with the huge answer has enough memory
/// for this answer, but may not return it.
const RULES: &str = "
  limits: {callMilliseconds: 200, memory: 16Mi, outputBytes: 1Mi}
  quarantine: {faults: 2, windowSeconds: 600, backoffSeconds: 3600}
plugins:
- name: AlwaysHugeAnswer
  limits: {memory: 128Mi}
";

fn row(name: &str, at: At, bytes: anyhow::Result<Vec<u8>>, came_of_it: [&'static str; 3]) -> Row {
    let [state, kind, reason] = came_of_it;
    Row { guest: Guest::new(name, at, bytes.expect("a component")), state, kind, reason: reason.to_owned() }
}

fn fault(at: At, fault: GuestFault, kind: &'static str, reason: &str) -> Row {
    let name = format!("{fault:?}In{at:?}");
    let bytes = faults_at(&name, at, fault).expect("a component");
    let reason = reason.replace("FUNCTION", at.function());
    Row { guest: Guest::new(name, at, bytes), state: "quarantined", kind, reason }
}

fn wrong_answer(behavior: Behavior, reason: &'static str) -> Row {
    let name = format!("Always{behavior:?}");
    row(&name, At::Filter, always(&name, behavior), ["quarantined", "wrong_answer", reason])
}

/// Every guest with its fault, its extension point, and its expected final state.
fn rows() -> Vec<Row> {
    let traps = |at| fault(at, GuestFault::Trap, "trap", "trapped in FUNCTION: ");
    let loops = |at| fault(at, GuestFault::Loop, "timeout", "took too long in FUNCTION");
    let exhausts_memory =
        |at| fault(at, GuestFault::ExhaustMemory, "memory", "bytes of memory (limit 16777216) in FUNCTION");
    let exhausts_stack =
        |at| fault(at, GuestFault::ExhaustStack, "trap", "trapped in FUNCTION: wasm trap: call stack exhausted");
    vec![
        // The first sync comes before the plugin serves.
        Row { state: "refused", kind: "", ..traps(At::Sync) },
        traps(At::Filter),
        traps(At::Reserve),
        traps(At::PreBindPreFlight),
        Row { state: EITHER, ..traps(At::PostBind) },
        loops(At::Begin),
        loops(At::PreFilter),
        loops(At::Filter),
        loops(At::Permit),
        exhausts_memory(At::Filter),
        exhausts_memory(At::PreBind),
        exhausts_stack(At::PreEnqueue),
        exhausts_stack(At::Filter),
        exhausts_stack(At::Score),
        exhausts_stack(At::Bind),
        fault(At::Filter, GuestFault::LongReason, "wrong_answer", "of 5000 bytes (limit 4096)"),
        fault(At::Filter, GuestFault::ManyReasons, "wrong_answer", "a status with 2000 reasons (limit 1024)"),
        wrong_answer(Behavior::WrongAnswers, "answered filter with nodes that it was not asked about"),
        wrong_answer(Behavior::HugeAnswer, "gave an unreadable answer to filter"),
        wrong_answer(Behavior::ErrorOfSuccess, "answered filter with an error with code Success"),
        wrong_answer(Behavior::PointerOutside, "gave an unreadable answer to filter"),
        wrong_answer(Behavior::ScoreTooHigh, "answered with a score of 1000000 for node node-"),
        row("LogsMuch", At::Filter, always("LogsMuch", Behavior::LogMuch), ["serving", "", ""]),
        row("Files", At::Filter, opens_files("Files"), ["refused", "", "imports wasi:filesystem/preopens@0.2.0"]),
        row(
            "Sockets",
            At::Filter,
            opens_sockets("Sockets"),
            ["refused", "", "imports wasi:sockets/instance-network@0.2.0"],
        ),
        row(
            "Environment",
            At::Filter,
            reads_environment("Environment"),
            ["refused", "", "imports wasi:cli/environment@0.2.0"],
        ),
    ]
}

impl Row {
    /// The row under `failurePolicy: Ignore`. The second pod may pass the plugin while it restarts, so the plugin may
    /// not fault again.
    fn ignored(self) -> Self {
        if self.state == "quarantined" { Self { state: EITHER, ..self } } else { self }
    }

    /// The least number of faults.
    fn faults(&self) -> u64 {
        if self.state == EITHER { 1 } else { 2 }
    }

    /// The expected entry in the list.
    fn entry(&self) -> Value {
        let mut entry = json!({"name": self.guest.name});
        if self.state != EITHER {
            entry["state"] = json!(self.state);
        }
        if !self.reason.is_empty() {
            entry["lastReason"] = json!(self.reason);
        }
        if !self.kind.is_empty() {
            entry["faults"] = json!({self.kind: self.faults()});
        }
        entry
    }
}

async fn start(policy: &str) -> (Bench, Vec<Row>) {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let rows = rows();
    let guests = rows.iter().map(|Row { guest, state, .. }| Guest {
        name: guest.name.clone(),
        bytes: guest.bytes.clone(),
        is_late: *state == "refused",
        ..*guest
    });
    let rules = format!("defaults:\n  failurePolicy: {policy}{RULES}");
    let bench = Bench::start(cluster, guests.collect(), &rules).await;
    for row in &rows {
        bench.create(&row.guest.name, PODS_EACH).await;
    }
    (bench, rows)
}

/// Checks the list, which is the same under both policies.
async fn check_list(bench: &Bench, rows: &[Row]) {
    bench.shows(rows.iter().map(|row| (row.guest.name.as_str(), row.entry()))).await;
    let list = bench.list().await;
    for row in rows {
        let entry = &list[&row.guest.name];
        assert!(row.state == EITHER || entry["state"] == row.state, "{entry}");
        if !row.kind.is_empty() {
            let counter = format!("berth_plugin_faults_total{{kind=\"{}\",plugin=\"{}\"}}", row.kind, row.guest.name);
            bench.counts(&counter, row.faults()).await;
        }
    }
    bench.counts("berth_plugin_dropped_log_lines_total{plugin=\"LogsMuch\"}", 100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_plugins_hold_up_their_own_pods_and_no_others() {
    let (bench, rows) = start("Fail").await;
    let seen = bench.binds_healthy(10).await;
    assert!(seen.deleted.is_empty());
    for row in rows.iter().filter(|row| !["serving", EITHER].contains(&row.state)) {
        for number in 0..PODS_EACH {
            let name = name_of(&row.guest.name, number);
            let says = |message: &String| message.contains(&row.reason) && message.contains(&row.guest.name);
            let what = format!("{name} told that {} {}", row.guest.name, row.reason);
            let seen = bench.cluster.until(&what, |seen| seen.messages.get(&name).is_some_and(says)).await;
            assert!(!is_bound(&seen, &name), "{name} is bound");
        }
    }
    check_list(&bench, &rows).await;
    for Row { guest, .. } in &rows {
        bench.place(&guest.name, &harmless(&guest.name, guest.at).expect("a component"));
    }
    bench.cluster.all_bound(10 + rows.len() * PODS_EACH).await;
}

/// Two components are on the stack: preemption, and the Filter plugin that answers preemption's dry run.
#[tokio::test(flavor = "multi_thread")]
async fn a_stack_is_used_up_on_top_of_another() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
    let Row { guest, reason, .. } =
        fault(At::DryRun, GuestFault::ExhaustStack, "trap", "trapped in dry-run: wasm trap: call stack");
    let name = guest.name.clone();
    let rules = "plugins:\n- name: DefaultPreemption\n  execution: wasm\n";
    let bench = Bench::start(cluster, vec![guest], rules).await;
    let large = |guest: &str| {
        let mut pod = pod_of(guest, 9);
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(12);
        pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
        pod
    };
    bench.cluster.create(&large("healthy")).await;
    bench.cluster.node_of(&name_of("healthy", 9)).await;
    let mut important = large(&name);
    important["spec"]["priorityClassName"] = json!("system-cluster-critical");
    bench.cluster.create(&important).await;
    // The next instance soon gets the same question.
    bench.shows([(name.as_str(), json!({"lastReason": reason}))]).await;
    let seen = bench.binds_healthy(5).await;
    assert!(seen.deleted.is_empty() && !is_bound(&seen, &name_of(&name, 9)));
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_plugins_that_may_be_ignored_hold_up_nobody() {
    let (bench, rows) = start("Ignore").await;
    let rows: Vec<Row> = rows.into_iter().map(Row::ignored).collect();
    bench.binds_healthy(10).await;
    bench.cluster.all_bound(10 + rows.len() * PODS_EACH).await;
    check_list(&bench, &rows).await;
}
