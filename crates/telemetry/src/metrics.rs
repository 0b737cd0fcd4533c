//! The content of `/metrics`: kube-scheduler's names where it has them, `berth_*` for other metrics, and the process.
//!
//! The scheduling thread writes its figures between cycles. The endpoint only renders them.

mod access;
mod allowed_labels;
mod api_calls;
mod binding_conditions;
mod informers;
mod meta;
mod process;
mod process_usage;
mod registration;
mod releases;
mod reset;
mod rest_client;
mod scheduler;
mod series;
mod slis;
#[cfg(test)]
mod tests;
mod traces;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use berth_framework::{PluginVersion, Profile, TimeReport};
use prometheus::{CounterVec, HistogramVec, IntCounterVec, IntGaugeVec, Registry, TextEncoder, proto::MetricFamily};

pub use self::{
    access::{AccessMetrics, Authorization, TokenFetch},
    allowed_labels::{AllowedLabels, InvalidKey},
    api_calls::{ApiCall, ApiCallMetrics, PendingCall},
    informers::InformerMetrics,
    rest_client::RestClientMetrics,
    scheduler::{Distribution, Figures, PluginTimings, SchedulerMetrics, Timing},
    traces::{LostSpans, TraceMetrics},
};
use self::{
    informers::InformersMetrics,
    meta::MetaMetrics,
    process::ProcessMetrics,
    registration::{
        Registration,
        Stability::{self, Alpha},
    },
    reset::Baseline,
    slis::Slis,
};
use crate::log_rate;
use berth_config::feature_gates::Gates;
use berth_model::Release;

/// The maximum number of namespaces with a label of their own. Pods can be created in any number of namespaces.
const NAMESPACES: usize = 100;

/// The label of all other namespaces. No namespace can have this name.
const OTHER_NAMESPACES: &str = "(others)";

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// The metrics of kube-scheduler.
    pub scheduler: SchedulerMetrics,
    pub api_calls: ApiCallMetrics,
    /// The requests to the API server.
    pub rest_client: RestClientMetrics,
    /// The callers of the HTTPS port.
    pub access: AccessMetrics,
    pub traces: TraceMetrics,
    cycle_duration: HistogramVec,
    swap_pause: HistogramVec,
    plugin_info: IntGaugeVec,
    symbols: IntGaugeVec,
    plugin_faults: IntCounterVec,
    plugin_errors: IntCounterVec,
    plugin_swaps: IntCounterVec,
    plugin_effects_refused: IntCounterVec,
    plugin_quarantines: IntCounterVec,
    plugin_dropped_log_lines: IntCounterVec,
    plugin_out_of_time: IntCounterVec,
    plugin_scheduling_thread: CounterVec,
    plugins_share_spent: IntCounterVec,
    namespace_share_spent: IntCounterVec,
    searches_share_spent: IntCounterVec,
    plugin_restarts: IntCounterVec,
    plugin_held_owners: IntGaugeVec,
    plugin_custom: IntCounterVec,
    events_dropped: IntCounterVec,
    status_patches_dropped: IntCounterVec,
    audit_entries_dropped: IntCounterVec,
    log_lines_suppressed: IntCounterVec,
    config_reloads: IntCounterVec,
    credential_renewals: IntCounterVec,
    leader: IntGaugeVec,
    slow_renewals: IntCounterVec,
    claim_creates: IntCounterVec,
    volume_stage_errors: IntCounterVec,
    informers: InformersMetrics,
    /// The results of probes, which have a separate endpoint.
    slis: Slis,
    process: ProcessMetrics,
    meta: MetaMetrics,
    /// The values of counters at the last reset.
    baseline: Mutex<Baseline>,
    /// The release that determines the shown names and stabilities.
    release: Mutex<Release>,
    /// The options of the command line about the metrics that are shown.
    options: Mutex<MetricsOptions>,
    /// The refused effects by plugin and kind. A metric cannot list its labels.
    refused: Mutex<BTreeMap<String, BTreeMap<String, u64>>>,
    /// The namespaces that have separate labels.
    spent_namespaces: Mutex<BTreeSet<Arc<str>>>,
    /// The labels of the serving binaries, by profile and plugin. The previous labels are removed when new labels are
    /// set.
    serving: Mutex<BTreeMap<(String, String), [String; 4]>>,
}

