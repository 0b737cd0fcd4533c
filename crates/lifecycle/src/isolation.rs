//! Isolation of pods. Pods over which a plugin faults are held back, so that the plugin can stay in service for all
//! other pods.
//!
//! Faults are counted by the owner of the pod ([`OwnerId`]), because a Deployment of a thousand pods that make a plugin
//! trap must not cost a thousand instances. After the second fault, the pods of the owner are held, and the plugin is
//! not asked about these pods. After the hold, one more fault leads to a hold that is twice as long.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{BinaryId, Digest, OwnerId, PodUid, Time};

/// The number of faults that do not lead to a hold.
const FORGIVEN: u32 = 1;

/// The length of the first hold, in milliseconds.
const FIRST_HOLD: u64 = 60_000;

/// The longest hold, in milliseconds.
const LONGEST_HOLD: u64 = 60 * 60 * 1000;

/// The time after the last hold at which an owner's record is deleted if no fault happened, in milliseconds.
const FORGOTTEN_AFTER: u64 = 10 * 60 * 1000;

/// The owners over whose pods a plugin faulted lately.
#[derive(Debug, Default)]
pub struct Isolation {
    owners: BTreeMap<OwnerId, Record>,
}

#[derive(Debug)]
struct Record {
    plugin: String,
    digest: Digest,
    /// The last fault, as a text that follows the plugin's name.
    reason: String,
    n_faults: u32,
    /// The time until which the pods are held. If the pods are not held, the time of the last fault.
    until: Time,
    /// The pods that were held and wait for the end of the hold.
    waiting: BTreeSet<PodUid>,
}

/// The reason why pods are held.
#[derive(Debug, PartialEq, Eq)]
pub struct Hold<'a> {
    plugin: &'a str,
    is_one_pod: bool,
    n_faults: u32,
    reason: &'a str,
}

impl<'a> Hold<'a> {
    /// The plugin that faulted. It is not asked about the held pods.
    #[must_use]
    pub fn plugin(&self) -> &'a str {
        self.plugin
    }

    /// The text for the conditions of the pods.
    #[must_use]
    pub fn message(&self) -> String {
        let Self { plugin, is_one_pod, n_faults, reason } = self;
        let (over, held) = if *is_one_pod { ("this pod", "the pod is") } else { ("pods of this owner", "they are") };
        format!(
            "plugin {plugin:?} faulted {n_faults} times over {over}, the last time it {reason}; {held} held back for a \
             while"
        )
    }
}

/// The hold of one owner's pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldOwner {
    /// The plugin that faulted over the pods.
    pub plugin: String,
    /// The text for the conditions of the pods.
    pub message: String,
    /// The time at which the pods are tried again.
    pub until: Time,
}

impl Isolation {
    /// Notes that a plugin faulted over a pod of this owner. Returns the number of milliseconds for which the pods of
    /// this owner are held; `None` if they are not held.
    pub fn faulted(&mut self, owner: OwnerId, plugin: &str, digest: Digest, reason: &str, now: Time) -> Option<u64> {
        let record = self.owners.entry(owner).or_insert_with(|| Record {
            plugin: String::new(),
            digest,
            reason: String::new(),
            n_faults: 0,
            until: now,
            waiting: BTreeSet::new(),
        });
        if record.plugin != plugin || record.digest != digest {
            (record.plugin, record.digest, record.n_faults) = (plugin.to_owned(), digest, 0);
        }
        reason.clone_into(&mut record.reason);
        record.n_faults += 1;
        let n_holds = record.n_faults.checked_sub(FORGIVEN + 1)?;
        let length = FIRST_HOLD.saturating_mul(1_u64.checked_shl(n_holds).unwrap_or(u64::MAX)).min(LONGEST_HOLD);
        record.until = now + length;
        Some(length)
    }

    /// The hold of this owner's pods; `None` if the pods are not held.
    #[must_use]
    pub fn hold(&self, owner: &OwnerId, now: Time) -> Option<Hold<'_>> {
        let record = self.owners.get(owner).filter(|record| now < record.until)?;
        let (plugin, is_one_pod) = (record.plugin.as_str(), owner.is_one_pod());
        Some(Hold { plugin, is_one_pod, n_faults: record.n_faults, reason: &record.reason })
    }

    /// Whether no owner has a record. If an owner has a record, its pods are held or may soon be held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Notes that a pod waits for the end of its owner's hold.
    pub fn wait(&mut self, owner: &OwnerId, pod: PodUid) {
        if let Some(record) = self.owners.get_mut(owner) {
            record.waiting.insert(pod);
        }
    }

    /// The pods whose hold is over. Old records are deleted.
    pub fn release(&mut self, now: Time) -> Vec<PodUid> {
        let mut released = Vec::new();
        for record in self.owners.values_mut().filter(|record| record.until <= now) {
            released.extend(std::mem::take(&mut record.waiting));
        }
        self.owners.retain(|_, record| now.since(record.until) < FORGOTTEN_AFTER);
        released
    }

    /// Notes that another binary answers for a plugin, and returns the pods that were held for the old binary. These
    /// pods may now succeed.
    pub fn replaced(&mut self, plugin: &str, binary: BinaryId) -> Vec<PodUid> {
        let is_concerned = |record: &Record| record.plugin == plugin && BinaryId::Component(record.digest) != binary;
        let records = self.owners.extract_if(.., |_, record| is_concerned(record));
        records.flat_map(|(_, record)| record.waiting).collect()
    }

    /// Notes that pods pass without the plugin, and returns the pods that waited for the end of a hold for its faults.
    /// The holds themselves remain, because the same binary may come back before they are over.
    pub fn passed(&mut self, plugin: &str) -> Vec<PodUid> {
        let records = self.owners.values_mut().filter(|record| record.plugin == plugin);
        records.flat_map(|record| std::mem::take(&mut record.waiting)).collect()
    }

    /// The owners whose pods are held.
    pub fn held(&self, now: Time) -> impl Iterator<Item = (OwnerId, HeldOwner)> {
        self.owners.iter().filter_map(move |(owner, record)| {
            let hold = self.hold(owner, now)?;
            let held = HeldOwner { plugin: hold.plugin.to_owned(), message: hold.message(), until: record.until };
            Some((owner.clone(), held))
        })
    }

    /// The number of owners whose pods are held, by plugin.
    #[must_use]
    pub fn n_held(&self, now: Time) -> BTreeMap<String, usize> {
        let mut n_held: BTreeMap<String, usize> = BTreeMap::new();
        for record in self.owners.values() {
            *n_held.entry(record.plugin.clone()).or_default() += usize::from(now < record.until);
        }
        n_held
    }

    /// The time at which [`Self::release`] next has pods to release.
    #[must_use]
    pub fn next_release(&self) -> Option<Time> {
        self.owners.values().filter(|record| !record.waiting.is_empty()).map(|record| record.until).min()
    }
}
