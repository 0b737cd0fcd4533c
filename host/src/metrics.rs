//! What `/metrics` shows: kube-scheduler's names where it has them, `berth_plugin_*` for what it has not.
//!
//! The scheduling thread writes counters as things happen and gauges once a second; the endpoint only renders.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use berth_framework::{Permission, PluginVersion};
use berth_scheduler::BatchMetrics;
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{
        counter::Counter,
        family::{Family, MetricConstructor},
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Attempt {
    result: String,
    profile: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Queue {
    queue: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Incoming {
    queue: String,
    event: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Lease {
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CacheEntry {
    r#type: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginInfo {
    profile: String,
    plugin: String,
    version: String,
    digest: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginFault {
    plugin: String,
    kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginName {
    plugin: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginCounter {
    plugin: String,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginEffect {
    plugin: String,
    effect: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginSwap {
    plugin: String,
    result: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BatchFlush {
    profile: String,
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Attempts {
    attempts: String,
}

/// What came of requests to the API server, with client-go's labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClientRequest {
    /// `<error>` without an answer.
    code: String,
    method: String,
    host: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClientLatency {
    verb: String,
    host: String,
}

/// The buckets of client-go's histogram of requests (`component-base/metrics/prometheus/restclient`).
#[derive(Clone, Copy, Debug)]
struct ClientBuckets;

impl MetricConstructor<Histogram> for ClientBuckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new([0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0])
    }
}

/// Seconds from 10 ms on, as kube-scheduler's histogram of whole schedulings has them.
#[derive(Clone, Copy, Debug)]
struct SliBuckets;

impl MetricConstructor<Histogram> for SliBuckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(exponential_buckets(0.01, 2.0, 20))
    }
}

/// All metrics of the process.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    attempts: Family<Attempt, Counter>,
    batch_attempts: Family<Attempt, Counter>,
    batch_flushes: Family<BatchFlush, Counter>,
    sli_duration: Family<Attempts, Histogram, SliBuckets>,
    algorithm_duration: Histogram,
    cycle_duration: Histogram,
    swap_pause: Histogram,
    pending: Family<Queue, Gauge>,
    incoming: Family<Incoming, Counter>,
    cache: Family<CacheEntry, Gauge>,
    plugin_info: Family<PluginInfo, Gauge>,
    plugin_faults: Family<PluginFault, Counter>,
    plugin_swaps: Family<PluginSwap, Counter>,
    plugin_effects_refused: Family<PluginEffect, Counter>,
    plugin_quarantines: Family<PluginName, Counter>,
    plugin_dropped_log_lines: Family<PluginName, Counter>,
    plugin_custom: Family<PluginCounter, Counter>,
    events_dropped: Counter,
    leader: Family<Lease, Gauge>,
    client_requests: Family<ClientRequest, Counter>,
    client_latency: Family<ClientLatency, Histogram, ClientBuckets>,
    /// By profile and plugin: the one before goes when the next one comes.
    serving: Mutex<BTreeMap<(String, String), PluginInfo>>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            attempts: Family::default(),
            batch_attempts: Family::default(),
            batch_flushes: Family::default(),
            sli_duration: Family::new_with_constructor(SliBuckets),
            algorithm_duration: Histogram::new(exponential_buckets(0.001, 2.0, 15)),
            cycle_duration: fine_histogram(),
            swap_pause: fine_histogram(),
            pending: Family::default(),
            incoming: Family::default(),
            cache: Family::default(),
            plugin_info: Family::default(),
            plugin_faults: Family::default(),
            plugin_swaps: Family::default(),
            plugin_effects_refused: Family::default(),
            plugin_quarantines: Family::default(),
            plugin_dropped_log_lines: Family::default(),
            plugin_custom: Family::default(),
            events_dropped: Counter::default(),
            leader: Family::default(),
            client_requests: Family::default(),
            client_latency: Family::new_with_constructor(ClientBuckets),
            serving: Mutex::default(),
        };
        metrics.register();
        metrics.register_client();
        let about_leader = "1 for the replica that holds the lease, 0 for one that stands by";
        metrics.registry.register("leader_election_master_status", about_leader, metrics.leader.clone());
        metrics
    }

    fn register(&mut self) {
        let scheduler = self.registry.sub_registry_with_prefix("scheduler");
        scheduler.register("schedule_attempts", "Attempts to schedule pods, by result", self.attempts.clone());
        scheduler.register(
            "batch_attempts",
            "Placed pods that may share answers with others, by what became of the hint of the pod before",
            self.batch_attempts.clone(),
        );
        scheduler.register(
            "batch_cache_flushed",
            "Rankings of nodes that the next pod could not use, by reason",
            self.batch_flushes.clone(),
        );
        scheduler.register(
            "pod_scheduling_sli_duration_seconds",
            "From a pod's first entry into activeQ until it is bound",
            self.sli_duration.clone(),
        );
        scheduler.register(
            "scheduling_algorithm_duration_seconds",
            "Scheduling algorithm latency",
            self.algorithm_duration.clone(),
        );
        scheduler.register("pending_pods", "Pending pods, by queue", self.pending.clone());
        scheduler.register("queue_incoming_pods", "Pods added to queues, by event and queue", self.incoming.clone());
        scheduler.register("cache_size", "Nodes, pods and assumed pods in the cache", self.cache.clone());
        let berth = self.registry.sub_registry_with_prefix("berth");
        berth.register("plugin_info", "The binary that answers for a plugin", self.plugin_info.clone());
        berth.register("plugin_faults", "Traps, time-outs and wrong answers of plugins", self.plugin_faults.clone());
        berth.register(
            "scheduling_cycle_duration_seconds",
            "A scheduling cycle, with what swaps of plugins held it up, in fine buckets",
            self.cycle_duration.clone(),
        );
        berth.register(
            "plugin_swap_pause_seconds",
            "How long a step of a plugin's swap kept the scheduling thread from cycles",
            self.swap_pause.clone(),
        );
        berth.register("plugin_swaps", "Changes of plugin binaries, by result", self.plugin_swaps.clone());
        berth.register(
            "plugin_quarantines",
            "How often plugins were taken out of service because they kept failing",
            self.plugin_quarantines.clone(),
        );
        berth.register(
            "plugin_dropped_log_lines",
            "Log lines of plugins beyond their rate",
            self.plugin_dropped_log_lines.clone(),
        );
        berth.register(
            "plugin_effects_refused",
            "Effects that plugins asked for and were not granted",
            self.plugin_effects_refused.clone(),
        );
        berth.register("plugin_custom", "What plugins count themselves", self.plugin_custom.clone());
        berth.register(
            "events_dropped",
            "Events lost because the API server was too slow",
            self.events_dropped.clone(),
        );
    }

    fn register_client(&mut self) {
        let client = self.registry.sub_registry_with_prefix("rest_client");
        client.register(
            "requests",
            "Requests to the API server, by code, method and host",
            self.client_requests.clone(),
        );
        client.register(
            "request_duration_seconds",
            "From a request to the API server to the beginning of its answer, by verb and host",
            self.client_latency.clone(),
        );
    }

    /// The registry in OpenMetrics' text format.
    pub(crate) fn render(&self) -> String {
        let _serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut text, &self.registry);
        text
    }

    /// Totals count from the start of the process.
    pub(crate) fn set_batching(&self, batching: &BatchMetrics) {
        for ((profile, result), total) in &batching.attempts {
            let labels = Attempt { result: (*result).to_owned(), profile: profile.clone() };
            let counter = self.batch_attempts.get_or_create(&labels);
            counter.inc_by(total.saturating_sub(counter.get()));
        }
        for ((profile, reason), total) in &batching.flushes {
            let labels = BatchFlush { profile: profile.clone(), reason: (*reason).to_owned() };
            let counter = self.batch_flushes.get_or_create(&labels);
            counter.inc_by(total.saturating_sub(counter.get()));
        }
    }

    /// `total` counts from the start of the process.
    pub(crate) fn set_attempts(&self, profile: &str, result: &str, total: u64) {
        let labels = Attempt { result: result.to_owned(), profile: profile.to_owned() };
        let counter = self.attempts.get_or_create(&labels);
        counter.inc_by(total.saturating_sub(counter.get()));
    }

    /// A pod was bound, so long after it first entered activeQ.
    pub(crate) fn scheduled(&self, attempts: u32, duration: Duration) {
        let attempts = if attempts < 15 { attempts.to_string() } else { "15+".to_owned() };
        self.sli_duration.get_or_create(&Attempts { attempts }).observe(duration.as_secs_f64());
    }

    /// A cycle took so long, after a swap of plugins had held it up for so long.
    pub(crate) fn algorithm(&self, duration: Duration, pause: Duration) {
        self.algorithm_duration.observe(duration.as_secs_f64());
        self.cycle_duration.observe((pause + duration).as_secs_f64());
    }

    /// The scheduling thread was busy with a swap for so long.
    pub(crate) fn swap_pause(&self, duration: Duration) {
        self.swap_pause.observe(duration.as_secs_f64());
    }

    pub(crate) fn set_pending(&self, queue: &str, pods: usize) {
        self.pending.get_or_create(&Queue { queue: queue.to_owned() }).set(to_gauge(pods));
    }

    /// `total` counts from the start of the process.
    pub(crate) fn set_incoming(&self, queue: &str, event: &str, total: u64) {
        let labels = Incoming { queue: queue.to_owned(), event: event.to_owned() };
        let counter = self.incoming.get_or_create(&labels);
        counter.inc_by(total.saturating_sub(counter.get()));
    }

    /// Whether this replica holds the lease.
    pub(crate) fn set_leader(&self, lease: &str, is_leading: bool) {
        self.leader.get_or_create(&Lease { name: lease.to_owned() }).set(is_leading.into());
    }

    pub(crate) fn set_cache_size(&self, entry: &str, size: usize) {
        self.cache.get_or_create(&CacheEntry { r#type: entry.to_owned() }).set(to_gauge(size));
    }

    /// From here on, `version` answers under its name in `profile`.
    pub(crate) fn set_plugin(&self, profile: &str, version: PluginVersion) {
        let PluginVersion { name: plugin, version, binary } = version;
        let digest = binary.map_or_else(String::new, |binary| binary.to_string());
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (profile.to_owned(), plugin.clone());
        let info = PluginInfo { profile: profile.to_owned(), plugin, version, digest };
        if let Some(old) = serving.insert(key, info.clone()) {
            self.plugin_info.remove(&old);
        }
        self.plugin_info.get_or_create(&info).set(1);
    }

    /// From here on, nothing answers for the plugin in `profile`.
    pub(crate) fn remove_plugin(&self, profile: &str, plugin: &str) {
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = serving.remove(&(profile.to_owned(), plugin.to_owned())) {
            self.plugin_info.remove(&old);
        }
    }

    pub(crate) fn quarantined(&self, plugin: &str) {
        self.plugin_quarantines.get_or_create(&PluginName { plugin: plugin.to_owned() }).inc();
    }

    /// `total` counts from the start of the process.
    pub(crate) fn set_dropped_log_lines(&self, plugin: &str, total: u64) {
        let counter = self.plugin_dropped_log_lines.get_or_create(&PluginName { plugin: plugin.to_owned() });
        counter.inc_by(total.saturating_sub(counter.get()));
    }

    /// `total` counts from the start of the process.
    pub(crate) fn set_faults(&self, plugin: &str, kind: &str, total: u64) {
        let labels = PluginFault { plugin: plugin.to_owned(), kind: kind.to_owned() };
        let counter = self.plugin_faults.get_or_create(&labels);
        counter.inc_by(total.saturating_sub(counter.get()));
    }

    pub(crate) fn swap(&self, plugin: &str, result: &str) {
        self.plugin_swaps.get_or_create(&PluginSwap { plugin: plugin.to_owned(), result: result.to_owned() }).inc();
    }

    pub(crate) fn effect_refused(&self, plugin: &str, effect: &str) {
        let labels = PluginEffect { plugin: plugin.to_owned(), effect: effect.to_owned() };
        self.plugin_effects_refused.get_or_create(&labels).inc();
    }

    /// `total` counts from the start of the process.
    pub(crate) fn set_custom(&self, plugin: &str, name: &str, total: u64) {
        let labels = PluginCounter { plugin: plugin.to_owned(), name: name.to_owned() };
        let counter = self.plugin_custom.get_or_create(&labels);
        counter.inc_by(total.saturating_sub(counter.get()));
    }

    /// By kind of effect, how often it was refused to the plugin.
    pub(crate) fn effects_refused(&self, plugin: &str) -> BTreeMap<String, u64> {
        let labels = |effect: &str| PluginEffect { plugin: plugin.to_owned(), effect: effect.to_owned() };
        let count = |effect: &str| self.plugin_effects_refused.get(&labels(effect)).map(|counter| counter.get());
        let effects = Permission::ALL.into_iter().map(Permission::as_str);
        effects.filter_map(|effect| Some((effect.to_owned(), count(effect)?))).collect()
    }

    /// A request to the API server at `host` was answered, or not.
    pub(crate) fn client_request(&self, host: &str, method: &str, code: Option<u16>, duration: Duration) {
        let (host, method) = (host.to_owned(), method.to_owned());
        let latency = ClientLatency { verb: method.clone(), host: host.clone() };
        self.client_latency.get_or_create(&latency).observe(duration.as_secs_f64());
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.client_requests.get_or_create(&ClientRequest { code, method, host }).inc();
    }

    pub(crate) fn set_events_dropped(&self, total: u64) {
        self.events_dropped.inc_by(total.saturating_sub(self.events_dropped.get()));
    }
}

/// From 5 µs to 9 s in steps of an eighth: fine enough to say whether one cycle took twice as long as another.
fn fine_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.000_005, 1.125, 123))
}

fn to_gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
