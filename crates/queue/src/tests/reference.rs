//! A reference that follows the description of the queue (`pkg/scheduler/backend/queue/scheduling_queue.go` in
//! kube-scheduler). The reference keeps one list of pods, and searches the whole list each time.

use std::collections::{BTreeMap, BTreeSet};

use crate::{PendingPods, SubQueue};

/// Plugins and the events for which they registered.
pub(super) const PLUGINS: [(&str, &[Happening]); 4] = [
    ("Fit", &[Happening::NodeAdd, Happening::PodDelete]),
    ("Gate", &[Happening::NodeLabel, Happening::PodLabel]),
    ("Claims", &[Happening::NodeAdd, Happening::NodeLabel]),
    ("Deaf", &[]),
];

/// The events in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Happening {
    NodeAdd,
    NodeLabel,
    PodDelete,
    /// The labels of a pending pod changed.
    PodLabel,
}

/// The answers of plugins, which are equal for the queue and its reference.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    /// Pods that `Gate` keeps out.
    pub(super) gated: BTreeSet<u8>,
    /// A number on which the answers of hints depend.
    pub(super) mood: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Active,
    Backoff { expiry: u64 },
    ErrorBackoff { expiry: u64 },
    Pool,
    InFlight,
}

/// The reason why an attempt failed: the plugins that rejected the pod, and the plugins that wait. If both are empty,
/// the attempt failed with an error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Why {
    pub(super) rejectors: &'static [&'static str],
    pub(super) pending: &'static [&'static str],
}

#[derive(Clone, Debug)]
pub(super) struct PodEntry {
    pub(super) place: Place,
    pub(super) priority: i8,
    pub(super) queued_at: u64,
    /// The order in which pods entered their places.
    arrival: u64,
    pub(super) attempts: u32,
    failures: u32,
    errors: u32,
    pub(super) rejectors: Vec<&'static str>,
    pub(super) pending: Vec<&'static str>,
    pub(super) is_gated: bool,
    pub(super) was_flushed: bool,
    /// The events since the pod's attempt began; `None` is an activation of the pod itself.
    seen: Vec<Option<Happening>>,
    /// The plugins that were replaced since the pod's attempt began.
    replaced: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Stay,
    AfterBackoff,
    Immediately,
}

#[derive(Debug, Default)]
pub(super) struct Reference {
    pub(super) pods: BTreeMap<u8, PodEntry>,
    pub(super) answers: Answers,
    pub(super) incoming: BTreeMap<(SubQueue, String), u64>,
    arrivals: u64,
    next_leftover: u64,
}

impl Answers {
    pub(super) fn hint(&self, plugin: &str, pod: u8, event: Happening) -> bool {
        let letters: usize = plugin.bytes().map(usize::from).sum();
        let pod = if Self::hints_alike(plugin) { kind(pod) } else { pod };
        !(letters + usize::from(pod) + event as usize + usize::from(self.mood)).is_multiple_of(3)
    }
}

impl Answers {
    /// Whether the plugin gives pods of one kind the same answer.
    pub(super) fn hints_alike(plugin: &str) -> bool {
        plugin == "Fit"
    }
}

/// Pods of one kind are equivalent.
pub(super) fn kind(pod: u8) -> u8 {
    pod % 3
}

impl Happening {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::NodeAdd => "NodeAdd",
            Self::NodeLabel => "NodeUpdateNodeLabel",
            Self::PodDelete => "AssignedPodDelete",
            Self::PodLabel => "UnschedulablePodUpdatePodLabel",
        }
    }
}

fn hears(plugin: &str, event: Happening) -> bool {
    PLUGINS.iter().any(|(name, events)| *name == plugin && events.contains(&event))
}

impl PodEntry {
    fn is_rejected(&self) -> bool {
        !self.rejectors.is_empty() || !self.pending.is_empty()
    }

    /// The time until which the pod backs off: one second, doubled with every failure, at most ten, cut to whole
    /// seconds.
    fn expiry(&self) -> Option<u64> {
        let count = if self.errors > 0 { self.errors } else { self.failures };
        let wait = 1000_u64.checked_shl(count.checked_sub(1)?).unwrap_or(10_000).min(10_000);
        Some((self.queued_at + if count > 32 { 10_000 } else { wait }) / 1000 * 1000)
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.place != Place::InFlight
    }
}

impl Reference {
    pub(super) fn add(&mut self, pod: u8, priority: i8, now: u64, label: &str) {
        if self.pods.contains_key(&pod) {
            return;
        }
        let entry = PodEntry {
            place: Place::Pool,
            priority,
            queued_at: now,
            arrival: 0,
            attempts: 0,
            failures: 0,
            errors: 0,
            rejectors: Vec::new(),
            pending: Vec::new(),
            is_gated: false,
            was_flushed: false,
            seen: Vec::new(),
            replaced: Vec::new(),
        };
        self.pods.insert(pod, entry);
        self.enter(pod, Verdict::Immediately, label, now);
    }

