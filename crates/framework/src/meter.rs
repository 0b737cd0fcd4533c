//! Measurements that the host publishes: how long extension points and plugins take, and how often plugins are asked.
//!
//! A profile whose meter has no clock counts calls and times nothing. A meter with a clock times each run of an
//! extension point, and in one of ten attempts each plugin as well. The number of the cycle decides which attempts are
//! timed, so that a pod's binding is timed if the pod's cycle was timed. Single nodes are never timed.
//!
//! A meter that traces attempts ([`Meter::with_traces`]) records the beginning and the end of each run and of each call
//! in these attempts as well.

use std::{sync::Arc, time::Duration};

use crate::{
    clock::Clock,
    per_point::PerPoint,
    plugin::{PluginIdx, Point},
    points::CycleId,
    status::{Code, Status},
    trace::{TraceSampling, TracedCall, TracedSpan, mix},
};

/// The number of measurements that are kept until the host takes them. Further measurements are dropped, as in
/// kube-scheduler's `pkg/scheduler/metrics/metric_recorder.go`.
const MAX_KEPT: usize = 16_384;

/// The scheduler measures the times of plugins in one attempt out of this many attempts.
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
    /// The plugin that was called.
    pub plugin: PluginIdx,
    /// The label `extension_point`.
    pub point: &'static str,
    /// The code of the plugin's answer.
    pub code: Code,
    /// The time until the plugin answered. One call of Filter or Score is about many nodes.
    pub duration: Duration,
}

/// The figures that a meter has collected.
#[derive(Debug, Default)]
pub struct Measured {
    /// Runs of extension points.
    pub points: Vec<PointTime>,
    /// Calls of plugins, in the attempts whose plugins were timed.
    pub plugins: Vec<PluginTime>,
    /// The spans of traced attempts.
    pub spans: Vec<TracedSpan>,
    /// The number of spans that were dropped because too many were kept.
    pub n_lost_spans: usize,
    calls: PerPoint<Vec<u64>>,
}

impl Measured {
    /// The number of times that `plugin` was called at `point`. A call counts once for a pod. At Filter and Score, a
    /// call counts once for each node.
    #[must_use]
    pub fn calls(&self, point: Point, plugin: PluginIdx) -> u64 {
        self.calls[point].get(plugin.index()).copied().unwrap_or(0)
    }

    fn record(&mut self, span: TracedSpan) {
        if self.spans.len() < MAX_KEPT {
            self.spans.push(span);
        } else {
            self.n_lost_spans += 1;
        }
    }

    /// Forgets everything, and keeps the buffers.
    pub fn clear(&mut self) {
        self.points.clear();
        self.plugins.clear();
        self.spans.clear();
        self.n_lost_spans = 0;
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
    /// The scheduler measures the times of plugins in one attempt out of this many attempts.
    sampled: u64,
    /// The share of attempts that is traced.
    tracing: TraceSampling,
    /// The time of the last plugin's answer; `None` while plugins are neither timed nor traced.
    lap: Option<Duration>,
    /// Whether plugins are timed in the current attempt.
    times_plugins: bool,
    /// The current run, if its attempt is traced.
    traced: Option<TracedRun>,
}

/// A run of plugins in a traced attempt.
#[derive(Clone, Copy, Debug)]
struct TracedRun {
    cycle: CycleId,
    /// See [`TracedCall::within`].
    start: Option<Duration>,
}

/// The beginning of a run of an extension point.
#[derive(Debug)]
pub struct Start {
    /// The time; `None` if the meter had no clock.
    at: Option<Duration>,
    /// The attempt, if it is traced.
    traced: Option<CycleId>,
}

impl Start {
    const UNMEASURED: Self = Self { at: None, traced: None };
}

impl Meter {
    /// A meter with this clock. `seed` decides in which attempts plugins are timed.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, seed: u64) -> Self {
        Self::sampling(clock, seed, SAMPLED)
    }

