//! The recent past of each plugin: what happened to it, and how long its calls took before its last swap.
//!
//! The past begins with the process. It is bounded for each plugin and in the number of plugins.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use berth_model::BinaryId;
use serde::{Deserialize, Serialize};

use crate::{
    clock,
    metrics::{PluginTimings, Timing},
};

/// The maximum number of entries of one plugin, and of bytes of one entry.
const MAX_ENTRIES: usize = 32;
const MAX_TEXT: usize = 2 << 10;

/// The maximum number of plugins. Files with new names may come and go as long as the process runs.
const MAX_PLUGINS: usize = 256;

/// Something that happened to a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PastEvent {
    /// The time in RFC 3339.
    pub time: String,
    /// The text of the event, at most 2 KiB.
    pub text: String,
}

/// The measured calls at one extension point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MeasuredCalls {
    /// The number of measured calls. Calls are measured in one attempt in ten.
    pub calls: u64,
    pub mean_microseconds: f64,
}

/// How long the calls at one extension point took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PointLatency {
    pub extension_point: String,
    /// The calls since the last swap, or since the start if there was no swap.
    pub current: MeasuredCalls,
    /// The calls between the last two swaps; `None` if there was no swap, or nothing was measured.
    pub previous: Option<MeasuredCalls>,
}

/// The past of all plugins. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct PluginHistory(Arc<Mutex<BTreeMap<String, Past>>>);

#[derive(Debug, Default)]
struct Past {
    /// The oldest first.
    entries: VecDeque<PastEvent>,
    /// The moment of the last entry, in milliseconds since 1970.
    last: u64,
    last_swap: Option<LastSwap>,
    /// The functions that were running at the last fault, the innermost first.
    stack: Vec<String>,
}

#[derive(Debug)]
struct LastSwap {
    binary: BinaryId,
    /// The sums of all calls until the swap, by extension point.
    sums: BTreeMap<String, Timing>,
    /// The calls between the previous swap and this swap.
    previous: BTreeMap<String, Timing>,
}

impl PluginHistory {
    /// The events in the plugin's life, the newest first.
    #[must_use]
    pub fn of(&self, plugin: &str) -> Vec<PastEvent> {
        self.lock().get(plugin).map_or_else(Vec::new, |past| past.entries.iter().rev().cloned().collect())
    }

    /// How long the plugin's calls took, by extension point. `timings` has the sums of all calls since the start.
    #[must_use]
    pub fn latencies(&self, plugin: &str, timings: &PluginTimings) -> Vec<PointLatency> {
        let past = self.lock();
        let last_swap = past.get(plugin).and_then(|past| past.last_swap.as_ref());
        let latency = |(point, total): (&str, Timing)| {
            let sums = last_swap.and_then(|swap| swap.sums.get(point)).copied().unwrap_or_default();
            let previous = last_swap.and_then(|swap| swap.previous.get(point)).filter(|timing| timing.count > 0);
            PointLatency {
                extension_point: point.to_owned(),
                current: total.since(sums).into(),
                previous: previous.copied().map(MeasuredCalls::from),
            }
        };
        points_of(plugin, timings).map(latency).collect()
    }

    /// The functions of the component that were running at the plugin's last fault, the innermost first.
    #[must_use]
    pub fn stack(&self, plugin: &str) -> Vec<String> {
        self.lock().get(plugin).map_or_else(Vec::new, |past| past.stack.clone())
    }

    /// Keeps the stack of a fault, until the next fault. A notice about the fault follows.
    pub fn keep_stack(&self, plugin: &str, stack: Vec<String>) {
        self.lock().entry(plugin.to_owned()).or_default().stack = stack;
    }

    pub(super) fn add(&self, plugin: &str, text: String) {
        let now = clock::wall(clock::now());
        let mut text = text;
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        let mut pasts = self.lock();
        let past = pasts.entry(plugin.to_owned()).or_default();
        past.last = now;
        past.entries.push_back(PastEvent { time: clock::rfc3339(now), text });
        if past.entries.len() > MAX_ENTRIES {
            past.entries.pop_front();
        }
        if pasts.len() > MAX_PLUGINS {
            let oldest = pasts.iter().min_by_key(|(_, past)| past.last).map(|(plugin, _)| plugin.clone());
            oldest.and_then(|plugin| pasts.remove(&plugin));
        }
    }

