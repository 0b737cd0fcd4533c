//! The attempts before the last attempt.

use std::sync::Arc;

use berth_model::{Time, serde_with::shared_text};
use serde::{Deserialize, Serialize};

use crate::record::{DecisionRecord, NotBound, Outcome};

/// An attempt of the same pod before the last attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EarlierAttempt {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The age of the decision, in milliseconds.
    pub milliseconds_ago: u64,
    /// [`DecisionRecord::brought_by`].
    #[serde(default, with = "shared_text", skip_serializing_if = "str::is_empty")]
    pub brought_by: Arc<str>,
    /// The result of the decision.
    pub outcome: Outcome,
    /// [`DecisionRecord::not_bound`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_bound: Option<NotBound>,
}

impl EarlierAttempt {
    /// The attempt of a decision that is kept. `now` is the time by the scheduler's clock.
    #[must_use]
    pub fn of(record: &DecisionRecord, now: Time) -> Self {
        Self {
            attempt: record.attempt,
            milliseconds_ago: now.since(record.at),
            brought_by: Arc::clone(&record.brought_by),
            outcome: record.outcome.clone(),
            not_bound: record.not_bound.clone(),
        }
    }
}