/// The options of the command line about the metrics that are shown.
#[derive(Clone, Debug, Default)]
pub struct MetricsOptions {
    /// `--disabled-metrics`: full names of metrics that are not shown.
    pub disabled: BTreeSet<String>,
    /// `--allow-metric-labels`: the values that labels may have.
    pub allowed_labels: AllowedLabels,
}

impl Default for Metrics {
    /// Registers all metrics.
    fn default() -> Self {
        Self::register().0
    }
}

impl Metrics {
    #[expect(clippy::too_many_lines, reason = "a table with one entry for each metric")]
    fn register() -> (Self, Registration) {
        let mut add = Registration::default();
        let own = Stability::None;
        let metrics = Self {
            scheduler: SchedulerMetrics::new(&mut add),
            api_calls: ApiCallMetrics::new(&mut add),
            rest_client: RestClientMetrics::new(&mut add),
            access: AccessMetrics::new(&mut add),
            traces: TraceMetrics::new(&mut add),
            informers: InformersMetrics::new(&mut add),
            leader: add.gauge(
                Alpha,
                "leader_election_master_status",
                "1 for the replica that holds the lease, 0 for one that stands by.",
                &["name"],
            ),
            slow_renewals: add.counter(
                Alpha,
                "leader_election_slowpath_total",
                "Renewals of the lease that had to read it first, because another client had changed it.",
                &["name"],
            ),
            claim_creates: add.counter(
                Alpha,
                "scheduler_resourceclaim_creates_total",
                "Requests to create ResourceClaims for extended resources, by status.",
                &["status"],
            ),
            volume_stage_errors: add.counter(
                Alpha,
                "scheduler_volume_scheduling_stage_error_total",
                "Volumes of pods that failed, by stage: only `bind` can fail here.",
                &["operation"],
            ),
            cycle_duration: add.histogram(
                own,
                "berth_scheduling_cycle_duration_seconds",
                "Duration of a scheduling cycle, including delays by plugin swaps, in fine buckets.",
                &[],
                fine_buckets(),
            ),
            swap_pause: add.histogram(
                own,
                "berth_plugin_swap_pause_seconds",
                "Time that the scheduling thread spent on one step of a plugin swap.",
                &[],
                fine_buckets(),
            ),
            symbols: add.gauge(own, "berth_symbols", "Interned strings that the scheduler holds.", &[]),
            plugin_info: add.gauge(
                own,
                "berth_plugin_info",
                "The binary that answers for a plugin.",
                &["profile", "plugin", "version", "digest"],
            ),
            plugin_faults: add.counter(
                own,
                "berth_plugin_faults_total",
                "Traps, time-outs and wrong answers of plugins.",
                &["plugin", "kind"],
            ),
            plugin_errors: add.counter(
                own,
                "berth_plugin_errors_total",
                "Calls that plugins answered with an intended error; these are not faults.",
                &["plugin", "extension_point"],
            ),
            plugin_swaps: add.counter(
                own,
                "berth_plugin_swaps_total",
                "Changes of plugin binaries, by result.",
                &["plugin", "result"],
            ),
            plugin_effects_refused: add.counter(
                own,
                "berth_plugin_effects_refused_total",
                "Effects that plugins asked for and were not granted.",
                &["plugin", "effect"],
            ),
            plugin_quarantines: add.counter(
                own,
                "berth_plugin_quarantines_total",
                "How often plugins were taken out of service because they kept failing.",
                &["plugin"],
            ),
            plugin_dropped_log_lines: add.counter(
                own,
                "berth_plugin_dropped_log_lines_total",
                "Log lines of plugins dropped beyond their rate.",
                &["plugin"],
            ),
            plugin_out_of_time: add.counter(
                own,
                "berth_plugin_out_of_time_total",
                "Cycles and questions for which plugins had used up their time on the scheduling thread.",
                &["plugin"],
            ),
            plugin_scheduling_thread: add.float_counter(
                own,
                "berth_plugin_scheduling_thread_seconds_total",
                "Processor time of calls of plugins on the scheduling thread.",
                &["plugin"],
            ),
            plugins_share_spent: add.counter(
                own,
                "berth_plugins_share_spent_total",
                "Reports that all plugins together have used up their time, at most one every ten seconds.",
                &[],
            ),
            namespace_share_spent: add.counter(
                own,
                "berth_namespace_share_spent_total",
                "Reports that a namespace has used up its time, at most one every ten seconds.",
                &["namespace"],
            ),
            searches_share_spent: add.counter(
                own,
                "berth_searches_share_spent_total",
                "Reports that long searches of several namespaces have used up their time, at most one every ten \
                     seconds.",
                &[],
            ),
            plugin_restarts: add.counter(
                own,
                "berth_plugin_restarts_total",
                "How often plugins got a new instance after a fault.",
                &["plugin"],
            ),
            plugin_held_owners: add.gauge(
                own,
                "berth_plugin_held_owners",
                "Owners, such as replica sets, with pods held back because a plugin keeps faulting over them.",
                &["plugin"],
            ),
            plugin_custom: add.counter(
                own,
                "berth_plugin_custom_total",
                "Counters that plugins keep themselves.",
                &["plugin", "name"],
            ),
            events_dropped: add.counter(
                own,
                "berth_events_dropped_total",
                "Events lost because the API server was too slow.",
                &[],
            ),
            status_patches_dropped: add.counter(
                own,
                "berth_status_patches_dropped_total",
                "Updates of pods' status that were given up because too many others waited.",
                &[],
            ),
            audit_entries_dropped: add.counter(
                own,
                "berth_audit_entries_dropped_total",
                "Entries of the audit log lost because the disk was too slow or full.",
                &[],
            ),
            log_lines_suppressed: add.counter(
                own,
                "berth_log_lines_suppressed_total",
                "Log lines that were not written because many like them came at once.",
                &[],
            ),
            config_reloads: add.counter(
                own,
                "berth_config_reloads_total",
                "Attempts to read a changed KubeSchedulerConfiguration or PluginHostConfiguration, by result.",
                &["result"],
            ),
            credential_renewals: add.counter(
                own,
                "berth_credential_renewals_total",
                "Renewals of the API server client after a change of credentials, by result.",
                &["result"],
            ),
            slis: Slis::new(),
            process: ProcessMetrics::new(&mut add),
            meta: MetaMetrics::new(&mut add),
            baseline: Mutex::default(),
            release: Mutex::default(),
            options: Mutex::default(),
            refused: Mutex::default(),
            spent_namespaces: Mutex::default(),
            serving: Mutex::default(),
            registry: add.registry.clone(),
        };
        metrics.meta.set_registered(&add.registered);
        (metrics, add)
    }

