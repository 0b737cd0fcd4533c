//! The ids of traces and spans. The ids follow from the number of the attempt and from the subject of the span, so that
//! each part of the program that makes a span knows the ids of the spans around it.

use std::{
    hash::{DefaultHasher, Hash, Hasher as _},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use berth_framework::{CycleId, Point, TracedCall, TracedSpan};
use berth_otlp::{SpanId, TraceId};
use berth_scheduler::PERMIT_WAIT;

/// The ids of one process.
#[derive(Debug)]
pub(super) struct TraceIds {
    /// A random number, so that other processes have other ids.
    seed: u128,
    n_requests: AtomicU64,
}

/// The place of a span in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) trace: TraceId,
    pub(super) id: SpanId,
    pub(super) parent: Option<SpanId>,
}

/// The subject of a span, which determines the id of the span within its trace.
#[derive(Hash)]
enum SpanSubject<'a> {
    Attempt,
    /// A run of an extension point, or another step, that began at this time.
    Run(Duration),
    /// A step that an attempt has only once, and that waits for others.
    Wait(&'a str),
    /// The call that ended at this time.
    Call(Duration),
    Request(u64),
}

impl TraceIds {
    pub(super) fn new(seed: u128) -> Self {
        Self { seed, n_requests: AtomicU64::new(0) }
    }

    pub(super) fn trace(&self, cycle: CycleId) -> TraceId {
        let half = |which: u8| u128::from(hash((self.seed, cycle, which)));
        TraceId((half(0) << 64 | half(1)).max(1))
    }

    pub(super) fn of_attempt(&self, cycle: CycleId) -> Place {
        self.place(cycle, &SpanSubject::Attempt, None)
    }

    /// The place of a span that a meter recorded.
    pub(super) fn of_step(&self, span: &TracedSpan) -> Place {
        let TracedSpan { cycle, name, call, start, end, .. } = *span;
        match call {
            None => self.place(cycle, &step(name, start), Some(&SpanSubject::Attempt)),
            Some(TracedCall { within: Some(within), .. }) => {
                self.place(cycle, &SpanSubject::Call(end), Some(&step(name, within)))
            }
            // A plugin that holds a pod at Permit is asked again while the pod waits.
            Some(TracedCall { within: None, .. }) if name == Point::Permit.as_str() => {
                self.place(cycle, &SpanSubject::Call(end), Some(&SpanSubject::Wait(PERMIT_WAIT)))
            }
            Some(TracedCall { within: None, .. }) => {
                self.place(cycle, &SpanSubject::Call(end), Some(&SpanSubject::Wait(name)))
            }
        }
    }

    /// The place of a request. `point` is the extension point at which the request was asked for.
    pub(super) fn of_request(&self, cycle: CycleId, point: Option<Point>) -> Place {
        let parent = point.filter(|point| waits(point.as_str()));
        let parent = parent.map_or(SpanSubject::Attempt, |point| SpanSubject::Wait(point.as_str()));
        let number = self.n_requests.fetch_add(1, Ordering::Relaxed);
        self.place(cycle, &SpanSubject::Request(number), Some(&parent))
    }

    fn place(&self, cycle: CycleId, subject: &SpanSubject<'_>, parent: Option<&SpanSubject<'_>>) -> Place {
        let trace = self.trace(cycle);
        let id = |subject: &SpanSubject<'_>| SpanId(hash((trace, subject)).max(1));
        Place { trace, id: id(subject), parent: parent.map(id) }
    }
}

fn step(name: &str, start: Duration) -> SpanSubject<'_> {
    if waits(name) { SpanSubject::Wait(name) } else { SpanSubject::Run(start) }
}

/// Whether a step of this name waits for something else than the answers of plugins.
fn waits(name: &str) -> bool {
    [Point::PreBind.as_str(), Point::Bind.as_str(), PERMIT_WAIT].contains(&name)
}

fn hash(subject: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    subject.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use berth_framework::{Code, PluginIdx};

    use super::*;

    fn span(name: &'static str, within: Option<Option<u64>>, start: u64, end: u64) -> TracedSpan {
        let call = within.map(|within| TracedCall { plugin: PluginIdx(1), within: within.map(Duration::from_nanos) });
        let [start, end] = [start, end].map(Duration::from_nanos);
        TracedSpan { cycle: CycleId(1), name, call, code: Code::Success, start, end }
    }

    #[test]
    fn each_span_is_a_part_of_the_right_one() {
        let ids = TraceIds::new(7);
        let attempt = ids.of_attempt(CycleId(1));
        assert_eq!(attempt.parent, None);
        let run = ids.of_step(&span("Filter", None, 10, 20));
        assert_eq!((run.trace, run.parent), (attempt.trace, Some(attempt.id)));
        let again = ids.of_step(&span("Filter", None, 30, 40));
        assert_eq!(ids.of_step(&span("Filter", Some(Some(30)), 30, 35)).parent, Some(again.id));
        let score = ids.of_step(&span("Score", None, 50, 60));
        let normalize = span("ScoreExtensionNormalize", Some(Some(50)), 55, 58);
        assert_eq!(ids.of_step(&normalize).parent, Some(score.id));
        let bind = ids.of_step(&span("Bind", None, 70, 90));
        assert_eq!(ids.of_step(&span("Bind", Some(None), 71, 72)).parent, Some(bind.id));
        assert_eq!(ids.of_request(CycleId(1), Some(Point::Bind)).parent, Some(bind.id));
        let wait = ids.of_step(&span(PERMIT_WAIT, None, 62, 68));
        assert_eq!(ids.of_step(&span("Permit", Some(None), 63, 64)).parent, Some(wait.id));
        assert_eq!(ids.of_request(CycleId(1), Some(Point::PostFilter)).parent, Some(attempt.id));
        assert_eq!(ids.of_request(CycleId(1), None).parent, Some(attempt.id));
        let places = [attempt, run, again, score, bind, wait, ids.of_request(CycleId(1), None)];
        assert_eq!(places.iter().map(|place| place.id).collect::<BTreeSet<_>>().len(), places.len());
    }

    #[test]
    fn processes_and_attempts_have_their_own_traces() {
        let traces = [
            TraceIds::new(7).trace(CycleId(1)),
            TraceIds::new(7).trace(CycleId(2)),
            TraceIds::new(8).trace(CycleId(1)),
        ];
        assert_eq!(BTreeSet::from(traces).len(), 3);
        assert_eq!(TraceIds::new(7).trace(CycleId(1)), traces[0]);
    }
}
