//! The functions that a component can call: `berth:scheduler/host`, and nothing else.

use std::{sync::Arc, time::Instant};

use berth_framework::{DryRun, Removal, Status};
use berth_model::Time;

use crate::{
    bindings::{berth::scheduler::host, types},
    clock::Clock,
    convert::{lift, lower, on_one_line},
    cpu_time::CallTime,
    fault::CallTraces,
    limits::{Limits, Meter},
    log_budget::LogBudget,
    stats::PluginStats,
};

/// The beginning of a `warn` line in which an SDK reports that its plugin read something that the manifest does not
/// name, as `wit/host.wit` says.
const UNDECLARED_READ: &str = "undeclared read: ";

/// The target of the log lines about undeclared reads. A command that reports undeclared reads in its own words leaves
/// these lines out.
pub const UNDECLARED_READS_TARGET: &str = "berth_wasm_host::undeclared_reads";

/// The data of one instance's store.
#[derive(Debug)]
pub(crate) struct HostState {
    plugin: Arc<str>,
    pub(crate) meter: Meter,
    /// The time of the present call.
    pub(crate) time: CallTime,
    /// The last line that the present call logged as an error. A panic hook logs such a line before it traps.
    pub(crate) last_words: Option<String>,
    /// The line of `last_words` while the line is not in the log yet. If the call traps, the text of the fault contains
    /// it.
    held_back: Option<String>,
    log_budget: Arc<LogBudget>,
    log_lines_per_second: u32,
    text_bytes: usize,
    counters: usize,
    clock: Arc<Clock>,
    /// The time of the last cycle about which the instance was asked, in milliseconds since 1970.
    cycle_time: u64,
    stats: Arc<PluginStats>,
}

impl HostState {
    pub(crate) fn new(
        plugin: Arc<str>,
        limits: &Limits,
        clock: Arc<Clock>,
        stats: Arc<PluginStats>,
        log_budget: Arc<LogBudget>,
    ) -> Self {
        Self {
            plugin,
            meter: Meter::new(limits),
            time: CallTime::new(limits.once_an_instance()),
            last_words: None,
            held_back: None,
            log_budget,
            log_lines_per_second: limits.log_lines_per_second,
            text_bytes: limits.text_bytes,
            counters: limits.counters,
            clock,
            cycle_time: 0,
            stats,
        }
    }

    /// Sets the time of the cycle about which the instance is asked. So a component sees the same time as a native
    /// plugin, even if the engine was not given a time.
    pub(crate) fn set_cycle_time(&mut self, time: Time) {
        self.cycle_time = time.0;
    }

    /// Writes the line that was held back, if any. This is called when a call did not trap, or when another line comes.
    pub(crate) fn write_held_back(&mut self) {
        if let Some(line) = self.held_back.take() {
            tracing::error!(plugin = &*self.plugin, "{line}");
        }
    }

    /// Forgets the line that was held back, because the call trapped and its fault contains the line.
    pub(crate) fn forget_held_back(&mut self) {
        self.held_back = None;
    }

    /// The traces of a call that failed.
    pub(crate) fn traces(&self) -> CallTraces<'_> {
        CallTraces {
            exceeded: self.meter.exceeded(),
            last_words: self.last_words.as_deref(),
            limit: self.time.limit(),
            delta: None,
        }
    }
}

impl host::Host for HostState {
    fn log(&mut self, level: host::Level, mut message: String) {
        if message.len() > self.text_bytes {
            message.truncate(message.floor_char_boundary(self.text_bytes));
        }
        let message = on_one_line(message);
        self.write_held_back();
        let undeclared_read = message.strip_prefix(UNDECLARED_READ).filter(|_| level == host::Level::Warn);
        // Each instance reports the read, but the log has the report once for each binary.
        if undeclared_read.is_some_and(|what| !self.stats.record_undeclared_read(what)) {
            return;
        }
        if level == host::Level::Error {
            self.last_words = Some(message.clone());
        }
        if !self.log_budget.take(self.clock.seconds(), self.log_lines_per_second) {
            self.stats.record_dropped_log_line();
            return;
        }
        let plugin = &*self.plugin;
        match level {
            host::Level::Debug => tracing::debug!(plugin, "{message}"),
            host::Level::Info => tracing::info!(plugin, "{message}"),
            host::Level::Warn if undeclared_read.is_some() => {
                tracing::warn!(target: UNDECLARED_READS_TARGET, plugin, "{message}");
            }
            host::Level::Warn => tracing::warn!(plugin, "{message}"),
            host::Level::Error => self.held_back = Some(message),
        }
    }

