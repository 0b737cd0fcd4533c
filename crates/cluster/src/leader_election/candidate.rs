//! The records that one candidate for a Lease may write, depending on the Lease that it has seen.
//!
//! The module is pure: the caller passes in the candidate's own clock, which never goes back. The candidate never
//! compares its clock with the times in the Lease, which other machines wrote. A Lease counts as held until its
//! duration has passed since the candidate first saw it in its present form.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The part of a Lease's `spec` that an election uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LeaseRecord {
    /// The holder; empty after a release.
    pub(super) holder_identity: String,
    pub(super) lease_duration_seconds: u32,
    /// The time in `metav1.MicroTime`, for people to read.
    pub(super) acquire_time: String,
    pub(super) renew_time: String,
    /// The number of times that the Lease changed its holder.
    pub(super) lease_transitions: u32,
    /// The candidate that the coordinator wants to lead instead of the holder.
    pub(super) preferred_holder: Option<String>,
}

/// The answer of a candidate about the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Another candidate holds the Lease.
    Held { by: String },
    /// The coordinator has not chosen a holder, or the holder has not renewed the Lease in time.
    Unassigned,
    /// The candidate holds the Lease, and the coordinator prefers another candidate.
    EndOfTerm { preferred: String },
    /// Writing this record makes or keeps the candidate the leader, on condition that the Lease has not changed.
    Write(LeaseRecord),
}

#[derive(Debug)]
pub(super) struct Candidate {
    identity: String,
    lease_duration_seconds: u32,
    /// Whether only the coordinator gives the Lease to a candidate. Otherwise candidates take it.
    is_coordinated: bool,
    /// The Lease as last seen or written, and the time since which the Lease has not changed.
    observed: Option<(LeaseRecord, Duration)>,
}

impl Candidate {
    pub(super) fn new(identity: String, lease_duration: Duration, is_coordinated: bool) -> Self {
        let lease_duration_seconds = u32::try_from(lease_duration.as_secs()).unwrap_or(u32::MAX);
        Self { identity, lease_duration_seconds, is_coordinated, observed: None }
    }

    /// Takes in the Lease that was read; `None` if no Lease exists. `now` is the candidate's own clock, and `time` is
    /// the time of day to write.
    pub(super) fn look(&mut self, found: Option<LeaseRecord>, now: Duration, time: &str) -> Verdict {
        let Some(found) = found else {
            self.observed = None;
            return if self.is_coordinated { Verdict::Unassigned } else { Verdict::Write(self.record(time, time, 0)) };
        };
        let since = match &self.observed {
            Some((record, since)) if *record == found => *since,
            Some(_) | None => now,
        };
        let judge = if self.is_coordinated { Self::judge_coordinated } else { Self::judge };
        let verdict = judge(self, &found, now.saturating_sub(since), time);
        self.observed = Some((found, since));
        verdict
    }

    /// Records that the candidate wrote this record, and that no other candidate wrote before it.
    pub(super) fn wrote(&mut self, record: LeaseRecord, now: Duration) {
        self.observed = Some((record, now));
    }

    /// The record that renews the last seen Lease; `None` if the candidate does not hold this Lease.
    pub(super) fn renewal(&self, time: &str) -> Option<LeaseRecord> {
        let (record, _) = self.observed.as_ref()?;
        (record.holder_identity == self.identity && record.preferred_holder.is_none())
            .then(|| self.record(&record.acquire_time, time, record.lease_transitions))
    }

    /// The record that releases the Lease, so that others need not wait, as client-go's `release` writes it.
    pub(super) fn release(found: &LeaseRecord, time: &str) -> LeaseRecord {
        LeaseRecord {
            holder_identity: String::new(),
            lease_duration_seconds: 1,
            acquire_time: time.to_owned(),
            renew_time: time.to_owned(),
            lease_transitions: found.lease_transitions,
            preferred_holder: None,
        }
    }

    /// The decision of client-go's `tryCoordinatedRenew`.
    fn judge_coordinated(&self, found: &LeaseRecord, age: Duration, time: &str) -> Verdict {
        let is_over = age > Duration::from_secs(found.lease_duration_seconds.into());
        if is_over || found.holder_identity.is_empty() {
            return Verdict::Unassigned;
        }
        if found.holder_identity != self.identity {
            return Verdict::Held { by: found.holder_identity.clone() };
        }
        match found.preferred_holder.as_ref().filter(|preferred| !preferred.is_empty()) {
            Some(preferred) => Verdict::EndOfTerm { preferred: preferred.clone() },
            None => Verdict::Write(self.record(&found.acquire_time, time, found.lease_transitions)),
        }
    }

    fn judge(&self, found: &LeaseRecord, age: Duration, time: &str) -> Verdict {
        if found.holder_identity == self.identity {
            return Verdict::Write(self.record(&found.acquire_time, time, found.lease_transitions));
        }
        let is_over = age >= Duration::from_secs(found.lease_duration_seconds.into());
        if !found.holder_identity.is_empty() && !is_over {
            return Verdict::Held { by: found.holder_identity.clone() };
        }
        Verdict::Write(self.record(time, time, found.lease_transitions.saturating_add(1)))
    }

