//! Log lines about attempts, in kube-scheduler's words.

use std::{
    borrow::Cow,
    fmt::Write as _,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use berth_otlp::TraceId;
use berth_scheduler::{AttemptOutcome, PodRef};
use berth_telemetry::klog::{V2, lines};
use jiff::Timestamp;
use tracing::{debug, error, field::display, info};

/// If a search takes longer than this, the log shows its slow steps.
const SLOW_SEARCH: Duration = Duration::from_millis(100);

/// Writes one line for each attempt, with the id of the trace if the attempt is traced.
pub(super) fn tell(PodRef { namespace, name: pod, .. }: &PodRef, trace: Option<TraceId>, outcome: AttemptOutcome) {
    let (namespace, pod, trace) = (&**namespace, &**pod, trace.map(display));
    match outcome {
        AttemptOutcome::Bound { node, n_evaluated, n_feasible } => debug!(
            target: V2,
            pod,
            namespace,
            node = &*node,
            evaluatedNodes = n_evaluated,
            feasibleNodes = n_feasible,
            trace,
            "{}",
            lines::BOUND.message
        ),
        AttemptOutcome::EmptyCluster => debug!(
            target: V2,
            pod,
            namespace,
            trace,
            "{}",
            lines::NO_NODES.message
        ),
        AttemptOutcome::Unschedulable { message } => {
            debug!(target: V2, pod, namespace, error = message, trace, "{}", lines::NO_FIT.message);
        }
        AttemptOutcome::Failed { message, is_fault: false } => {
            error!(pod, namespace, error = message, trace, "{}", lines::ATTEMPT_FAILED.message);
        }
        // The fault has its own line, which names the pod.
        AttemptOutcome::Failed { message, is_fault: true } => {
            debug!(target: V2, pod, namespace, error = message, trace, "{}", lines::ATTEMPT_FAILED.message);
        }
    }
}

/// Writes the search to the log in the form of `k8s.io/utils/trace`.
pub(super) fn tell_slow_search(
    pod: &PodRef,
    id: Option<TraceId>,
    total: Duration,
    steps: &[(Cow<'static, str>, Duration)],
) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    info!(trace = id.map(display), "{}", trace(pod, now, total, steps));
}

fn trace(pod: &PodRef, now: Duration, total: Duration, steps: &[(Cow<'static, str>, Duration)]) -> String {
    let mut hasher = DefaultHasher::new();
    (pod.uid.to_string(), now).hash(&mut hasher);
    // All lines of a trace have the same number.
    let number = hasher.finish() >> 33;
    let mut at = now.saturating_sub(total);
    let mut text = format!(
        "Trace[{number}]: \"Scheduling\" namespace:{},name:{} ({})",
        pod.namespace,
        pod.name,
        time(at, "%d-%b-%Y %H:%M:%S%.3f")
    );
    let share = SLOW_SEARCH / u32::try_from(steps.len() + 1).unwrap_or(1);
    // Writing to a string cannot fail.
    let _ = write!(text, " (total time: {}ms):", total.as_millis());
    for (step, duration) in steps {
        at += *duration;
        if *duration >= share {
            let _ = write!(
                text,
                "\nTrace[{number}]: ---{step:?} {}ms ({})",
                duration.as_millis(),
                time(at, "%H:%M:%S%.3f")
            );
        }
    }
    let _ = write!(text, "\nTrace[{number}]: [{total:?}] [{total:?}] END");
    text
}

fn time(since_1970: Duration, format: &str) -> String {
    let nanos = i128::try_from(since_1970.as_nanos()).unwrap_or_default();
    Timestamp::from_nanosecond(nanos).unwrap_or_default().strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_shows_the_steps_that_took_their_share() {
        let pod = PodRef { namespace: "default".into(), name: "a".into(), ..PodRef::default() };
        let now = Duration::from_millis(1_795_338_060_718);
        let milliseconds = Duration::from_millis;
        let steps =
            [("Computing predicates done".into(), milliseconds(120)), ("Prioritizing done".into(), milliseconds(30))];
        let text = trace(&pod, now, milliseconds(150), &steps);
        let number = text.split_once(']').expect("a number").0.replace("Trace[", "");
        let expected = "Trace[N]: \"Scheduling\" namespace:default,name:a (22-Nov-2026 09:01:00.568) (total time: 150ms):\n\
             Trace[N]: ---\"Computing predicates done\" 120ms (09:01:00.688)\n\
             Trace[N]: [150ms] [150ms] END";
        assert_eq!(text.replace(&format!("[{number}]"), "[N]"), expected);
    }
}