    pub(super) fn update(&mut self, pod: u8, priority: i8, events: &[Happening], now: u64) {
        let Some(entry) = self.pods.get_mut(&pod) else {
            return self.add(pod, priority, now, "UnschedulablePodUpdate");
        };
        if !entry.is_waiting() {
            return events.iter().for_each(|event| self.remember(Some(*event), None));
        }
        entry.priority = priority;
        if entry.place != Place::Pool {
            return;
        }
        for event in events {
            let verdict = self.verdict(pod, *event);
            if verdict != Verdict::Stay {
                return self.enter(pod, verdict, event.label(), now);
            }
        }
    }

    pub(super) fn pop(&mut self, now: u64) -> Option<u8> {
        let order = |pod: &u8| {
            let entry = &self.pods[pod];
            (entry.place, -i64::from(entry.priority), entry.queued_at, entry.arrival)
        };
        let ready = |pod: &u8| match self.pods[pod].place {
            Place::Active | Place::Backoff { .. } => true,
            Place::ErrorBackoff { .. } | Place::Pool | Place::InFlight => false,
        };
        // Places are ordered: activeQ comes before backoffQ, and in backoffQ the soonest end comes first.
        let first = self.pods.keys().copied().filter(ready).min_by_key(order)?;
        let entry = self.pods.get_mut(&first)?;
        if entry.place != Place::Active {
            if now <= entry.queued_at {
                return None;
            }
            *self.incoming.entry((SubQueue::Active, "PopFromBackoffQ".to_owned())).or_default() += 1;
        }
        entry.place = Place::InFlight;
        entry.attempts += 1;
        entry.seen.clear();
        entry.replaced.clear();
        Some(first)
    }

    pub(super) fn fail(&mut self, pod: u8, why: Why, now: u64) {
        let Some(entry) = self.pods.get_mut(&pod) else { return };
        entry.queued_at = now;
        entry.was_flushed = false;
        entry.is_gated = false;
        entry.rejectors = why.rejectors.to_vec();
        entry.pending = why.pending.to_vec();
        let is_rejected = entry.is_rejected();
        if is_rejected {
            entry.failures += 1;
            entry.errors = 0;
        } else {
            entry.errors += 1;
        }
        let seen = std::mem::take(&mut entry.seen);
        let replaced = std::mem::take(&mut entry.replaced);
        let is_replaced = why.rejectors.iter().chain(why.pending).any(|plugin| replaced.contains(plugin));
        let of_replaced = is_replaced.then_some(Verdict::AfterBackoff);
        let told = seen.into_iter().map(|event| event.map_or(Verdict::AfterBackoff, |event| self.verdict(pod, event)));
        let verdict =
            if is_rejected { told.chain(of_replaced).max().unwrap_or(Verdict::Stay) } else { Verdict::AfterBackoff };
        self.enter(pod, verdict, "ScheduleAttemptFailure", now);
    }

    /// Asks about every pod of the pool, in the order of arrival. Running attempts remember the event.
    pub(super) fn happen(&mut self, event: Happening, concerned: impl Fn(u8) -> bool, now: u64) {
        for pod in self.pool() {
            let is_kept_out = self.pods[&pod].is_gated && !hears("Gate", event);
            if concerned(pod) && !is_kept_out {
                self.enter_if(pod, self.verdict(pod, event), event.label(), now);
            }
        }
        self.remember(Some(event), None);
    }

    pub(super) fn activate(&mut self, pod: u8, now: u64) {
        let Some(entry) = self.pods.get(&pod) else { return };
        match entry.place {
            Place::Active => {}
            Place::Backoff { .. } | Place::ErrorBackoff { .. } => self.go_active(pod, "ForceActivate"),
            Place::Pool => self.enter(pod, Verdict::Immediately, "ForceActivate", now),
            Place::InFlight => self.remember(None, Some(pod)),
        }
    }

    pub(super) fn replace_plugin(&mut self, plugin: &'static str, now: u64) {
        for pod in self.pool() {
            let entry = &self.pods[&pod];
            if entry.rejectors.contains(&plugin) || entry.pending.contains(&plugin) {
                self.enter(pod, Verdict::AfterBackoff, "PluginReplaced", now);
            }
        }
        let in_flight = self.pods.values_mut().filter(|entry| !entry.is_waiting());
        in_flight.for_each(|entry| entry.replaced.push(plugin));
    }

