//! The metrics of kube-scheduler, under its names (`pkg/scheduler/metrics/metrics.go`). `releases` contains the changes
//! of a release.

mod figures;

use std::time::Duration;

use berth_framework::{Measured, Point, Profile};
use berth_model::Symbols;
use berth_scheduler::{Metrics as Counted, Observation};
use prometheus::{HistogramVec, IntCounterVec, IntGaugeVec, exponential_buckets};

use super::{
    binding_conditions::BindingConditionMetrics,
    raise,
    registration::{
        Registration,
        Stability::{Alpha, Beta, Stable},
    },
    to_gauge,
};

pub use self::figures::{Distribution, Figures, PluginTimings, Timing};

/// The points at which calls of plugins are counted.
const COUNTED: [Point; 4] = [Point::PreFilter, Point::Filter, Point::PreScore, Point::Score];

/// The plugin with PostFilter calls that count as preemption attempts.
const PREEMPTING: &str = "DefaultPreemption";

/// The type of entities that the queue holds.
const POD: &str = "pod";

/// The plugin whose waits for objects count as waits for devices.
const ALLOCATES_DEVICES: &str = "DynamicResources";

/// The metrics. Only the scheduling thread writes them.
#[derive(Debug)]
pub struct SchedulerMetrics {
    attempts: IntCounterVec,
    attempt_duration: HistogramVec,
    algorithm_duration: HistogramVec,
    event_handling_duration: HistogramVec,
    preemption_victims: HistogramVec,
    preemption_attempts: IntCounterVec,
    evictions_duration: HistogramVec,
    evictions: IntCounterVec,
    pending_pods: IntGaugeVec,
    in_flight_events: IntGaugeVec,
    incoming_pods: IntCounterVec,
    queued_entities: IntGaugeVec,
    incoming_entities: IntCounterVec,
    hint_duration: HistogramVec,
    unschedulable_pods: IntGaugeVec,
    sli_duration: HistogramVec,
    pod_attempts: HistogramVec,
    scheduled_after_flush: IntCounterVec,
    point_duration: HistogramVec,
    plugin_duration: HistogramVec,
    plugin_calls: IntCounterVec,
    goroutines: IntGaugeVec,
    permit_wait: HistogramVec,
    cache_size: IntGaugeVec,
    batch_attempts: IntCounterVec,
    batch_flushes: IntCounterVec,
    node_hint_duration: HistogramVec,
    store_results_duration: HistogramVec,
    binding_conditions: BindingConditionMetrics,
}