    /// A meter that times the plugins of every attempt.
    #[must_use]
    pub fn of_every_attempt(clock: Arc<dyn Clock>) -> Self {
        Self::sampling(clock, 0, 1)
    }

    fn sampling(clock: Arc<dyn Clock>, seed: u64, sampled: u64) -> Self {
        let tracing = TraceSampling::default();
        let timer = Timer { clock, seed, sampled, tracing, lap: None, times_plugins: false, traced: None };
        Self { timer: Some(timer), measured: Measured::default() }
    }

    /// Records the spans of the attempts that `tracing` takes. A meter without a clock records no spans.
    #[must_use]
    pub fn with_traces(mut self, tracing: TraceSampling) -> Self {
        if let Some(timer) = &mut self.timer {
            timer.tracing = tracing;
        }
        self
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
        let Some(timer) = &mut self.timer else { return Start::UNMEASURED };
        let now = timer.clock.now();
        let traced = timer.tracing.takes(cycle);
        timer.times_plugins = mix(timer.seed ^ cycle.0).is_multiple_of(timer.sampled);
        timer.traced = traced.then_some(TracedRun { cycle, start: Some(now) });
        timer.lap = (timer.times_plugins || traced).then_some(now);
        Start { at: Some(now), traced: traced.then_some(cycle) }
    }

    /// Notes that an extension point begins outside of an attempt.
    pub fn start_outside(&mut self) -> Start {
        let Some(timer) = &mut self.timer else { return Start::UNMEASURED };
        let now = timer.clock.now();
        let sample = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        timer.times_plugins = mix(timer.seed ^ sample).is_multiple_of(timer.sampled);
        timer.traced = None;
        timer.lap = timer.times_plugins.then_some(now);
        Start { at: Some(now), traced: None }
    }

    /// Notes that plugins are asked again at an extension point that began earlier. The point may end after further
    /// calls.
    pub fn resume(&mut self, cycle: CycleId) {
        self.start(cycle);
        if let Some(run) = self.timer.as_mut().and_then(|timer| timer.traced.as_mut()) {
            run.start = None;
        }
    }

    /// Notes that the extension point is done. The point is not timed if the profile's meter was replaced since its
    /// start.
    pub fn end(&mut self, start: Start, point: &'static str, code: Code) {
        let Some(end) = self.end_span(&start, point, code) else { return };
        let Some(began) = start.at else { return };
        if self.measured.points.len() < MAX_KEPT {
            self.measured.points.push(PointTime { point, code, duration: end.saturating_sub(began) });
        }
    }

    /// Notes that a step of an attempt begins. The step is not an extension point. Only traces contain it.
    pub fn start_step(&mut self, cycle: CycleId) -> Start {
        let is_traced = self.timer.as_ref().is_some_and(|timer| timer.tracing.takes(cycle));
        if is_traced { self.start(cycle) } else { Start::UNMEASURED }
    }

    /// Notes that the step is done.
    pub fn end_step(&mut self, start: &Start, name: &'static str, code: Code) {
        self.end_span(start, name, code);
    }

    /// Ends the measurement that began at `start`. Returns the time; `None` if nothing is measured.
    fn end_span(&mut self, start: &Start, name: &'static str, code: Code) -> Option<Duration> {
        let (timer, began) = (self.timer.as_mut()?, start.at?);
        (timer.lap, timer.traced) = (None, None);
        let end = timer.clock.now();
        if let Some(cycle) = start.traced {
            self.measured.record(TracedSpan { cycle, name, call: None, code, start: began, end });
        }
        Some(end)
    }

    /// Notes the answer of a plugin. The call began when the previous plugin had answered.
    pub fn answered(&mut self, plugin: PluginIdx, point: Point, code: Code) {
        let Some((start, end)) = self.trace_answer(plugin, point.as_str(), code) else { return };
        let times_plugins = self.timer.as_ref().is_some_and(|timer| timer.times_plugins);
        if times_plugins && self.measured.plugins.len() < MAX_KEPT {
            let duration = end.saturating_sub(start);
            self.measured.plugins.push(PluginTime { plugin, point: point.as_str(), code, duration });
        }
    }