    /// Notes that another binary serves from now on. Each profile that uses the binary reports this; the first report
    /// counts.
    pub(super) fn swapped(&self, plugin: &str, binary: BinaryId, timings: &PluginTimings) {
        let mut pasts = self.lock();
        let past = pasts.entry(plugin.to_owned()).or_default();
        let before = match &past.last_swap {
            Some(swap) if swap.binary == binary => return,
            Some(swap) => swap.sums.clone(),
            None => BTreeMap::new(),
        };
        let sums: BTreeMap<String, Timing> =
            points_of(plugin, timings).map(|(point, timing)| (point.to_owned(), timing)).collect();
        let since = |(point, sum): (&String, &Timing)| {
            (point.clone(), sum.since(before.get(point).copied().unwrap_or_default()))
        };
        let previous = sums.iter().map(since).collect();
        past.last_swap = Some(LastSwap { binary, sums, previous });
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Past>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The extension points of one plugin.
fn points_of<'a>(plugin: &str, timings: &'a PluginTimings) -> impl Iterator<Item = (&'a str, Timing)> {
    timings.iter().filter(move |((name, _), _)| name == plugin).map(|((_, point), timing)| (point.as_str(), *timing))
}

impl From<Timing> for MeasuredCalls {
    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    fn from(timing: Timing) -> Self {
        let mean = if timing.count == 0 { 0.0 } else { timing.seconds * 1e6 / timing.count as f64 };
        Self { calls: timing.count, mean_microseconds: mean }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timings(count: u64, seconds: f64) -> PluginTimings {
        [(("Slow".to_owned(), "Filter".to_owned()), Timing { count, seconds })].into_iter().collect()
    }

    #[test]
    fn the_newest_entries_of_the_newest_plugins_stay() {
        let history = PluginHistory::default();
        (0..MAX_ENTRIES + 3).for_each(|number| history.add("Busy", format!("entry {number}")));
        let entries = history.of("Busy");
        assert_eq!(entries.len(), MAX_ENTRIES);
        assert_eq!(entries[0].text, format!("entry {}", MAX_ENTRIES + 2));
        history.add("Long", "ä".repeat(MAX_TEXT));
        assert!(history.of("Long")[0].text.len() <= MAX_TEXT);
        (0..2 * MAX_PLUGINS).for_each(|number| history.add(&format!("Plugin{number}"), "a file came".to_owned()));
        assert_eq!(history.lock().len(), MAX_PLUGINS);
    }

    #[test]
    fn the_stack_of_the_last_fault_is_kept() {
        let history = PluginHistory::default();
        assert!(history.stack("Faulty").is_empty());
        for stack in [vec!["first".to_owned()], vec!["inner".to_owned(), "outer".to_owned()]] {
            history.keep_stack("Faulty", stack.clone());
            history.add("Faulty", "a plugin faulted".to_owned());
            assert_eq!(history.stack("Faulty"), stack);
        }
    }

    #[test]
    fn calls_are_divided_at_the_last_swap() {
        let history = PluginHistory::default();
        let mean = |calls: MeasuredCalls| (calls.calls, calls.mean_microseconds.round());
        let [before] = &*history.latencies("Slow", &timings(10, 0.001)) else { panic!("one point") };
        assert_eq!((mean(before.current), before.previous), ((10, 100.0), None));
        history.swapped("Slow", BinaryId::Native, &timings(20, 0.002));
        // Another profile takes the same binary.
        history.swapped("Slow", BinaryId::Native, &timings(30, 0.012));
        let [after] = &*history.latencies("Slow", &timings(30, 0.012)) else { panic!("one point") };
        assert_eq!(mean(after.current), (10, 1000.0));
        assert_eq!(after.previous.map(mean), Some((20, 100.0)));
    }
}
