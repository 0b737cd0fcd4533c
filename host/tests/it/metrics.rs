//! The scheduler's metrics count its actions: one scenario changes each metric.

use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};

use crate::cluster::{Cluster, Scheduler, pod};

/// The beginning of the lines about plugins that were timed.
const TIMED: &str = "scheduler_plugin_execution_duration_seconds_count{";

/// The beginnings of the lines that are above zero at the end of the scenario.
const MOVED: [&str; 39] = [
    "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"scheduled\"}",
    "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"unschedulable\"}",
    "scheduler_scheduling_attempt_duration_seconds_count{",
    "scheduler_scheduling_algorithm_duration_seconds_count",
    "scheduler_pod_scheduling_sli_duration_seconds_count{",
    "scheduler_pod_scheduling_attempts_count",
    "scheduler_pending_pods{queue=\"gated\"}",
    "scheduler_pending_pods{queue=\"unschedulable\"}",
    "scheduler_unschedulable_pods{plugin=\"NodeResourcesFit\"",
    "scheduler_unschedulable_pods{plugin=\"SchedulingGates\"",
    "scheduler_queue_incoming_pods_total{event=\"UnschedulablePodAdd\",queue=\"active\"}",
    "scheduler_queue_incoming_pods_total{event=\"ScheduleAttemptFailure\",queue=\"unschedulable\"}",
    "scheduler_event_handling_duration_seconds_count{",
    "scheduler_queueing_hint_execution_duration_seconds_count{",
    "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"Filter\"",
    "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"Bind\"",
    "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"PostFilter\"",
    "scheduler_plugin_evaluation_total{",
    TIMED,
    "scheduler_preemption_attempts_total",
    "scheduler_preemption_victims_count",
    "scheduler_preemption_goroutines_duration_seconds_count{result=\"success\"}",
    "scheduler_preemption_goroutines_execution_total{result=\"success\"}",
    "scheduler_cache_size{type=\"nodes\"}",
    "scheduler_cache_size{type=\"pods\"}",
    "scheduler_get_node_hint_duration_seconds_count{",
    "scheduler_store_schedule_results_duration_seconds_count{",
    "leader_election_master_status{",
    "rest_client_requests_total{code=\"201\"",
    "rest_client_request_duration_seconds_count{",
    "rest_client_request_size_bytes_count{",
    "rest_client_response_size_bytes_count{",
    "rest_client_rate_limiter_duration_seconds_count{",
    "registered_metrics_total{",
    "version_info{",
    "berth_async_tasks",
    "kubernetes_build_info{",
    "kubernetes_feature_enabled{",
    "berth_scheduling_cycle_duration_seconds_count",
];

fn with(mut pod: Value, field: &str, value: Value) -> Value {
    pod["spec"][field] = value;
    pod
}

/// The entries of `MOVED` without a line in `text` that begins with the entry and has a value above zero.
fn unmoved(text: &str) -> Vec<&'static str> {
    let is_above_zero = |line: &&str| {
        let value = line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
        value.is_some_and(|value| value > 0.0)
    };
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).filter(is_above_zero).collect();
    MOVED.into_iter().filter(|moved| !lines.iter().any(|line| line.starts_with(moved))).collect()
}

async fn all_moved(scheduler: &Scheduler) {
    let text = scheduler.until("/metrics", |text| unmoved(text).is_empty()).await;
    // Such metrics have no line before their first event.
    for absent in ["scheduler_resourceclaim_creates_total{", "scheduler_volume_scheduling_stage_error_total{"] {
        assert!(!text.contains(absent), "nothing has happened that {absent} counts");
    }
}

/// Binds pods until the plugins of an attempt were timed. The scheduler chooses one attempt in ten by chance.
async fn time_plugins(cluster: &Cluster, scheduler: &Scheduler) {
    const PODS: usize = 40;
    // That many attempts without a timed one are no chance.
    for round in 0..10 {
        let names: Vec<String> = (0..PODS).map(|index| format!("small-{round}-{index}")).collect();
        cluster.create_all(names.iter().map(|name| pod(name, "10m", "1Mi"))).await;
        cluster.all_bound(PODS).await;
        if !unmoved(&scheduler.until("/metrics", |_| true).await).contains(&TIMED) {
            return;
        }
        for name in &names {
            cluster.pods.delete(name, &DeleteParams::default().grace_period(0)).await.expect("the sandbox deletes it");
        }
        cluster.until("no small pods", |seen| names.iter().all(|name| seen.deleted.contains(name))).await;
    }
    panic!("the plugins of no attempt were timed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_story_moves_each_metric() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "1"]).await;
    let classes: Api<PriorityClass> = Api::all(cluster.pods.clone().into_client());
    let class = json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "PreemptLowerPriority"});
    let class = serde_json::from_value(class).expect("a class");
    classes.create(&PostParams::default(), &class).await.expect("the sandbox takes it");
    let scheduler = cluster.run(&["--scheduler-name", "default-scheduler"]).await;
    time_plugins(&cluster, &scheduler).await;
    cluster.create(&with(pod("gated", "1", "1Gi"), "schedulingGates", json!([{"name": "example.com/wait"}]))).await;
    cluster.create(&pod("big", "100", "1Gi")).await;
    cluster.until("big told", |seen| seen.messages.contains_key("big")).await;
    cluster.create(&with(pod("low", "12", "1Gi"), "terminationGracePeriodSeconds", json!(0))).await;
    cluster.node_of("low").await;
    cluster.create(&with(pod("high", "12", "1Gi"), "priorityClassName", json!("high"))).await;
    cluster.node_of("high").await;
    all_moved(&scheduler).await;
}
