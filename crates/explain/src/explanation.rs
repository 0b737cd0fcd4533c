//! The explanation of one pod, as data.

use serde::{Deserialize, Serialize};

use crate::{analysis::Analysis, cause::Cause, earlier::EarlierAttempt, record::DecisionRecord, subject::Subject};

/// The reason why one pod is on its node, or waits. Later versions only add fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The reason in one word.
    pub reason: Cause,
    /// The reason in a sentence.
    pub message: String,
    /// The time that the explanation is about, in RFC 3339.
    pub as_of: String,
    /// The age of the explanation when it was sent, in milliseconds.
    pub age_milliseconds: u64,
    /// The pod and its state.
    #[serde(flatten)]
    pub subject: Subject,
    /// The last decision about the pod; `None` if this decision is no longer kept.
    pub decision: Option<DecisionRecord>,
    /// The age of `decision`, in milliseconds.
    pub decided_milliseconds_ago: Option<u64>,
    /// The attempts before `decision`, the newest first. Attempts whose decisions are no longer kept are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_attempts: Vec<EarlierAttempt>,
    /// The current answers of the plugins, on a copy of the cluster. If the pod has a node, the pod's own requests are
    /// left out of the copy.
    pub analysis: Option<Analysis>,
    /// The parts that cannot be explained, with the reasons.
    pub notes: Vec<String>,
}

impl Explanation {
    /// Explains the subject. `decision` is the last decision that is kept, with its age. `analysis` has the current
    /// answers of the plugins.
    #[must_use]
    pub fn new(subject: Subject, decision: Option<(DecisionRecord, u64)>, mut analysis: Option<Analysis>) -> Self {
        let reason = Cause::of(&subject, decision.as_ref().map(|(record, _)| record), analysis.as_ref());
        let (decision, decided_milliseconds_ago) = decision.unzip();
        let notes = analysis.as_mut().map(|analysis| std::mem::take(&mut analysis.notes)).unwrap_or_default();
        let mut explanation = Self {
            reason,
            message: String::new(),
            as_of: String::new(),
            age_milliseconds: 0,
            subject,
            decision,
            decided_milliseconds_ago,
            earlier_attempts: Vec::new(),
            analysis,
            notes,
        };
        explanation.message = explanation.sentence();
        explanation
    }
}
