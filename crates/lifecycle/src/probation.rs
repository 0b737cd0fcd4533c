//! How a new binary does while it serves under observation. Times are those of service: waits for restarts do not count.

use berth_model::{
    Time,
    plugin_policy::{Probation, ProbationSpan},
};

use crate::policy::milliseconds;

/// How a probation has gone so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbationSoFar {
    since: Time,
    n_faults: u32,
}

/// When a probation is over, unless the binary faults too often before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbationEnd {
    /// At this moment, if the binary does not have to be restarted until then.
    At(Time),
    /// After so many more calls.
    AfterCalls(u64),
}

/// A binary faulted more often than probation allows.
#[derive(Debug, thiserror::Error)]
#[error("{n_faults} faults on probation, the last: {last}")]
pub(crate) struct FailedProbation {
    n_faults: u32,
    last: String,
}

impl ProbationSoFar {
    /// A binary is offered to the profiles.
    pub(crate) fn begin(now: Time) -> Self {
        Self { since: now, n_faults: 0 }
    }

    /// A profile took the binary: what it takes to be made does not count.
    pub(crate) fn served_since(self, now: Time) -> Self {
        Self { since: now, ..self }
    }

    /// Counts a fault.
    ///
    /// # Errors
    /// The fault was one too many: the binary gives way.
    pub(crate) fn fault(self, reason: &str, policy: &Probation) -> Result<Self, FailedProbation> {
        let n_faults = self.n_faults + 1;
        if n_faults > policy.faults {
            return Err(FailedProbation { n_faults, last: reason.to_owned() });
        }
        Ok(Self { n_faults, ..self })
    }

    /// When the probation is over. `n_calls` is how often the binary was called in all.
    pub(crate) fn end(self, policy: &Probation, n_calls: u64) -> ProbationEnd {
        match policy.span {
            ProbationSpan::Time(span) => ProbationEnd::At(self.since + milliseconds(span)),
            ProbationSpan::Calls(calls) => ProbationEnd::AfterCalls(calls.saturating_sub(n_calls)),
        }
    }

    /// Whether it has lasted long enough.
    pub(crate) fn is_over(self, policy: &Probation, now: Time, n_calls: u64) -> bool {
        match self.end(policy, n_calls) {
            ProbationEnd::At(end) => end <= now,
            ProbationEnd::AfterCalls(calls) => calls == 0,
        }
    }
}
