//! The probation of a new binary, which serves under observation. Times are in time in service, so waits for restarts
//! do not count.

use berth_model::{
    Time,
    plugin_policy::{Probation, ProbationSpan},
};

use crate::{binary::CountCalls, policy::milliseconds};

/// The state of a probation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbationSoFar {
    since: Time,
    n_faults: u32,
    /// The number of questions about pods that the binary had answered at the time of its offer, or at its last fault.
    n_answers: u64,
}

/// The end of a probation. If the binary faults too often, the probation ends earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbationEnd {
    /// The probation ends at this moment, unless the binary must be restarted before. If `awaits_answer` holds, the
    /// binary has answered no question about a pod since its offer or its last fault, and the probation lasts until its
    /// first answer.
    At { moment: Time, awaits_answer: bool },
    /// The probation ends after this number of further calls.
    AfterCalls(u64),
}

/// A binary faulted more often than probation allows.
#[derive(Debug, thiserror::Error)]
#[error("{n_faults} faults on probation; the last was: {last}")]
pub(crate) struct FailedProbation {
    n_faults: u32,
    last: String,
}

impl ProbationSoFar {
    /// A probation that begins when a binary is offered to the profiles.
    pub(crate) fn begin(now: Time, binary: &impl CountCalls) -> Self {
        Self { since: now, n_faults: 0, n_answers: binary.n_answers() }
    }

    /// Begins the probation again when a profile took the binary, so that the time to make the first instance does not
    /// count.
    pub(crate) fn served_since(self, now: Time) -> Self {
        Self { since: now, ..self }
    }

    /// Counts a fault.
    ///
    /// # Errors
    /// The fault exceeds the allowed number, so the binary is replaced.
    pub(crate) fn fault(
        self,
        reason: &str,
        policy: &Probation,
        binary: &impl CountCalls,
    ) -> Result<Self, FailedProbation> {
        let n_faults = self.n_faults + 1;
        if n_faults > policy.faults {
            return Err(FailedProbation { n_faults, last: reason.to_owned() });
        }
        Ok(Self { n_faults, n_answers: binary.n_answers(), ..self })
    }

    /// The end of the probation. The probation continues until a pod is tried, because a binary without an answer
    /// proves nothing.
    pub(crate) fn end(self, policy: &Probation, binary: &impl CountCalls) -> ProbationEnd {
        match policy.span {
            ProbationSpan::Time(span) => ProbationEnd::At {
                moment: self.since + milliseconds(span),
                awaits_answer: binary.n_answers() <= self.n_answers,
            },
            ProbationSpan::Calls(calls) => ProbationEnd::AfterCalls(calls.saturating_sub(binary.n_calls())),
        }
    }

    /// Whether the probation has lasted long enough.
    pub(crate) fn is_over(self, policy: &Probation, now: Time, binary: &impl CountCalls) -> bool {
        match self.end(policy, binary) {
            ProbationEnd::At { moment, awaits_answer } => moment <= now && !awaits_answer,
            ProbationEnd::AfterCalls(calls) => calls == 0,
        }
    }
}