    fn dry_run(&mut self, cases: Vec<host::Removal>) -> Result<Vec<types::Status>, types::Status> {
        if !OTHERS.is_set() {
            return Err(lower::status(&Status::error("dry-run is for post-filter only")));
        }
        let removals = lift::removals(cases);
        let mut statuses = Vec::with_capacity(removals.len());
        for removals in portions(&removals) {
            // A native plugin cannot be interrupted, so the time is checked between portions.
            if self.time.left().is_none() {
                return Err(lower::status(&Status::error("the time of post-filter is over")));
            }
            let answers = OTHERS.with(|others| others.dry_run(removals));
            statuses.extend(answers.map_err(|status| lower::status(&status))?.iter().map(lower::status));
        }
        Ok(statuses)
    }

    fn ask_extenders(&mut self, preemptions: Vec<host::Preemption>) -> Result<Vec<host::Preemption>, types::Status> {
        if !OTHERS.is_set() {
            return Err(lower::status(&Status::error("ask-extenders is for post-filter only")));
        }
        if !self.time.may_wait() {
            return Err(lower::status(&Status::error("the time of post-filter is over")));
        }
        let began = Instant::now();
        let agreed = OTHERS.with(|others| others.ask_extenders(lift::preemptions(preemptions)));
        self.time.add_wait(began.elapsed());
        Ok(agreed.map_err(|status| lower::status(&status))?.iter().map(lower::preemption).collect())
    }

    fn now(&mut self) -> u64 {
        self.clock.now().max(self.cycle_time)
    }

    fn count(&mut self, name: String, amount: u64) {
        if name.len() <= self.text_bytes {
            self.stats.add_custom(on_one_line(name), amount, self.counters);
        }
    }
}

impl types::Host for HostState {}

/// The number of nodes and removed pods that the plugins handle before the time is checked again.
const PORTION: usize = 4096;

/// Splits removals into portions of at most [`PORTION`] nodes and pods. A larger removal is a single portion.
fn portions(mut removals: &[Removal]) -> impl Iterator<Item = &[Removal]> {
    std::iter::from_fn(move || {
        let mut weight = 0_usize;
        let fits = |removal: &&Removal| {
            let is_first = weight == 0;
            weight = weight.saturating_add(1 + removal.pods.len());
            is_first || weight <= PORTION
        };
        let n_removals = removals.iter().take_while(fits).count();
        let (portion, rest) = removals.split_at_checked(n_removals).filter(|(portion, _)| !portion.is_empty())?;
        removals = rest;
        Some(portion)
    })
}

scoped_tls_hkt::scoped_thread_local! {
    /// The other plugins of the profile while a component is in `post-filter`. A store cannot hold a reference that
    /// lives only as long as a call.
    pub(crate) static mut OTHERS: for<'a> &'a mut (dyn DryRun + 'a)
}

#[cfg(test)]
mod tests {
    use berth_model::{NodeIdx, PodIdx};

    use super::*;

    #[test]
    fn portions_have_a_weight() {
        let removal = |n_pods: u32| Removal { node: NodeIdx(0), pods: (0..n_pods).map(PodIdx).collect() };
        let removals = [removal(4000), removal(94), removal(1), removal(9000), removal(0)];
        let sizes: Vec<usize> = portions(&removals).map(<[Removal]>::len).collect();
        assert_eq!(sizes, [2, 1, 1, 1]);
        assert_eq!(portions(&[]).count(), 0);
        let many: Vec<Removal> = (0..10_000).map(|_| removal(1)).collect();
        let sizes: Vec<usize> = portions(&many).map(<[Removal]>::len).collect();
        assert_eq!(sizes, [2048, 2048, 2048, 2048, 1808]);
    }
}
