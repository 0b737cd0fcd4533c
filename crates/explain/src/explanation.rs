//! The explanation of one pod, as data.

use serde::{Deserialize, Serialize};

use crate::{analysis::Analysis, cause::Cause, record::DecisionRecord, subject::Subject};

/// Why one pod is where it is, or waits. Fields are only ever added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Why, in one word.
    pub reason: Cause,
    /// Why, in a sentence.
    pub message: String,
    /// The moment that this is about, as in RFC 3339.
    pub as_of: String,
    /// How old this was when it was sent, in milliseconds.
    pub age_milliseconds: u64,
    /// The pod, and where it is.
    #[serde(flatten)]
    pub subject: Subject,
    /// The last decision about the pod, if it is still kept.
    pub decision: Option<DecisionRecord>,
    /// How long ago that was made, in milliseconds.
    pub decided_milliseconds_ago: Option<u64>,
    /// What plugins say now, on a copy of the cluster. For a pod with a node it leaves out what the pod itself takes.
    pub analysis: Option<Analysis>,
    /// What cannot be said, and why.
    pub notes: Vec<String>,
}

impl Explanation {
    /// Explains the subject. `decision` is the last one that is kept, with its age; `analysis` what plugins say now.
    #[must_use]
    pub fn new(subject: Subject, decision: Option<(DecisionRecord, u64)>, analysis: Option<Analysis>) -> Self {
        let reason = Cause::of(&subject, analysis.as_ref());
        let (decision, decided_milliseconds_ago) = decision.unzip();
        let mut explanation = Self {
            reason,
            message: String::new(),
            as_of: String::new(),
            age_milliseconds: 0,
            subject,
            decision,
            decided_milliseconds_ago,
            analysis,
            notes: Vec::new(),
        };
        explanation.message = explanation.sentence();
        explanation
    }
}
