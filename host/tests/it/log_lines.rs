//! The lines that kube-scheduler writes as well, in kube-scheduler's place: their words, keys and verbosities.

use berth_telemetry::klog::lines::{self, KubeLine};
use k8s_openapi::api::{core::v1::Node, scheduling::v1::PriorityClass};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, pod},
    process::{DEADLINE, Process},
};

const NODE: &str = "node-00000";

/// The lines about occurrences that the story does not have.
const NOT_TOLD: [KubeLine; 5] = [
    lines::LEADERSHIP_LOST,
    lines::DELETING_POD_SKIPPED,
    lines::NO_NODES,
    lines::ATTEMPT_FAILED,
    lines::VICTIM_IS_GONE,
];

/// A pod that takes most of the node.
fn large(name: &str) -> Value {
    let mut pod = pod(name, "12", "1Gi");
    pod["spec"]["terminationGracePeriodSeconds"] = json!(0);
    pod
}

async fn make_class(cluster: &Cluster) {
    let classes: Api<PriorityClass> = Api::all(cluster.pods.clone().into_client());
    let class = json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "PreemptLowerPriority"});
    let class = serde_json::from_value(class).expect("a class");
    classes.create(&PostParams::default(), &class).await.expect("the sandbox takes it");
}

/// The log of a scheduler of this release and verbosity. Pods are bound, gated, refused, preempted and deleted during
/// this time, and the node changes and is deleted.
async fn log_of(release: &str, verbosity: u8) -> String {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1", "--kubernetes-version", release]).await;
    make_class(&cluster).await;
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let level = format!("-v={verbosity}");
    let flags = ["kube-scheduler", "--kubeconfig", &kubeconfig, "--secure-port=0", "--leader-elect=false", &level];
    let mut scheduler = Process::berth(flags);

    cluster.create(&large("low")).await;
    assert_eq!(cluster.node_of("low").await, NODE);
    let mut gated = pod("gated", "1m", "1Mi");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    cluster.create(&gated).await;
    cluster.create(&large("big")).await;
    cluster.until("big told", |seen| seen.messages.contains_key("big")).await;
    let gates = Patch::Merge(json!({"spec": {"schedulingGates": null}}));
    cluster.pods.patch("gated", &PatchParams::default(), &gates).await.expect("the sandbox takes it");
    cluster.node_of("gated").await;
    let labels = Patch::Merge(json!({"metadata": {"labels": {"example.com/seen": "yes"}}}));
    cluster.pods.patch("gated", &PatchParams::default(), &labels).await.expect("the sandbox takes it");

    let mut high = large("high");
    high["spec"]["priorityClassName"] = json!("high");
    cluster.create(&high).await;
    cluster.node_of("high").await;
    cluster.pods.delete("big", &DeleteParams::default().grace_period(0)).await.expect("the pod goes");
    cluster.until("big deleted", |seen| seen.deleted.contains("big")).await;
    let nodes: Api<Node> = Api::all(cluster.pods.clone().into_client());
    nodes.patch(NODE, &PatchParams::default(), &labels).await.expect("the sandbox takes it");
    nodes.delete(NODE, &DeleteParams::default()).await.expect("the node goes");
    // The last events of each kind.
    for (line, object) in [
        (lines::DELETE_UNSCHEDULED_POD, "pod=\"default/big\"".to_owned()),
        (lines::UPDATE_SCHEDULED_POD, "pod=\"default/gated\"".to_owned()),
        (lines::DELETE_NODE, format!("node=\"{NODE}\"")),
    ] {
        if verbosity >= line.verbosity {
            scheduler.line(&format!("\"{}\" {object}", line.message)).await;
        }
    }
    scheduler.terminate();
    scheduler.ended(DEADLINE).await.err
}

/// The keys of a line after its message.
fn keys(mut rest: &str) -> Vec<&str> {
    let mut keys = Vec::new();
    while let Some((key, value)) = rest.trim_start().split_once('=') {
        keys.push(key);
        rest = if let Some(text) = value.strip_prefix('"') {
            let mut is_escaped = false;
            let end = text.find(|letter: char| {
                let is_end = letter == '"' && !is_escaped;
                is_escaped = letter == '\\' && !is_escaped;
                is_end
            });
            end.and_then(|at| text.get(at + 1..)).unwrap_or_default()
        } else if value.starts_with('{') {
            ""
        } else {
            value.split_once(' ').map_or("", |(_, rest)| rest)
        };
    }
    keys
}

/// The lines of the log with this message and these keys.
fn lines_like<'a>(log: &'a str, line: &KubeLine) -> Vec<&'a str> {
    let begin = format!("] \"{}\"", line.message);
    let is_it = |text: &&str| text.split_once(&begin).is_some_and(|(_, rest)| keys(rest) == line.keys);
    log.lines().filter(is_it).collect()
}