    /// The registry in Prometheus' text format 0.0.4. kube-scheduler also answers in this format, whatever the request
    /// asks for.
    pub fn render(&self) -> String {
        let mut gathered = self.gather();
        let baseline = self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        gathered.iter_mut().for_each(|family| baseline.apply(family));
        // The encoder fails at a metric without series.
        gathered.retain(|family| !family.get_metric().is_empty());
        let release = *self.release.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shown = releases::shown_in(release, gathered);
        let options = self.options.lock().unwrap_or_else(PoisonError::into_inner);
        shown.retain(|family| !options.disabled.contains(family.name()));
        shown.iter_mut().for_each(|family| options.allowed_labels.apply(family));
        render(shown)
    }

    fn gather(&self) -> Vec<MetricFamily> {
        raise(&self.log_lines_suppressed, &[], log_rate::n_suppressed());
        self.rest_client.refresh(SystemTime::now());
        self.process.read();
        let _serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        self.registry.gather()
    }

    /// Shows counters and histograms as if they had counted nothing so far. Gauges keep their values.
    pub fn reset(&self) {
        *self.baseline.lock().unwrap_or_else(PoisonError::into_inner) = Baseline::of(self.gather());
    }

    /// Shows metrics by these options from now on.
    pub fn show_by(&self, options: MetricsOptions) {
        self.meta.set_disabled(options.disabled.len());
        *self.options.lock().unwrap_or_else(PoisonError::into_inner) = options;
    }

    /// The content of `/metrics/slis` (KEP-3466).
    pub fn render_slis(&self) -> String {
        self.slis.render()
    }

    /// Records the result of one check of a probe such as `livez`.
    pub fn probed(&self, probe: &str, check: &str, is_well: bool) {
        self.slis.probed(probe, check, is_well);
    }

    /// Records the duration of a cycle, and the time for which a swap of plugins had delayed it.
    pub fn cycle(&self, duration: Duration, pause: Duration) {
        self.cycle_duration.with_label_values::<&str>(&[]).observe((pause + duration).as_secs_f64());
    }