impl SchedulerMetrics {
    #[expect(clippy::too_many_lines, reason = "a table with one entry for each metric")]
    pub(super) fn new(add: &mut Registration) -> Self {
        Self {
            attempts: add.counter(
                Stable,
                "scheduler_schedule_attempts_total", "Attempts to schedule a pod, by how they ended.",
                &["result", "profile"],
            ),
            attempt_duration: add.histogram(
                Stable,
                "scheduler_scheduling_attempt_duration_seconds", "How long an attempt took, from the start of the cycle to the binding.",
                &["result", "profile"],
                doubling(0.001, 15),
            ),
            algorithm_duration: add.histogram(
                Alpha,
                "scheduler_scheduling_algorithm_duration_seconds", "Duration of the search for a node, including PostFilter.",
                &[],
                doubling(0.001, 15),
            ),
            event_handling_duration: add.histogram(
                Alpha,
                "scheduler_event_handling_duration_seconds", "How long it took to handle an event about an object.",
                &["event"],
                doubling(0.0001, 12),
            ),
            preemption_victims: add.histogram(
                Stable,
                "scheduler_preemption_victims", "Pods evicted by a preemption.",
                &[],
                doubling(1.0, 7),
            ),
            preemption_attempts: add.counter(
                Stable,
                "scheduler_preemption_attempts_total", "Calls of DefaultPreemption's PostFilter.",
                &[],
            ),
            evictions_duration: add.histogram(
                Alpha,
                "scheduler_preemption_goroutines_duration_seconds", "How long it took to evict the victims of a preemption.",
                &["result"],
                doubling(0.01, 20),
            ),
            evictions: add.counter(
                Alpha,
                "scheduler_preemption_goroutines_execution_total", "Preemptions whose victims were evicted, by result of the evictions.",
                &["result"],
            ),
            pending_pods: add.gauge(
                Stable,
                "scheduler_pending_pods", "Pending pods, by queue: active, backoff, unschedulable or gated.",
                &["queue"],
            ),
            in_flight_events: add.gauge(
                Alpha,
                "scheduler_inflight_events", "Events kept for the attempts in progress, and (PodPopped) these attempts.",
                &["event"],
            ),
            incoming_pods: add.counter(
                Stable,
                "scheduler_queue_incoming_pods_total", "Pods that entered a queue, by queue and event.",
                &["queue", "event"],
            ),
            queued_entities: add.gauge(
                Alpha,
                "scheduler_queued_entities", "Entities that wait for a node, by queue and type. Berth queues only pods.",
                &["queue", "type"],
            ),
            incoming_entities: add.counter(
                Alpha,
                "scheduler_queue_incoming_entities_total", "Entities that entered a queue, by queue, event and type. Berth queues only pods.",
                &["queue", "event", "type"],
            ),
            hint_duration: add.histogram(
                Alpha,
                "scheduler_queueing_hint_execution_duration_seconds", "How long a plugin took to decide whether to try a pod again.",
                &["plugin", "event", "hint"],
                fine(),
            ),
            unschedulable_pods: add.gauge(
                Beta,
                "scheduler_unschedulable_pods", "Waiting pods, counted for each plugin that rejected them.",
                &["plugin", "profile"],
            ),
            sli_duration: add.histogram(
                Beta,
                "scheduler_pod_scheduling_sli_duration_seconds", "Time from a pod's first entry into activeQ until it is bound.",
                &["attempts"],
                doubling(0.01, 20),
            ),
            pod_attempts: add.histogram(
                Stable,
                "scheduler_pod_scheduling_attempts", "Number of attempts until a pod was bound.",
                &[],
                doubling(1.0, 5),
            ),
            scheduled_after_flush: add.counter(
                Alpha,
                "scheduler_pod_scheduled_after_flush_total", "Pods bound after they were tried again for waiting too long: a queueing hint may have missed an event.",
                &[],
            ),
            point_duration: add.histogram(
                Stable,
                "scheduler_framework_extension_point_duration_seconds", "How long all plugins of an extension point took together.",
                &["extension_point", "status", "profile"],
                doubling(0.0001, 12),
            ),
            plugin_duration: add.histogram(
                Alpha,
                "scheduler_plugin_execution_duration_seconds", "How long one plugin took at one extension point, measured in a tenth of attempts.",
                &["plugin", "extension_point", "status"],
                fine(),
            ),
            plugin_calls: add.counter(
                Beta,
                "scheduler_plugin_evaluation_total", "How often a plugin was asked: PreFilter, Filter, PreScore, Score.",
                &["plugin", "extension_point", "profile"],
            ),
            goroutines: add.gauge(
                Beta,
                "scheduler_goroutines", "Work in progress: bindings, from Reserve to PostBind.",
                &["operation"],
            ),
            permit_wait: add.histogram(
                Beta,
                "scheduler_permit_wait_duration_seconds", "How long pods waited on Permit.",
                &["result"],
                doubling(0.001, 15),
            ),
            cache_size: add.gauge(
                Alpha,
                "scheduler_cache_size", "Nodes, pods and assumed pods in the cache.",
                &["type"],
            ),
            batch_attempts: add.counter(
                Alpha,
                "scheduler_batch_attempts_total", "Placed pods, by whether the node hint was used.",
                &["profile", "result"],
            ),
            batch_flushes: add.counter(
                Alpha,
                "scheduler_batch_cache_flushed_total", "Rankings of nodes that the next pod could not use.",
                &["profile", "reason"],
            ),
            node_hint_duration: add.histogram(
                Alpha,
                "scheduler_get_node_hint_duration_seconds", "How long it took to sign a pod and look up its node hint.",
                &["hinted", "profile"],
                doubling(0.00001, 12),
            ),
            store_results_duration: add.histogram(
                Alpha,
                "scheduler_store_schedule_results_duration_seconds", "How long it took to store the ranking of nodes for the next pod.",
                &["profile"],
                doubling(0.00001, 12),
            ),
            binding_conditions: BindingConditionMetrics::new(add),
        }
    }

    /// Sets the scheduler's counters, which count from the start of the process, and its gauges.
    pub fn set(&self, figures: &Counted, symbols: &Symbols) {
        for ((profile, result), total) in &figures.attempts {
            raise(&self.attempts, &[result.as_str(), profile], *total);
        }
        for ((profile, result), total) in &figures.batching.attempts {
            raise(&self.batch_attempts, &[profile, *result], *total);
        }
        for ((profile, reason), total) in &figures.batching.flushes {
            raise(&self.batch_flushes, &[profile, *reason], *total);
        }
        let pending = figures.pending_pods;
        for (queue, pods) in [
            ("active", pending.active),
            ("backoff", pending.backoff),
            ("unschedulable", pending.unschedulable),
            ("gated", pending.gated),
        ] {
            self.pending_pods.with_label_values(&[queue]).set(to_gauge(pods));
            self.queued_entities.with_label_values(&[queue, POD]).set(to_gauge(pods));
        }
        for ((queue, event), total) in &figures.queue.incoming {
            raise(&self.incoming_pods, &[queue.as_str(), event], *total);
            raise(&self.incoming_entities, &[queue.as_str(), event, POD], *total);
        }
        for ((plugin, scheduler_name), pods) in &figures.queue.unschedulable {
            self.unschedulable_pods.with_label_values(&[plugin, symbols.text(*scheduler_name)]).set(*pods);
        }
        self.in_flight_events.reset();
        for (event, n) in &figures.queue.in_flight_events {
            self.in_flight_events.with_label_values(&[event]).set(to_gauge(*n));
        }
        self.in_flight_events.with_label_values(&["PodPopped"]).set(to_gauge(figures.queue.in_flight_pods));
        self.goroutines.with_label_values(&["binding"]).set(to_gauge(figures.bindings));
        let cache = figures.cache;
        for (entry, size) in [("nodes", cache.nodes), ("pods", cache.pods), ("assumed_pods", cache.assumed_pods)] {
            self.cache_size.with_label_values(&[entry]).set(to_gauge(size));
        }
    }

