//! Replays requests that were recorded against a real API server and compares the answers.
//!
//! Each recording runs against a fresh sandbox, in recorded order. What must vary (uids, versions, times) is mapped or
//! ignored; objects that other actors had made are put in place from the answers that first show them. Everything that
//! differs on purpose is in `tests/recordings/differences.txt` with a reason: a difference missing there fails the test, and so does an
//! entry that no longer differs.

use std::collections::BTreeMap;

use crate::replay::{Outcome, replay};

const RECORDINGS: [&str; 7] =
    ["1-scheduler-writes", "2-pod-lifecycle", "3-watch", "4-list", "5-discovery", "7-crd", "8-admission"];

/// The listed differences: (recording, position) to the reason.
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
