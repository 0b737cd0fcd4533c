//! Measurements that the host publishes: how long extension points and plugins take, and how often plugins are asked.
//!
//! A profile whose meter has no clock counts calls and times nothing. A meter with a clock times each run of an
//! extension point, and in one of ten attempts each plugin as well. The number of the cycle decides which attempts
//! these are, so that a pod's binding is timed if its cycle was. Single nodes are never timed.

use std::{sync::Arc, time::Duration};

use crate::{
    clock::Clock,
    per_point::PerPoint,
    plugin::{PluginIdx, Point},
    points::CycleId,
    status::{Code, Status},
};

/// The number of measurements that are kept until the host takes them. Further measurements are dropped, as in
/// kube-scheduler's `pkg/scheduler/metrics/metric_recorder.go`.
const MAX_KEPT: usize = 16_384;

/// One of this many attempts has its plugins timed.
const SAMPLED: u64 = 10;

/// A run of all plugins of an extension point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointTime {
    /// The label `extension_point`.
    pub point: &'static str,
    /// The code of the outcome.
    pub code: Code,
    /// The time from the first plugin's call to the last plugin's answer.
    pub duration: Duration,
}

/// A call of one plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginTime {
    /// Which plugin.
    pub plugin: PluginIdx,
    /// The label `extension_point`.
    pub point: &'static str,
    /// The code of the plugin's answer.
    pub code: Code,
    /// The time until the plugin answered. A call of Filter or Score is about many nodes at once.
    pub duration: Duration,
}

/// The figures that a meter has collected.
#[derive(Debug, Default)]
pub struct Measured {
    /// Runs of extension points.
    pub points: Vec<PointTime>,
    /// Calls of plugins, in the attempts whose plugins were timed.
    pub plugins: Vec<PluginTime>,
    calls: PerPoint<Vec<u64>>,
}

impl Measured {
    /// How often `plugin` was asked at `point`. A call counts once for a pod; at Filter and Score it counts once for
    /// each node.
    #[must_use]
    pub fn calls(&self, point: Point, plugin: PluginIdx) -> u64 {
        self.calls[point].get(plugin.index()).copied().unwrap_or(0)
    }

    /// Forgets everything, and keeps the buffers.
    pub fn clear(&mut self) {
        self.points.clear();
        self.plugins.clear();
        self.calls.iter_mut().flatten().for_each(|calls| *calls = 0);
    }
}

/// Measures the plugins of one profile.
#[derive(Debug, Default)]
pub struct Meter {
    /// The timer; `None` if nothing is timed.
    timer: Option<Timer>,
    measured: Measured,
}

#[derive(Debug)]
struct Timer {
    clock: Arc<dyn Clock>,
    seed: u64,
    /// One of this many attempts has its plugins timed.
    sampled: u64,
    /// The time of the last plugin's answer; `None` while plugins are not timed.
    lap: Option<Duration>,
}

/// The time at which a run of an extension point began; `None` if the meter had no clock.
#[derive(Debug)]
pub struct Start(Option<Duration>);

