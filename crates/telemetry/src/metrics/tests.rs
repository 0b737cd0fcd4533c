//! The metrics compared with those of kube-scheduler.

use super::*;

/// As a kube-scheduler 1.36.2 that placed, rejected and preempted pods shows them.
const KUBE_SCHEDULER: &str = include_str!("kube_scheduler_1.36.txt");

#[test]
fn names_types_labels_and_buckets_are_those_of_kube_scheduler() {
    let (_, add) = Metrics::register();
    let ours = add.registered.iter().filter(|it| !it.stability.is_empty());
    let mut ours: Vec<String> =
        ours.map(|it| format!("{} {} {} {} {}", it.name, it.kind, it.stability, it.labels, it.buckets)).collect();
    ours.sort_unstable();
    let theirs: Vec<&str> = KUBE_SCHEDULER.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(ours, theirs);
}

#[test]
fn the_text_is_prometheus_text() {
    let metrics = Metrics::default();
    metrics.set_leader("berth", true);
    let text = metrics.render();
    for line in [
        "# TYPE scheduler_preemption_attempts_total counter",
        "scheduler_preemption_attempts_total 0",
        "# TYPE scheduler_preemption_victims histogram",
        "scheduler_preemption_victims_bucket{le=\"64\"} 0",
        "leader_election_master_status{name=\"berth\"} 1",
        "# TYPE process_cpu_seconds_total counter",
    ] {
        assert!(text.lines().any(|it| it == line), "{line} is missing from\n{text}");
    }
    assert!(text.contains("# HELP scheduler_preemption_victims [STABLE] "), "{text}");
    for name in ["process_resident_memory_bytes", "process_open_fds", "process_max_fds", "process_start_time_seconds"] {
        assert!(text.contains(&format!("\n{name} ")), "{name} is missing from\n{text}");
    }
    assert!(text.contains("kubernetes_build_info{"), "{text}");
}

#[test]
fn a_gate_that_is_on_is_shown_as_on() {
    let metrics = Metrics::default();
    let line =
        |value: u8| format!("kubernetes_feature_enabled{{name=\"SchedulerAsyncAPICalls\",stage=\"BETA\"}} {value}");
    let shows = |value| metrics.render().lines().any(|it| it == line(value));
    assert!(shows(0), "{}", metrics.render());
    drop(metrics.count_api_calls());
    assert!(shows(1) && !shows(0), "{}", metrics.render());
}
