//! The newest decisions of the scheduler, as many as fit in a number of bytes.

use std::{collections::VecDeque, hash::BuildHasher as _};

use rustc_hash::FxBuildHasher;

use crate::record::{DecisionRecord, NotBound};

/// The newest decisions, up to a maximum number of bytes.
#[derive(Debug, Default)]
pub struct DecisionRing {
    records: VecDeque<DecisionRecord>,
    /// The hash of each record's uid, in the order of the records. The scheduling thread waits while a decision is
    /// looked up, and a search in these hashes is faster than a search in the uids, which are spread over the memory.
    hashes: VecDeque<u64>,
    bytes: usize,
    max_bytes: usize,
}

impl DecisionRing {
    /// A ring with a maximum number of bytes. If this number is 0, no decision is kept.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, ..Self::default() }
    }

    /// Changes the maximum number of bytes, with immediate effect.
    pub fn set_max_bytes(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes;
        self.shrink();
    }

    /// Keeps a decision. If there is no room, the decision replaces the oldest decisions.
    pub fn push(&mut self, record: DecisionRecord) {
        self.bytes += record.bytes();
        self.hashes.push_back(hash(&record.uid));
        self.records.push_back(record);
        self.shrink();
    }

    /// Adds to the decision of this attempt why the pod was not bound. If the decision is no longer kept, nothing
    /// changes.
    pub fn not_bound(&mut self, uid: &str, attempt: u32, reason: NotBound) {
        let is_of_attempt = |record: &&mut DecisionRecord| *record.uid == *uid && record.attempt == attempt;
        let Some(record) = self.records.iter_mut().rev().find(is_of_attempt) else { return };
        self.bytes -= record.bytes();
        record.not_bound = Some(reason);
        self.bytes += record.bytes();
        self.shrink();
    }

    /// The decisions about the pod, the newest first, at most `n_most`.
    #[must_use]
    pub fn about(&self, uid: &str, n_most: usize) -> Vec<&DecisionRecord> {
        let wanted = hash(uid);
        let hashed = self.hashes.iter().zip(&self.records).rev();
        let mut found = Vec::new();
        for (_, record) in hashed.filter(|(hash, record)| **hash == wanted && *record.uid == *uid) {
            found.push(record);
            // No decision about the pod is older than its first attempt.
            if record.attempt == 1 || found.len() == n_most {
                break;
            }
        }
        found
    }

    /// The last `n_decisions` decisions, the newest first.
    pub fn newest(&self, n_decisions: usize) -> impl Iterator<Item = &DecisionRecord> {
        self.records.iter().rev().take(n_decisions)
    }

    /// The approximate size of the decisions in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of decisions that are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether no decision is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn shrink(&mut self) {
        while self.bytes > self.max_bytes
            && let Some(oldest) = self.records.pop_front()
        {
            self.hashes.pop_front();
            self.bytes -= oldest.bytes();
        }
    }
}

fn hash(uid: &str) -> u64 {
    FxBuildHasher.hash_one(uid)
}

#[cfg(test)]
mod tests {
    use berth_framework::CycleId;
    use berth_model::{PodUid, Time};

    use super::*;
    use crate::record::{Outcome, Sampled};

    fn record(number: u32) -> DecisionRecord {
        DecisionRecord {
            uid: PodUid::from(format!("uid-{number:03}")),
            at: Time(u64::from(number)),
            attempt: 1,
            brought_by: "NodeAdd".into(),
            outcome: Outcome::Rejected { message: "x".repeat(100) },
            sampled: Sampled::default(),
            best: Vec::new(),
            rejected: Vec::new(),
            not_bound: None,
            cycle: CycleId::default(),
            trace: None,
        }
    }

    #[test]
    fn ever_new_pods_leave_the_ring_within_its_bytes() {
        let bound = 10 * record(0).bytes();
        let mut ring = DecisionRing::new(bound);
        for number in 0..1_000 {
            ring.push(record(number));
            assert!(ring.bytes() <= bound);
        }
        assert_eq!((ring.len(), ring.hashes.len()), (10, 10));
        let last = |ring: &DecisionRing, uid: &str| ring.about(uid, 1).first().map(|record| (*record).clone());
        assert_eq!(last(&ring, "uid-989"), None, "the oldest give way");
        assert_eq!(last(&ring, "uid-990").map(|record| record.at), Some(Time(990)));
        assert_eq!(ring.newest(2).map(|record| record.at).collect::<Vec<_>>(), [Time(999), Time(998)]);
        let reason = |length| NotBound { point: None, plugin: None, message: "x".repeat(length) };
        ring.not_bound("uid-999", 2, reason(1));
        assert_eq!(last(&ring, "uid-999").map(|record| record.not_bound), Some(None), "of another attempt");
        ring.not_bound("uid-999", 1, reason(150));
        assert_eq!(last(&ring, "uid-999").map(|record| record.not_bound), Some(Some(reason(150))));
        assert!(ring.bytes() <= bound && ring.len() == 9, "{} bytes", ring.bytes());
        for attempt in 2..5 {
            ring.push(DecisionRecord { attempt, ..record(999) });
        }
        let attempts = |n_most| ring.about("uid-999", n_most).iter().map(|record| record.attempt).collect::<Vec<_>>();
        assert_eq!((attempts(10), attempts(2)), (vec![4, 3, 2, 1], vec![4, 3]));
        ring.set_max_bytes(0);
        assert!(ring.is_empty() && ring.bytes() == 0);
    }
}