    pub(super) fn flush(&mut self, now: u64) {
        let is_over = |expiry: u64| expiry < now / 1000 * 1000;
        let mut over: Vec<_> = Vec::new();
        for (pod, entry) in &self.pods {
            match entry.place {
                Place::Backoff { expiry } if is_over(expiry) => {
                    over.push((false, expiry, -i64::from(entry.priority), entry.queued_at, entry.arrival, *pod));
                }
                Place::ErrorBackoff { expiry } if is_over(expiry) => {
                    over.push((true, expiry, 0, 0, entry.arrival, *pod))
                }
                Place::Active | Place::Backoff { .. } | Place::ErrorBackoff { .. } | Place::Pool | Place::InFlight => {}
            }
        }
        over.sort_unstable();
        over.iter().for_each(|(.., pod)| self.go_active(*pod, "BackoffComplete"));
        if now < self.next_leftover {
            return;
        }
        self.next_leftover = now + 30_000;
        for pod in self.pool() {
            if let Some(entry) = self.pods.get_mut(&pod)
                && !entry.is_gated
                && now - entry.queued_at > 300_000
            {
                entry.was_flushed = true;
                self.enter(pod, Verdict::AfterBackoff, "UnschedulableTimeout", now);
            }
        }
    }

    pub(super) fn sizes(&self) -> PendingPods {
        let count = |is_one: fn(&PodEntry) -> bool| self.pods.values().filter(|entry| is_one(entry)).count();
        PendingPods {
            active: count(|entry| entry.place == Place::Active),
            backoff: count(|entry| matches!(entry.place, Place::Backoff { .. } | Place::ErrorBackoff { .. })),
            unschedulable: count(|entry| entry.place == Place::Pool && !entry.is_gated),
            gated: count(|entry| entry.place == Place::Pool && entry.is_gated),
        }
    }

    /// The time at which something changes even if no event comes.
    pub(super) fn next_wakeup(&self) -> Option<u64> {
        let due = |entry: &PodEntry| match entry.place {
            Place::Backoff { expiry } | Place::ErrorBackoff { expiry } => Some(expiry + 1000),
            Place::Pool => Some(self.next_leftover),
            Place::Active | Place::InFlight => None,
        };
        self.pods.values().filter_map(due).min()
    }

    fn pool(&self) -> Vec<u8> {
        let mut pool: Vec<(u64, u8)> = Vec::new();
        pool.extend(
            self.pods.iter().filter(|(_, entry)| entry.place == Place::Pool).map(|(pod, entry)| (entry.arrival, *pod)),
        );
        pool.sort_unstable();
        pool.into_iter().map(|(_, pod)| pod).collect()
    }

    fn remember(&mut self, event: Option<Happening>, only: Option<u8>) {
        let in_flight = self.pods.iter_mut().filter(|(_, entry)| !entry.is_waiting());
        in_flight
            .filter(|(pod, _)| only.is_none_or(|only| only == **pod))
            .for_each(|(_, entry)| entry.seen.push(event));
    }

    fn verdict(&self, pod: u8, event: Happening) -> Verdict {
        let entry = &self.pods[&pod];
        if !entry.is_rejected() {
            return Verdict::AfterBackoff;
        }
        let says = |plugin: &&str| hears(plugin, event) && self.answers.hint(plugin, pod, event);
        if entry.pending.iter().any(says) {
            Verdict::Immediately
        } else if entry.rejectors.iter().any(says) {
            Verdict::AfterBackoff
        } else {
            Verdict::Stay
        }
    }

    fn enter_if(&mut self, pod: u8, verdict: Verdict, label: &str, now: u64) {
        if verdict != Verdict::Stay {
            self.enter(pod, verdict, label, now);
        }
    }

    fn enter(&mut self, pod: u8, verdict: Verdict, label: &str, now: u64) {
        let is_gated = self.answers.gated.contains(&pod);
        let Some(entry) = self.pods.get_mut(&pod) else { return };
        if verdict != Verdict::Stay {
            entry.is_gated = is_gated;
            if is_gated && !entry.rejectors.contains(&"Gate") {
                entry.rejectors.push("Gate");
            }
        }
        if verdict == Verdict::Stay || is_gated {
            return self.go(pod, Place::Pool, label);
        }
        let backoff = entry.expiry().filter(|expiry| *expiry >= now / 1000 * 1000);
        match backoff {
            Some(expiry) if verdict == Verdict::AfterBackoff && entry.is_rejected() => {
                self.go(pod, Place::Backoff { expiry }, label);
            }
            Some(expiry) if verdict == Verdict::AfterBackoff => self.go(pod, Place::ErrorBackoff { expiry }, label),
            _ => self.go_active(pod, label),
        }
    }

    fn go_active(&mut self, pod: u8, label: &str) {
        self.go(pod, Place::Active, label);
    }

    fn go(&mut self, pod: u8, place: Place, label: &str) {
        self.arrivals += 1;
        let Some(entry) = self.pods.get_mut(&pod) else { return };
        entry.arrival = self.arrivals;
        entry.place = place;
        let queue = match place {
            Place::Active => SubQueue::Active,
            Place::Backoff { .. } | Place::ErrorBackoff { .. } => SubQueue::Backoff,
            Place::Pool | Place::InFlight => SubQueue::Unschedulable,
        };
        *self.incoming.entry((queue, label.to_owned())).or_default() += 1;
    }
}