impl Meter {
    /// A meter with this clock. `seed` decides which attempts have their plugins timed.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, seed: u64) -> Self {
        Self { timer: Some(Timer { clock, seed, sampled: SAMPLED, lap: None }), measured: Measured::default() }
    }

    /// A meter that times the plugins of every attempt.
    #[must_use]
    pub fn of_every_attempt(clock: Arc<dyn Clock>) -> Self {
        Self { timer: Some(Timer { clock, seed: 0, sampled: 1, lap: None }), measured: Measured::default() }
    }

    /// The current time; `None` without a clock.
    #[must_use]
    pub fn now(&self) -> Option<Duration> {
        self.timer.as_ref().map(|timer| timer.clock.now())
    }

    /// The measurements since the meter was last cleared.
    pub fn measured_mut(&mut self) -> &mut Measured {
        &mut self.measured
    }

    /// Notes that an extension point begins, in an attempt.
    pub fn start(&mut self, cycle: CycleId) -> Start {
        let Some(timer) = &mut self.timer else { return Start(None) };
        let now = timer.clock.now();
        timer.lap = mix(timer.seed ^ cycle.0).is_multiple_of(timer.sampled).then_some(now);
        Start(Some(now))
    }

    /// Notes that an extension point begins outside of an attempt.
    pub fn start_outside(&mut self) -> Start {
        let Some(timer) = &self.timer else { return Start(None) };
        let sample = u64::try_from(timer.clock.now().as_nanos()).unwrap_or(u64::MAX);
        self.start(CycleId(sample))
    }

    /// Notes that the extension point is done. It is not timed if the profile's meter was replaced in between, either
    /// by one without a clock or by one with a clock.
    pub fn end(&mut self, start: Start, point: &'static str, code: Code) {
        let (Some(timer), Start(Some(start))) = (&mut self.timer, start) else { return };
        timer.lap = None;
        if self.measured.points.len() < MAX_KEPT {
            let duration = timer.clock.now().saturating_sub(start);
            self.measured.points.push(PointTime { point, code, duration });
        }
    }

    /// Notes the answer of a plugin. The plugin was called when the plugin before it had answered.
    pub fn answered(&mut self, plugin: PluginIdx, point: Point, code: Code) {
        let Some(Timer { clock, lap: Some(lap), .. }) = &mut self.timer else { return };
        let now = clock.now();
        let duration = now.saturating_sub(std::mem::replace(lap, now));
        if self.measured.plugins.len() < MAX_KEPT {
            self.measured.plugins.push(PluginTime { plugin, point: point.as_str(), code, duration });
        }
    }

    /// Notes that a plugin was asked about `n` pods or nodes.
    pub(crate) fn asked(&mut self, plugin: PluginIdx, point: Point, n: usize) {
        let calls = &mut self.measured.calls[point];
        if plugin.index() >= calls.len() {
            calls.resize(plugin.index() + 1, 0);
        }
        calls[plugin.index()] += n as u64;
    }
}

/// The code of an answer. `Ok` counts as success.
pub(crate) fn code_of<T>(answer: &Result<T, Status>) -> Code {
    answer.as_ref().err().map_or(Code::Success, |status| status.code)
}

/// Spreads neighbouring numbers over all 64 bits (the finalizer of SplitMix64).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Debug, Default)]
    struct Ticks(AtomicU64);

    impl Clock for Ticks {
        fn now(&self) -> Duration {
            Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
        }
    }

    #[test]
    fn plugins_are_timed_in_one_attempt_of_ten() {
        let mut meter = Meter::new(Arc::new(Ticks::default()), 7);
        for cycle in 0..2000 {
            let start = meter.start(CycleId(cycle));
            meter.answered(PluginIdx(3), Point::Filter, Code::Skip);
            meter.end(start, "Filter", Code::Success);
        }
        let measured = meter.measured_mut();
        assert_eq!(measured.points.len(), 2000);
        assert!((150..250).contains(&measured.plugins.len()), "{} of 2000", measured.plugins.len());
        let duration = Duration::from_millis(1);
        let first = PluginTime { plugin: PluginIdx(3), point: "Filter", code: Code::Skip, duration };
        assert_eq!(measured.plugins.first(), Some(&first));
    }

    #[test]
    fn without_a_clock_calls_are_counted_and_nothing_is_timed() {
        let mut meter = Meter::default();
        let start = meter.start(CycleId(1));
        meter.asked(PluginIdx(2), Point::Score, 5);
        meter.answered(PluginIdx(2), Point::Score, Code::Success);
        meter.end(start, "Score", Code::Success);
        let measured = meter.measured_mut();
        assert_eq!(measured.calls(Point::Score, PluginIdx(2)), 5);
        assert_eq!((measured.points.len(), measured.plugins.len()), (0, 0));
    }
}