    /// Notes the answer of a plugin in a [step](Self::start_step). `name` is the name of the question.
    pub(crate) fn answered_in_step(&mut self, plugin: PluginIdx, name: &'static str, code: Code) {
        self.trace_answer(plugin, name, code);
    }

    /// Records the answer if the attempt is traced. Returns the time of the call; `None` if the attempt is neither
    /// timed nor traced.
    fn trace_answer(&mut self, plugin: PluginIdx, name: &'static str, code: Code) -> Option<(Duration, Duration)> {
        let Timer { clock, lap: Some(lap), traced, .. } = self.timer.as_mut()? else { return None };
        let end = clock.now();
        let start = std::mem::replace(lap, end);
        if let Some(TracedRun { cycle, start: within }) = *traced {
            let call = Some(TracedCall { plugin, within });
            self.measured.record(TracedSpan { cycle, name, call, code, start, end });
        }
        Some((start, end))
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

    #[test]
    fn a_traced_attempt_has_a_span_of_each_run_and_call() {
        let tracing = TraceSampling::new(0, TraceSampling::ALL);
        let mut meter = Meter::new(Arc::new(Ticks::default()), 7).with_traces(tracing);
        let ms = Duration::from_millis;
        let start = meter.start(CycleId(1));
        meter.answered(PluginIdx(3), Point::Filter, Code::Skip);
        meter.end(start, "Filter", Code::Success);
        let start = meter.start_step(CycleId(1));
        meter.answered_in_step(PluginIdx(3), "NodeToStatus", Code::Success);
        meter.end_step(&start, "Diagnose", Code::Success);
        meter.resume(CycleId(1));
        meter.answered(PluginIdx(4), Point::Bind, Code::Success);
        let call = |plugin, within| Some(TracedCall { plugin: PluginIdx(plugin), within });
        let span = |name, call, code, start, end| TracedSpan {
            cycle: CycleId(1),
            name,
            call,
            code,
            start: ms(start),
            end: ms(end),
        };
        let spans = [
            span("Filter", call(3, Some(ms(0))), Code::Skip, 0, 1),
            span("Filter", None, Code::Success, 0, 2),
            span("NodeToStatus", call(3, Some(ms(3))), Code::Success, 3, 4),
            span("Diagnose", None, Code::Success, 3, 5),
            span("Bind", call(4, None), Code::Success, 6, 7),
        ];
        assert_eq!(meter.measured_mut().spans, spans);
        assert_eq!(meter.measured_mut().points.len(), 1, "a step is not an extension point");
        assert!(meter.measured_mut().plugins.len() < 3, "only some attempts have their plugins timed");
        meter.measured_mut().clear();
        let start = meter.start_outside();
        meter.answered(PluginIdx(3), Point::PreEnqueue, Code::Success);
        meter.end(start, "PreEnqueue", Code::Success);
        assert!(meter.measured_mut().spans.is_empty());
    }

    #[test]
    fn nothing_is_recorded_of_an_attempt_that_is_not_traced() {
        let mut meter = Meter::of_every_attempt(Arc::new(Ticks::default()));
        let start = meter.start_step(CycleId(1));
        meter.answered_in_step(PluginIdx(3), "NodeToStatus", Code::Success);
        meter.end_step(&start, "Diagnose", Code::Success);
        let start = meter.start(CycleId(1));
        meter.answered(PluginIdx(3), Point::Filter, Code::Success);
        meter.end(start, "Filter", Code::Success);
        assert!(meter.measured_mut().spans.is_empty());
        assert_eq!(meter.measured_mut().plugins.len(), 1);
    }
}