    /// Records the time that a swap took on the scheduling thread.
    pub fn swap_pause(&self, duration: Duration) {
        self.swap_pause.with_label_values::<&str>(&[]).observe(duration.as_secs_f64());
    }

    /// Records whether this replica holds the lease.
    pub fn set_leader(&self, lease: &str, is_leading: bool) {
        self.leader.with_label_values(&[lease]).set(is_leading.into());
    }

    /// Sets how often a renewal of the lease had to read the lease first. `total` counts from the start of the process.
    pub fn set_slow_renewals(&self, lease: &str, total: u64) {
        raise(&self.slow_renewals, &[lease], total);
    }

    /// Records that `version` serves under its name in `profile` from now on.
    pub fn set_plugin(&self, profile: &str, version: PluginVersion) {
        let PluginVersion { name: plugin, version, binary } = version;
        let digest = binary.map_or_else(String::new, |binary| binary.to_string());
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (profile.to_owned(), plugin.clone());
        let info = [profile.to_owned(), plugin, version, digest];
        if let Some(old) = serving.insert(key, info.clone()) {
            self.forget(&old);
        }
        self.plugin_info.with_label_values(&info).set(1);
    }

    /// Records that these plugins serve in the profile from now on.
    pub fn set_plugins(&self, profile: &Profile) {
        for version in profile.versions().filter(|version| version.binary.is_some()) {
            self.set_plugin(&profile.scheduler_name, version);
        }
    }

    /// Records an attempt to create a ResourceClaim for a plugin, and whether it succeeded.
    pub fn claim_created(&self, is_created: bool) {
        self.claim_creates.with_label_values(&[if is_created { "success" } else { "failure" }]).inc();
    }

    /// Records that the volumes of a pod could not be bound.
    pub fn volumes_not_bound(&self) {
        self.volume_stage_errors.with_label_values(&["bind"]).inc();
    }

    /// Records that a configuration was read again: `applied`, `unchanged` or `refused`.
    pub fn config_reloaded(&self, result: &str) {
        self.config_reloads.with_label_values(&[result]).inc();
    }

    /// Records that a client was made with other credentials: `renewed`, or `failed`.
    pub fn credentials_renewed(&self, result: &str) {
        self.credential_renewals.with_label_values(&[result]).inc();
    }

    /// Records that nothing serves for the plugin in `profile` from now on.
    pub fn remove_plugin(&self, profile: &str, plugin: &str) {
        let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = serving.remove(&(profile.to_owned(), plugin.to_owned())) {
            self.forget(&old);
        }
    }

    fn forget(&self, info: &[String; 4]) {
        let removed = self.plugin_info.remove_label_values(info);
        debug_assert!(removed.is_ok(), "the metric had the binary that served");
    }

    /// Sets the number of strings that the scheduler holds.
    pub fn set_symbols(&self, n_symbols: usize) {
        self.symbols.with_label_values::<&str>(&[]).set(to_gauge(n_symbols));
    }

    /// Records that the plugin was taken out of service.
    pub fn quarantined(&self, plugin: &str) {
        self.plugin_quarantines.with_label_values(&[plugin]).inc();
    }

    /// Records that a plugin got a new instance after a fault.
    pub fn restarted(&self, plugin: &str) {
        self.plugin_restarts.with_label_values(&[plugin]).inc();
    }

    /// Sets, for each plugin, the number of owners with pods that are held because of the plugin's faults.
    pub fn set_held_owners(&self, by_plugin: &BTreeMap<String, usize>) {
        self.plugin_held_owners.reset();
        for (plugin, n_owners) in by_plugin {
            self.plugin_held_owners.with_label_values(&[plugin]).set(to_gauge(*n_owners));
        }
    }

    /// `total` counts from the start of the process.
    pub fn set_dropped_log_lines(&self, plugin: &str, total: u64) {
        raise(&self.plugin_dropped_log_lines, &[plugin], total);
    }

    /// `total` counts from the start of the process.
    pub fn set_out_of_time(&self, plugin: &str, total: u64) {
        raise(&self.plugin_out_of_time, &[plugin], total);
    }

    /// `total` is the time that the plugin has taken since the start of the process.
    pub fn set_scheduling_thread_time(&self, plugin: &str, total: Duration) {
        let counter = self.plugin_scheduling_thread.with_label_values(&[plugin]);
        counter.inc_by((total.as_secs_f64() - counter.get()).max(0.0));
    }

