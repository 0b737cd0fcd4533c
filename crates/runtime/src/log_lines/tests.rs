//! Every line has the verbosity and the keys of the table.

use std::collections::BTreeSet;

use berth_queue::QueueingStrategy;
use berth_telemetry::klog::lines::KubeLine;

use super::*;
use crate::heard::{Heard, Line};

fn lines_of(release: Release, occurrences: &[Occurrence]) -> Vec<Line> {
    let heard = Heard::new();
    occurrences.iter().for_each(|it| LogLines::of(release).line(it));
    heard.take()
}

fn pod() -> PodName {
    PodName { namespace: "x".into(), name: "a".into() }
}

fn moved(queue: SubQueue, cause: MoveCause, is_gated: bool) -> Occurrence {
    let rejected_by = vec!["A".into(), "B".into()];
    let event = "NodeAdd".into();
    Occurrence::PodMoved(Box::new(PodMoved { pod: pod(), event, queue, cause, is_gated, n_cycles: 7, rejected_by }))
}

fn all_occurrences() -> Vec<Occurrence> {
    let mut all = vec![
        Occurrence::PodPopped(pod()),
        Occurrence::DeletingPodSkipped(pod()),
        Occurrence::AttemptBegan(pod()),
        Occurrence::PostFilterRan { pod: pod(), status: "no victims".to_owned() },
        Occurrence::PreemptionTarget { pod: pod(), node: "n".into() },
        moved(SubQueue::Active, MoveCause::Event, false),
        moved(SubQueue::Unschedulable, MoveCause::Event, true),
        moved(SubQueue::Backoff, MoveCause::Updated, false),
        moved(SubQueue::Unschedulable, MoveCause::AttemptFailed(QueueingStrategy::Skip), false),
    ];
    for change in [ChangeType::Add, ChangeType::Update, ChangeType::Delete] {
        all.extend([false, true].map(|is_scheduled| Occurrence::PodEvent { pod: pod(), change, is_scheduled }));
        all.push(Occurrence::NodeEvent { node: "n".into(), change });
    }
    all
}

/// The name of a field as klog shows it.
fn key(field: &'static str) -> Option<&'static str> {
    match field {
        "namespace" => None,
        "entityType" => Some("type"),
        "nodeObject" => Some("node"),
        "rejectedBy" => Some("unschedulable plugins"),
        name => Some(name),
    }
}

#[test]
fn lines_have_the_verbosities_and_keys_of_the_table() {
    for (release, name) in [(Release::V1_36, "1.36"), (Release::V1_37, "1.37")] {
        let lines = lines_of(release, &all_occurrences());
        assert!(lines.len() >= all_occurrences().len());
        for Line { message, target, fields, .. } in lines {
            let keys: BTreeSet<&str> = fields.iter().copied().filter_map(key).collect();
            let is_it = |line: &&KubeLine| {
                line.message == message
                    && target == format!("berth::v{}", line.verbosity)
                    && ["all", name].contains(&line.releases)
                    && line.keys.iter().copied().collect::<BTreeSet<_>>() == keys
            };
            assert!(KubeLine::ALL.iter().any(|line| is_it(&line)), "{name}: {message} at {target} with {keys:?}");
        }
    }
}

#[test]
fn a_failed_attempt_has_its_own_line_and_one_for_the_place_to_which_the_pod_returns() {
    let failed = |queue, strategy| moved(queue, MoveCause::AttemptFailed(strategy), false);
    let targets = |occurrence| -> Vec<&str> {
        lines_of(Release::V1_36, &[occurrence]).into_iter().map(|line| line.target).collect()
    };
    assert_eq!(targets(failed(SubQueue::Unschedulable, QueueingStrategy::Skip)), [V3]);
    assert_eq!(targets(failed(SubQueue::Backoff, QueueingStrategy::AfterBackoff)), [V5, V3]);
}
