//! The sums of the counters of all binaries of each plugin since the start of the process.
//!
//! The counters of a binary no longer change when nothing refers to the binary. The figures of such a binary are then
//! added to the sums, and the binary is forgotten, so that the memory of a scheduler does not grow over months of
//! swaps.

use std::{collections::BTreeMap, sync::Arc};

use berth_framework::Point;
use berth_wasm_host::{FaultKind, PluginStats};

/// The maximum number of own counters of one plugin over all of its binaries. Each binary has at most 64.
const MAX_CUSTOM: usize = 256;

/// The figures of every component that was ever loaded.
#[derive(Debug, Default)]
pub(crate) struct PluginTotals {
    alive: Vec<(String, Arc<PluginStats>)>,
    past: BTreeMap<String, Totals>,
}

/// The sums over the binaries of one plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub faults: BTreeMap<&'static str, u64>,
    /// The errors by extension point, if there were any.
    pub errors: BTreeMap<&'static str, u64>,
    pub dropped_log_lines: u64,
    /// The number of times that the plugin was not asked because its time was used up.
    pub out_of_time: u64,
    /// The plugin's own counters, by their names.
    pub custom: BTreeMap<String, u64>,
}

impl PluginTotals {
    pub(crate) fn add(&mut self, plugin: &str, stats: &Arc<PluginStats>) {
        self.alive.push((plugin.to_owned(), Arc::clone(stats)));
    }

    /// The totals by plugin.
    pub(crate) fn by_plugin(&mut self) -> BTreeMap<String, Totals> {
        let Self { alive, past } = self;
        alive.retain(|(plugin, stats)| {
            let is_held = Arc::strong_count(stats) > 1;
            if !is_held {
                past.entry(plugin.clone()).or_default().add(stats);
            }
            is_held
        });
        let mut by_plugin = past.clone();
        for (plugin, stats) in alive {
            by_plugin.entry(plugin.clone()).or_default().add(stats);
        }
        by_plugin
    }
}

impl Totals {
    fn add(&mut self, stats: &PluginStats) {
        for kind in FaultKind::ALL {
            *self.faults.entry(kind.as_str()).or_default() += stats.faults(kind);
        }
        for point in Point::ALL {
            let count = stats.errors(point);
            if count > 0 {
                *self.errors.entry(point.as_str()).or_default() += count;
            }
        }
        self.dropped_log_lines += stats.dropped_log_lines();
        self.out_of_time += stats.out_of_time();
        for (name, count) in stats.custom() {
            if self.custom.len() >= MAX_CUSTOM && !self.custom.contains_key(&name) {
                continue;
            }
            let total = self.custom.entry(name).or_default();
            *total = total.saturating_add(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries_that_nobody_holds_are_added_up_and_forgotten() {
        let mut totals = PluginTotals::default();
        let serving = Arc::<PluginStats>::default();
        totals.add("Mine", &serving);
        for _ in 0..3 {
            totals.add("Mine", &Arc::default());
        }
        assert_eq!(totals.by_plugin().get("Mine").map(|by_plugin| by_plugin.faults.len()), Some(FaultKind::ALL.len()));
        assert_eq!(totals.alive.len(), 1);
        drop(serving);
        assert_eq!(totals.by_plugin().len(), 1);
        assert!(totals.alive.is_empty() && totals.past.contains_key("Mine"));
    }
}