    fn record(&self, acquire_time: &str, renew_time: &str, lease_transitions: u32) -> LeaseRecord {
        LeaseRecord {
            holder_identity: self.identity.clone(),
            lease_duration_seconds: self.lease_duration_seconds,
            acquire_time: acquire_time.to_owned(),
            renew_time: renew_time.to_owned(),
            lease_transitions,
            preferred_holder: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn written(verdict: Verdict) -> LeaseRecord {
        match verdict {
            Verdict::Write(record) => record,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_lease_is_held_until_it_has_not_changed_for_its_duration() {
        let mut first = Candidate::new("first".into(), LEASE, false);
        let mut second = Candidate::new("second".into(), LEASE, false);
        let lease = written(first.look(None, seconds(1000), "t0"));
        assert_eq!((lease.lease_transitions, lease.lease_duration_seconds), (0, 15));
        first.wrote(lease.clone(), seconds(1000));
        // Each machine has its own clock.
        let held = Verdict::Held { by: "first".into() };
        assert_eq!(second.look(Some(lease.clone()), seconds(7), "t1"), held);
        let renewed = first.renewal("t2").expect("first leads");
        assert_eq!((renewed.acquire_time.as_str(), renewed.renew_time.as_str()), ("t0", "t2"));
        assert_eq!(second.look(Some(renewed.clone()), seconds(10), "t3"), held);
        assert_eq!(second.look(Some(renewed.clone()), seconds(24), "t4"), held);
        let taken = written(second.look(Some(renewed), seconds(25), "t5"));
        assert_eq!((taken.acquire_time.as_str(), taken.lease_transitions), ("t5", 1));
        assert_eq!(taken.holder_identity, "second");
    }

    #[test]
    fn a_released_lease_is_free_at_once() {
        let mut first = Candidate::new("first".into(), LEASE, false);
        let lease = written(first.look(None, seconds(0), "t0"));
        let released = Candidate::release(&lease, "t1");
        let mut second = Candidate::new("second".into(), LEASE, false);
        assert_eq!(written(second.look(Some(released), seconds(0), "t2")).lease_transitions, 1);
    }

    #[test]
    fn a_coordinated_lease_is_kept_and_never_taken() {
        let mut candidate = Candidate::new("first".into(), LEASE, true);
        assert_eq!(candidate.look(None, seconds(0), "t0"), Verdict::Unassigned, "only the coordinator creates it");
        let lease = |holder: &str, preferred: Option<&str>| LeaseRecord {
            holder_identity: holder.to_owned(),
            lease_duration_seconds: 15,
            acquire_time: "t1".to_owned(),
            renew_time: "t1".to_owned(),
            lease_transitions: 4,
            preferred_holder: preferred.map(str::to_owned),
        };
        assert_eq!(candidate.look(Some(lease("", None)), seconds(1), "t1"), Verdict::Unassigned);
        let held = Verdict::Held { by: "other".into() };
        assert_eq!(candidate.look(Some(lease("other", None)), seconds(2), "t2"), held);
        assert_eq!(candidate.look(Some(lease("other", None)), seconds(18), "t3"), Verdict::Unassigned, "it is over");
        let renewed = written(candidate.look(Some(lease("first", Some(""))), seconds(19), "t4"));
        assert_eq!((renewed.acquire_time.as_str(), renewed.renew_time.as_str()), ("t1", "t4"));
        assert_eq!(renewed.lease_transitions, 4, "the coordinator has counted the change");
        candidate.wrote(renewed, seconds(19));
        assert!(candidate.renewal("t5").is_some());
        let over = Verdict::EndOfTerm { preferred: "other".into() };
        assert_eq!(candidate.look(Some(lease("first", Some("other"))), seconds(21), "t6"), over);
        assert_eq!(candidate.renewal("t7"), None);
    }

    /// A step of one candidate, some tenths of a second after the previous step.
    #[derive(Clone, Debug)]
    struct Step {
        candidate: usize,
        tenths: u64,
        is_lost: bool,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = (0..3_usize, 0..40_u64, prop::bool::weighted(0.2));
        let step = step.prop_map(|(candidate, tenths, is_lost)| Step { candidate, tenths, is_lost });
        prop::collection::vec(step, 1..400)
    }

    proptest! {
        /// Candidates read and write at any time, or vanish for a while. A write succeeds if no other candidate wrote
        /// in between, and its answer may be lost. A candidate believes that it leads for the renew deadline since the
        /// start of its last successful write. Two candidates never believe this at the same time.
        #[test]
        fn there_is_never_more_than_one_leader(steps in steps(), offsets in prop::array::uniform3(0..1_000_u64)) {
            let renew_deadline = seconds(10);
            let mut lease: Option<LeaseRecord> = None;
            let mut version = 0_u64;
            let mut candidates = [0, 1, 2].map(|n| Candidate::new(format!("candidate-{n}"), LEASE, false));
            // For each candidate, the Lease that the candidate has read and not yet answered, and the time until which
            // the candidate believes that it leads.
            let mut read: [Option<(u64, LeaseRecord, Duration)>; 3] = [None, None, None];
            let mut leads_until = [Duration::ZERO; 3];
            let mut now = seconds(1);
            for (n, Step { candidate: who, tenths, is_lost }) in steps.into_iter().enumerate() {
                now += Duration::from_millis(100 * tenths);
                let own_clock = now + seconds(offsets[who]);
                match read[who].take() {
                    None => {
                        let verdict = candidates[who].look(lease.clone(), own_clock, &format!("t{n}"));
                        if let Verdict::Write(record) = verdict {
                            read[who] = Some((version, record, now));
                        }
                    }
                    Some((seen, record, began)) if seen == version => {
                        lease = Some(record.clone());
                        version += 1;
                        if !is_lost {
                            candidates[who].wrote(record, own_clock);
                            leads_until[who] = began + renew_deadline;
                        }
                    }
                    Some(_) => {}
                }
                let leaders = leads_until.iter().filter(|until| **until > now).count();
                prop_assert!(leaders <= 1, "{leaders} leaders at {now:?}: {leads_until:?}");
            }
        }
    }
}