fn is_of(line: &KubeLine, release: &str) -> bool {
    ["all", release].contains(&line.releases)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_line_is_written_from_its_verbosity_on() {
    for verbosity in [0, 3, 5] {
        let log = log_of("1.36", verbosity).await;
        for line in KubeLine::ALL.iter().filter(|line| is_of(line, "1.36") && !NOT_TOLD.contains(line)) {
            let found = lines_like(&log, line);
            assert_eq!(!found.is_empty(), line.verbosity <= verbosity, "{line:?} at {verbosity}: {found:?}\n{log}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lines_have_kube_schedulers_values() {
    let log = log_of("1.36", 5).await;
    for text in [
        "\"Add event for node\" node=\"node-00000\"",
        "\"Add event for unscheduled pod\" pod=\"default/low\"",
        "\"Pod moved to an internal scheduling queue\" pod=\"default/low\" event=\"UnschedulablePodAdd\" queue=\"Active\"",
        "\"Attempting to bind pod to node\" pod=\"default/low\" node=\"node-00000\"",
        "\"Pod moved to an internal scheduling queue, because the pod is gated\" pod=\"default/gated\" \
         event=\"UnschedulablePodAdd\" queue=\"Unschedulable\"",
        "because the Pod is updated\" pod=\"default/gated\" event=\"UnschedulablePodUpdatePodSchedulingGatesEliminated\" \
         queue=\"Active\"",
        "\"Pod moved to an internal scheduling queue\" pod=\"default/big\" event=\"ScheduleAttemptFailure\" \
         queue=\"Unschedulable\" schedulingCycle=2 hint=0 unschedulable plugins={\"NodeResourcesFit\":{}}",
        "\"the target node for the preemption is determined\" node=\"node-00000\" pod=\"default/high\"",
        "\"Preemptor Pod preempted victim Pod\" preemptor=\"default/high\" victim=\"default/low\" node=\"node-00000\"",
        "\"Delete event for scheduled pod\" pod=\"default/low\"",
        "\"Pod moved to an internal scheduling queue\" pod=\"default/big\" event=\"AssignedPodDelete\" queue=",
        "\"Delete event for unscheduled pod\" pod=\"default/big\"",
    ] {
        assert!(log.contains(text), "{text}\n{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_of_1_37_name_entities() {
    let log = log_of("1.37", 5).await;
    for line in KubeLine::ALL.iter().filter(|line| !NOT_TOLD.contains(line) && line.verbosity <= 5) {
        let found = lines_like(&log, line);
        assert_eq!(!found.is_empty(), is_of(line, "1.37"), "{line:?}: {found:?}\n{log}");
    }
    let added = "\"Entity moved to an internal scheduling queue\" type=\"pod\" entity=\"default/low\" \
                 event=\"UnscheduledPodAdd\" queue=\"Active\"";
    assert!(log.contains(added), "{log}");
}

/// With the gate, lines of warnings and errors go to standard error, and all other lines to standard output. The last
/// lines are written even if a buffer holds them.
#[tokio::test(flavor = "multi_thread")]
async fn informational_lines_go_to_standard_output_with_the_gate() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
    let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig().display());
    // This flag causes a warning.
    let fixed = ["kube-scheduler", &kubeconfig, "--secure-port=0", "--leader-elect=false", "--permit-address-sharing"];
    let split = ["--feature-gates=LoggingAlphaOptions=true", "--log-text-split-stream"];
    let buffered = [&split[..], &["--log-text-info-buffer-size=1Mi", "--log-flush-frequency=100ms"]].concat();
    for (name, flags) in [("one", &[][..]), ("two", &split[..]), ("three", &buffered[..])] {
        let mut scheduler = Process::berth([&fixed[..], flags].concat());
        scheduler.line("\"Starting Kubernetes Scheduler\"").await;
        cluster.create(&pod(name, "1m", "1Mi")).await;
        cluster.node_of(name).await;
        scheduler.terminate();
        let ended = scheduler.ended(DEADLINE).await;
        let stream = if flags.is_empty() { &ended.err } else { &ended.out };
        assert!(ended.err.contains("--permit-address-sharing has no effect"), "{flags:?}: {}", ended.err);
        for line in ["\"Starting Kubernetes Scheduler\"", "\"all bindings finished\""] {
            assert!(stream.contains(line), "{flags:?}: {line} is missing from\n{stream}");
        }
        let others = |text: &str| text.lines().any(|line| !line.starts_with('I'));
        assert!(!others(&ended.out), "{flags:?}: {}", ended.out);
        assert!(flags.is_empty() || ended.err.lines().all(|line| !line.starts_with('I')), "{flags:?}: {}", ended.err);
    }
}
