//! Replays requests that were recorded against a real API server and compares the answers.
//!
//! Each recording runs against a new sandbox, in the recorded order. Values that must vary (uids, versions, times) are
//! mapped or ignored. Objects of other actors are created from the answers that first show them.
//! `tests/recordings/differences.txt` lists every intended difference with a reason. The test fails for an unlisted
//! difference, and for an entry that no longer differs.

use std::collections::BTreeMap;

use crate::replay::{Outcome, replay};

const RECORDINGS: [&str; 7] =
    ["1-scheduler-writes", "2-pod-lifecycle", "3-watch", "4-list", "5-discovery", "7-crd", "8-admission"];

/// The listed differences, from (recording, position) to the reason.
fn listed() -> BTreeMap<(String, usize), String> {
    let lines =
        include_str!("../recordings/differences.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut fields = line.splitn(3, '\t');
            let recording = fields.next().expect("a recording").to_owned();
            let position = fields.next().expect("a position").parse().expect("a number");
            let reason = fields.next().expect("a reason").to_owned();
            assert!(reason.len() > 10, "{recording} {position} needs a reason");
            ((recording, position), reason)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_requests_get_the_recorded_answers() {
    let listed = listed();
    let mut problems = Vec::new();
    let (mut compared, mut equal, mut different, mut skipped) = (0, 0, 0, 0);
    let replays: Vec<_> = RECORDINGS.iter().map(|recording| (*recording, tokio::spawn(replay(recording)))).collect();
    for (recording, replay) in replays {
        for (position, (name, outcome)) in replay.await.expect("the replay runs").into_iter().enumerate() {
            let reason = listed.get(&(recording.to_owned(), position));
            match (outcome, reason) {
                (Outcome::Skipped, _) => skipped += 1,
                (Outcome::Equal, None) => equal += 1,
                (Outcome::Different(_), Some(_)) => different += 1,
                (Outcome::Equal, Some(reason)) => {
                    problems.push(format!("{recording} {position} ({name}) no longer differs, listed as: {reason}"));
                }
                (Outcome::Different(what), None) => {
                    problems.push(format!("{recording} {position} ({name}) differs:\n    {}", what.join("\n    ")));
                }
            }
        }
    }
    compared += equal + different;
    println!("{compared} exchanges compared: {equal} equal, {different} differ as listed; {skipped} skipped");
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}