    /// Records one measurement of the scheduler. `symbols` are the symbols of the measurement.
    pub fn observe(&self, observation: &Observation, symbols: &Symbols) {
        match observation {
            Observation::Scheduled { attempts, milliseconds, after_flush } => {
                let label = if *attempts < 15 { attempts.to_string() } else { "15+".to_owned() };
                let seconds = Duration::from_millis(*milliseconds).as_secs_f64();
                self.sli_duration.with_label_values(&[label]).observe(seconds);
                bare(&self.pod_attempts, f64::from(*attempts));
                if *after_flush {
                    self.scheduled_after_flush.with_label_values::<&str>(&[]).inc();
                }
            }
            Observation::Attempt { scheduler_name, result, duration } => {
                observe(&self.attempt_duration, &[result.as_str(), symbols.text(*scheduler_name)], *duration);
            }
            Observation::Algorithm { duration } => bare(&self.algorithm_duration, duration.as_secs_f64()),
            Observation::NodeHint { scheduler_name, hinted, duration } => {
                let hinted = if *hinted { "hint" } else { "no_hint" };
                observe(&self.node_hint_duration, &[hinted, symbols.text(*scheduler_name)], *duration);
            }
            Observation::ResultsStored { scheduler_name, duration } => {
                observe(&self.store_results_duration, &[symbols.text(*scheduler_name)], *duration);
            }
            Observation::EventHandled { event, duration } => {
                observe(&self.event_handling_duration, &[event], *duration);
            }
            Observation::QueueingHint { plugin, event, answer, duration } => {
                observe(&self.hint_duration, &[plugin, event, answer.as_str()], *duration);
            }
            Observation::Evictions { succeeded, duration } => {
                let result = if *succeeded { "success" } else { "error" };
                observe(&self.evictions_duration, &[result], *duration);
                self.evictions.with_label_values(&[result]).inc();
            }
            Observation::PermitWait { result, milliseconds } => {
                observe(&self.permit_wait, &[result], Duration::from_millis(*milliseconds));
            }
            Observation::ObjectWait { scheduler_name, plugin, objects, result, milliseconds } => {
                if &**plugin == ALLOCATES_DEVICES {
                    let seconds = Duration::from_millis(*milliseconds).as_secs_f64();
                    self.binding_conditions.waited(symbols.text(*scheduler_name), objects, *result, seconds);
                }
            }
            Observation::Preemption { victims } => {
                let victims = u32::try_from(*victims).unwrap_or(u32::MAX);
                bare(&self.preemption_victims, f64::from(victims));
            }
        }
    }

    /// Records the time that a profile's plugins took since the last call.
    pub fn measured(&self, profile: &Profile, measured: &Measured) {
        let scheduler_name = profile.scheduler_name.as_str();
        for time in &measured.points {
            observe(&self.point_duration, &[time.point, time.code.as_str(), scheduler_name], time.duration);
        }
        for time in &measured.plugins {
            observe(&self.plugin_duration, &[profile.name(time.plugin), time.point, time.code.as_str()], time.duration);
        }
        for point in COUNTED {
            for &plugin in profile.plugins.at(point) {
                let calls = measured.calls(point, plugin);
                if calls > 0 {
                    let labels: [&str; 3] = [profile.name(plugin), point.as_str(), scheduler_name];
                    self.plugin_calls.with_label_values(&labels).inc_by(calls);
                }
            }
        }
        let preempting = profile.find(PREEMPTING).map_or(0, |plugin| measured.calls(Point::PostFilter, plugin));
        self.preemption_attempts.with_label_values::<&str>(&[]).inc_by(preempting);
    }
}

fn observe(histogram: &HistogramVec, labels: &[&str], duration: Duration) {
    histogram.with_label_values(labels).observe(duration.as_secs_f64());
}

fn bare(histogram: &HistogramVec, value: f64) {
    histogram.with_label_values::<&str>(&[]).observe(value);
}

/// The buckets for calls of single plugins.
fn fine() -> Vec<f64> {
    buckets(0.00001, 1.5, 20)
}

fn doubling(start: f64, n: usize) -> Vec<f64> {
    buckets(start, 2.0, n)
}

pub(super) fn buckets(start: f64, factor: f64, n: usize) -> Vec<f64> {
    #[expect(clippy::expect_used, reason = "the arguments are constants in range")]
    exponential_buckets(start, factor, n).expect("start > 0, factor > 1, n > 0")
}
