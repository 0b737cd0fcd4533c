//! The spans of attempts and their steps in OpenTelemetry's form. Extension points, plugins and codes have the names
//! that they have in metrics.

use berth_framework::{Code, Profile, TracedSpan};
use berth_otlp::{Span, SpanEvent, SpanKind, Value};
use berth_scheduler::{AttemptOutcome, AttemptResult, PodRef, TracedAttempt};
use berth_telemetry::clock::unix_nanos;

use super::ids::{Place, TraceIds};

/// The name of the span of a whole attempt.
const ATTEMPT: &str = "Scheduling";

/// The span of a step, or of a plugin's call in it.
pub(super) fn of_step(ids: &TraceIds, profile: &Profile, span: &TracedSpan) -> Span {
    let Place { trace, id, parent } = ids.of_step(span);
    let TracedSpan { name, call, code, start, end, .. } = *span;
    let mut attributes: Vec<(&'static str, Value)> =
        vec![("extension_point", name.into()), ("status", code.as_str().into())];
    let name = match call {
        None => name.into(),
        Some(call) => {
            let plugin = profile.name(call.plugin);
            attributes.push(("plugin", plugin.into()));
            format!("{name}/{plugin}").into()
        }
    };
    let error = (code == Code::Error).then(String::new);
    let (start, end, events) = (unix_nanos(start), unix_nanos(end), Vec::new());
    Span { trace, id, parent, name, kind: SpanKind::Internal, start, end, attributes, events, error }
}

/// The span of a whole attempt.
pub(super) fn of_attempt(ids: &TraceIds, attempt: TracedAttempt) -> Span {
    let Place { trace, id, parent } = ids.of_attempt(attempt.cycle);
    let TracedAttempt { cycle: _, pod, scheduler_name, number, node, outcome, preemption, start, end } = attempt;
    let (start, end) = (unix_nanos(start), unix_nanos(end));
    let mut attributes = of_pod(&pod);
    attributes.push(("profile", (&scheduler_name).into()));
    attributes.push(("attempt", number.into()));
    attributes.extend(node.map(|node| ("k8s.node.name", node.into())));
    let error = add_outcome(outcome, &mut attributes);
    let events = preemption.into_iter().map(|preemption| {
        let mut attributes: Vec<(&'static str, Value)> = vec![("victims", preemption.victims.into())];
        attributes.extend(preemption.node.map(|node| ("k8s.node.name", node.into())));
        SpanEvent { name: "Preemption", at: end, attributes }
    });
    let (name, kind, events) = (ATTEMPT.into(), SpanKind::Internal, events.collect());
    Span { trace, id, parent, name, kind, start, end, attributes, events, error }
}

/// The attributes of a pod (<https://opentelemetry.io/docs/specs/semconv/resource/k8s/#pod>).
fn of_pod(pod: &PodRef) -> Vec<(&'static str, Value)> {
    vec![
        ("k8s.namespace.name", (&pod.namespace).into()),
        ("k8s.pod.name", (&pod.name).into()),
        ("k8s.pod.uid", pod.uid.to_string().into()),
    ]
}

/// Adds the outcome, and returns the error if the attempt broke. A pod that fits nowhere is not an error.
fn add_outcome(outcome: Option<AttemptOutcome>, attributes: &mut Vec<(&'static str, Value)>) -> Option<String> {
    let mut result = |result: AttemptResult| attributes.push(("result", result.as_str().into()));
    match outcome {
        None => attributes.push(("result", "abandoned".into())),
        Some(AttemptOutcome::Bound { node: _, n_evaluated, n_feasible }) => {
            result(AttemptResult::Scheduled);
            attributes.push(("evaluated_nodes", n_evaluated.into()));
            attributes.push(("feasible_nodes", n_feasible.into()));
        }
        Some(AttemptOutcome::EmptyCluster) => result(AttemptResult::Unschedulable),
        Some(AttemptOutcome::Unschedulable { message }) => {
            result(AttemptResult::Unschedulable);
            attributes.push(("message", message.into()));
        }
        Some(AttemptOutcome::Failed { message, is_fault: _ }) => {
            result(AttemptResult::Error);
            return Some(message);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use berth_framework::CycleId;
    use berth_scheduler::TracedPreemption;

    use super::*;

    fn attempt(outcome: Option<AttemptOutcome>) -> TracedAttempt {
        TracedAttempt {
            cycle: CycleId(1),
            pod: PodRef { namespace: "default".into(), name: "web".into(), uid: "u".into(), ..PodRef::default() },
            scheduler_name: "berth".into(),
            number: 2,
            node: None,
            outcome,
            preemption: None,
            start: Duration::from_millis(1),
            end: Duration::from_millis(3),
        }
    }

    fn attribute<'a>(attributes: &'a [(&str, Value)], name: &str) -> Option<&'a Value> {
        attributes.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    #[test]
    fn an_attempt_has_the_pod_and_the_outcome() {
        let ids = TraceIds::new(7);
        let bound = AttemptOutcome::Bound { node: "n0".into(), n_evaluated: 3, n_feasible: 2 };
        let span = of_attempt(&ids, TracedAttempt { node: Some("n0".to_owned()), ..attempt(Some(bound)) });
        assert_eq!(span.end - span.start, 2_000_000);
        for (name, value) in [
            ("k8s.namespace.name", Value::Shared("default".into())),
            ("k8s.pod.name", Value::Shared("web".into())),
            ("k8s.pod.uid", Value::Text("u".to_owned())),
            ("k8s.node.name", Value::Text("n0".to_owned())),
            ("result", Value::Static("scheduled")),
            ("attempt", Value::Number(2)),
            ("feasible_nodes", Value::Number(2)),
        ] {
            assert_eq!(attribute(&span.attributes, name), Some(&value), "{name}");
        }
        assert_eq!(span.error, None);
        let abandoned = of_attempt(&ids, attempt(None));
        assert_eq!(attribute(&abandoned.attributes, "result"), Some(&Value::Static("abandoned")));
    }

    #[test]
    fn only_an_attempt_that_broke_is_an_error() {
        let ids = TraceIds::new(7);
        let message = "no".to_owned();
        let failed = AttemptOutcome::Failed { message: message.clone(), is_fault: false };
        assert_eq!(of_attempt(&ids, attempt(Some(failed))).error, Some(message.clone()));
        let preemption = TracedPreemption { node: Some("n1".to_owned()), victims: vec!["default/low".to_owned()] };
        let unschedulable = AttemptOutcome::Unschedulable { message };
        let span = of_attempt(&ids, TracedAttempt { preemption: Some(preemption), ..attempt(Some(unschedulable)) });
        assert_eq!(span.error, None);
        let [event] = span.events.as_slice() else { panic!("{:?}", span.events) };
        assert_eq!(attribute(&event.attributes, "victims"), Some(&Value::Texts(vec!["default/low".to_owned()])));
        assert_eq!(attribute(&event.attributes, "k8s.node.name"), Some(&Value::Text("n1".to_owned())));
    }
}