    /// Records that a share of the scheduling thread's time is used up. Only the first hundred namespaces have separate
    /// labels.
    pub fn share_spent(&self, report: &TimeReport) {
        match report {
            TimeReport::Plugin { .. } => {}
            TimeReport::AllPlugins { .. } => self.plugins_share_spent.with_label_values::<&str>(&[]).inc(),
            TimeReport::Searches { .. } => self.searches_share_spent.with_label_values::<&str>(&[]).inc(),
            TimeReport::Namespace { namespace, .. } => {
                let mut shown = self.spent_namespaces.lock().unwrap_or_else(PoisonError::into_inner);
                let is_shown =
                    shown.contains(namespace) || shown.len() < NAMESPACES && shown.insert(Arc::clone(namespace));
                let label = if is_shown { &**namespace } else { OTHER_NAMESPACES };
                self.namespace_share_spent.with_label_values(&[label]).inc();
            }
        }
    }

    /// `total` counts from the start of the process.
    pub fn set_faults(&self, plugin: &str, kind: &str, total: u64) {
        raise(&self.plugin_faults, &[plugin, kind], total);
    }

    /// `total` counts from the start of the process.
    pub fn set_errors(&self, plugin: &str, point: &str, total: u64) {
        raise(&self.plugin_errors, &[plugin, point], total);
    }

    /// Records the `result` of a swap.
    pub fn swap(&self, plugin: &str, result: &str) {
        self.plugin_swaps.with_label_values(&[plugin, result]).inc();
    }

    /// Counts effects of a kind that were refused to the plugin. Returns the new total.
    pub fn effects_refused_now(&self, plugin: &str, effect: &str, count: u64) -> u64 {
        self.plugin_effects_refused.with_label_values(&[plugin, effect]).inc_by(count);
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let total = refused.entry(plugin.to_owned()).or_default().entry(effect.to_owned()).or_default();
        *total += count;
        *total
    }

    /// `total` counts from the start of the process.
    pub fn set_custom(&self, plugin: &str, name: &str, total: u64) {
        raise(&self.plugin_custom, &[plugin, name], total);
    }

    /// The number of refused effects of the plugin, by kind.
    pub fn effects_refused(&self, plugin: &str) -> BTreeMap<String, u64> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.get(plugin).cloned().unwrap_or_default()
    }

    /// Starts the metrics of the gate SchedulerAsyncAPICalls.
    pub fn count_api_calls(&self) -> ApiCallMetrics {
        self.api_calls.clone()
    }

    /// The metrics of the watch of one kind.
    pub fn informer(&self, group: &str, version: &str, resource: &str) -> InformerMetrics {
        self.informers.of(group, version, resource)
    }

    /// Removes the metrics of a kind that is no longer watched.
    pub fn remove_informer(&self, group: &str, version: &str, resource: &str) {
        self.informers.remove(group, version, resource);
    }

    /// Records the emulated Kubernetes release, and the state of its feature gates.
    pub fn decides_as(&self, gates: &Gates) {
        *self.release.lock().unwrap_or_else(PoisonError::into_inner) = gates.release();
        self.process.show(gates);
    }

    /// `total` counts from the start of the process.
    pub fn set_audit_entries_dropped(&self, total: u64) {
        raise(&self.audit_entries_dropped, &[], total);
    }

    /// Records that an update of a pod's status is not sent, because too many other updates wait.
    pub fn status_patch_dropped(&self) {
        self.status_patches_dropped.with_label_values::<&str>(&[]).inc();
    }

    /// `total` counts from the start of the process.
    pub fn set_events_dropped(&self, total: u64) {
        raise(&self.events_dropped, &[], total);
    }
}

fn render(families: Vec<MetricFamily>) -> String {
    let mut text = String::new();
    if let Err(error) = TextEncoder::new().encode_utf8(&families, &mut text) {
        tracing::error!(%error, "failed to write the metrics");
    }
    text
}

/// Sets a counter to a `total` that another part of the program counts.
fn raise(counter: &IntCounterVec, labels: &[&str], total: u64) {
    let counter = counter.with_label_values(labels);
    counter.inc_by(total.saturating_sub(counter.get()));
}

/// Buckets from 5 µs to 9 s in steps of an eighth. They are fine enough to show whether one cycle took twice as long as
/// another.
fn fine_buckets() -> Vec<f64> {
    scheduler::buckets(0.000_005, 1.125, 123)
}

fn to_gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
