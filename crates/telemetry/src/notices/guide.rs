//! The guide's table of the notes of events has the notes that the rows make, and no others.

use std::{collections::BTreeSet, time::Duration};

use berth_framework::{Share, TimeReport};
use berth_model::{BinaryId, Digest};

use super::{EventReason, Notice};
use crate::audit::By;

const GUIDE: &str = include_str!("../../../../docs/src/running.md");

const DIGEST: Digest = Digest::new([1; 32]);
const PREVIOUS: Digest = Digest::new([2; 32]);

/// A notice for each note. A word in capital letters stands for a part that differs.
fn notices() -> Vec<Notice> {
    let text = str::to_owned;
    let (reason, standing) = (|| text("REASON"), || text("STANDING"));
    let ordered =
        |order| Notice::Ordered { order, by: By::Operator { user: text("USER") }, refused: None, standing: standing() };
    let refused = Notice::Refused { digest: Some(DIGEST), file: text("FILE"), reason: reason(), standing: standing() };
    let not_swapped = Notice::NotSwapped {
        profile: text("PROFILE"),
        binary: None,
        reason: reason(),
        standing: standing(),
        is_told: false,
    };
    let swapped = Notice::Swapped {
        profile: text("PROFILE"),
        version: text("VERSION"),
        binary: BinaryId::Component(DIGEST),
        is_restart: false,
    };
    vec![
        refused,
        not_swapped,
        Notice::RolledBack { digest: DIGEST, to: Some(PREVIOUS), reason: reason() },
        Notice::Quarantined { digest: DIGEST, milliseconds: 30_000, reason: reason(), standing: standing() },
        Notice::Released { digest: DIGEST, standing: standing() },
        Notice::Restarting { digest: DIGEST, milliseconds: 2000, reason: reason() },
        Notice::PodsHeld { held: text("HELD"), reason: reason() },
        swapped,
        Notice::Withdrawn { profile: text("PROFILE"), reason: Some(reason()) },
        ordered("enable"),
        ordered("disable"),
        Notice::SettingsRefused { reason: reason() },
        Notice::ConfigurationRefused { reason: reason() },
    ]
}

/// The reports about the time of the scheduling thread, which are notes as they are.
fn time_reports() -> Vec<Notice> {
    let share = Share { per_second: Duration::from_millis(300), burst: Duration::from_millis(300) };
    let taken = |name: &str| vec![(name.to_owned(), Duration::from_millis(40))];
    let reports = [
        TimeReport::Plugin { plugin: "NAME".into(), share },
        TimeReport::AllPlugins { share, taken: taken("NAME") },
        TimeReport::Searches { share, taken: taken("NAMESPACE") },
        TimeReport::Namespace { namespace: "NAMESPACE".into(), share },
    ];
    reports.into_iter().map(Notice::OutOfTime).collect()
}

#[test]
fn the_log_names_the_operator_of_an_order() {
    let by = By::Operator { user: "ann".to_owned() };
    let ordered = Notice::Ordered { order: "reload", by, refused: None, standing: String::new() };
    let line = ordered.row("NAME").log.expect("a line");
    assert_eq!(line.fields.by.as_deref(), Some("operator ann"));
}

#[test]
fn the_guide_lists_the_notes_of_events() {
    let section = GUIDE.split("\n### Notes of events\n").nth(1).and_then(|rest| rest.split("\n### ").next());
    let rows = section.unwrap_or_default().lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
    let listed: BTreeSet<(String, String)> = rows
        .map(|(reason, note)| (reason.trim_matches('`').to_owned(), note.trim_matches([' ', '|', '`']).to_owned()))
        .collect();
    let made: BTreeSet<(String, String)> = notices()
        .into_iter()
        .chain(time_reports())
        .map(|notice| {
            let event = notice.row("NAME").event.expect("an event");
            let note = event.note.replace(&DIGEST.short(), "DIGEST").replace(&PREVIOUS.short(), "PREVIOUS");
            (event.reason.as_str().to_owned(), note)
        })
        .collect();
    assert_eq!(listed, made);
    let with_notes: BTreeSet<&str> = made.iter().map(|(reason, _)| reason.as_str()).collect();
    assert_eq!(with_notes, EventReason::ALL.iter().map(|reason| reason.as_str()).collect());
}
