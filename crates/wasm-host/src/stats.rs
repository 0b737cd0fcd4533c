//! Statistics about one binary, over all its instances, for metrics and `berth plugin list`.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use berth_framework::Point;

use crate::fault::FaultKind;

/// The counters of one binary. All of them only grow, except [`PluginStats::memory_bytes`].
#[derive(Debug, Default)]
pub struct PluginStats {
    calls: AtomicU64,
    answers: AtomicU64,
    busy_nanoseconds: AtomicU64,
    resyncs: AtomicU64,
    memory_bytes: AtomicU64,
    faults: [AtomicU64; FaultKind::ALL.len()],
    errors: [AtomicU64; Point::ALL.len()],
    dropped_log_lines: AtomicU64,
    out_of_time: AtomicU64,
    custom: Mutex<BTreeMap<String, u64>>,
    undeclared_reads: Mutex<BTreeMap<String, u64>>,
}

/// The maximum number of different undeclared reads that are kept. This number exceeds the number of different reads
/// that are possible.
const UNDECLARED_READS: usize = 64;

impl PluginStats {
    /// Calls into the component, including `sync`, `begin` and `end`.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Calls that asked something about a pod and that the plugin answered, with any answer.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// The wall-clock time of the counted calls.
    #[must_use]
    pub fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_nanoseconds.load(Ordering::Relaxed))
    }

    /// Full deltas: one delta for each instance, and one delta whenever a replica was too far behind.
    #[must_use]
    pub fn resyncs(&self) -> u64 {
        self.resyncs.load(Ordering::Relaxed)
    }

    /// The linear memory of the instance that was called last.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn faults(&self, kind: FaultKind) -> u64 {
        self.faults.get(kind as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Calls at this point that the plugin answered with a status of code `Error`. Faults are not included.
    #[must_use]
    pub fn errors(&self, point: Point) -> u64 {
        self.errors.get(point as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Log lines that exceeded the plugin's rate.
    #[must_use]
    pub fn dropped_log_lines(&self) -> u64 {
        self.dropped_log_lines.load(Ordering::Relaxed)
    }

    /// The number of times that the plugin was not asked because it had used up its share of the scheduling thread.
    #[must_use]
    pub fn out_of_time(&self) -> u64 {
        self.out_of_time.load(Ordering::Relaxed)
    }

    /// The plugin's own counters, by the names that the plugin chose.
    #[must_use]
    pub fn custom(&self) -> BTreeMap<String, u64> {
        self.custom.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The reads that the plugin's manifest does not name, as reported by its SDK, each with the number of reports. An
    /// SDK reports a read once for each instance.
    #[must_use]
    pub fn undeclared_reads(&self) -> BTreeMap<String, u64> {
        self.undeclared_reads.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn record_call(&self, elapsed: Duration, memory: usize) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.busy_nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.memory_bytes.store(u64::try_from(memory).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn record_answer(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn record_resync(&self) {
        self.resyncs.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn record_fault(&self, kind: FaultKind) {
        if let Some(count) = self.faults.get(kind as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn record_error(&self, point: Point) {
        if let Some(count) = self.errors.get(point as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn record_dropped_log_line(&self) {
        self.dropped_log_lines.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn record_out_of_time(&self) {
        self.out_of_time.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a report of a read that the manifest does not declare. Returns whether it is the first report.
    pub(crate) fn record_undeclared_read(&self, what: &str) -> bool {
        let mut reads = self.undeclared_reads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = reads.get_mut(what) {
            *count += 1;
            return false;
        }
        if reads.len() < UNDECLARED_READS {
            reads.insert(what.to_owned(), 1);
        }
        true
    }

    /// Adds to one of the plugin's own counters, unless its name would exceed `max_names`.
    pub(crate) fn add_custom(&self, name: String, amount: u64, max_names: usize) {
        let mut custom = self.custom.lock().unwrap_or_else(PoisonError::into_inner);
        if custom.len() >= max_names && !custom.contains_key(&name) {
            return;
        }
        let counter = custom.entry(name).or_default();
        *counter = counter.saturating_add(amount);
    }
}
