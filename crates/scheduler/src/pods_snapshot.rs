//! What other threads may see of the pods that the scheduler knows: a snapshot that the scheduling thread makes between two turns of
//! its loop. Endpoints, and whatever shows the scheduler to people, read it.

use std::{collections::HashMap, sync::Arc};

use berth_model::{Pod, Sym, Symbols, pod::Resources, requests::Requests};

use crate::Scheduler;

/// Pods at one moment. They are shared with the scheduler, and immutable; the texts of their symbols are copied.
#[derive(Debug, Default)]
pub struct PodsSnapshot {
    pods: Vec<(Arc<Pod>, Option<Arc<Requests>>)>,
    texts: HashMap<Sym, Arc<str>>,
}

/// One pod with the texts that it needs.
#[derive(Clone, Copy, Debug)]
pub struct PodView<'a> {
    pod: &'a Pod,
    limits: Option<&'a Requests>,
    texts: &'a HashMap<Sym, Arc<str>>,
}

impl PodsSnapshot {
    /// All pods of queue and cache.
    #[must_use]
    pub fn of(scheduler: &Scheduler) -> Self {
        Self::new(scheduler.pods(), &scheduler.cache().table().symbols)
    }

    /// These pods with their limits, whose symbols are those.
    #[must_use]
    pub fn new<'a>(pods: impl Iterator<Item = (&'a Arc<Pod>, Option<&'a Arc<Requests>>)>, symbols: &Symbols) -> Self {
        let mut copies = Self::default();
        for (pod, limits) in pods {
            let scalars = pod.requests.scalars.iter().map(|(name, _)| *name);
            for sym in [pod.namespace, pod.node_name, pod.scheduler_name].into_iter().chain(scalars) {
                copies.texts.entry(sym).or_insert_with(|| symbols.shared_text(sym));
            }
            copies.pods.push((Arc::clone(pod), limits.cloned()));
        }
        copies
    }

    /// Sorts them by namespace and name.
    #[must_use]
    pub fn sorted(mut self) -> Self {
        let Self { pods, texts } = &mut self;
        pods.sort_unstable_by(|(left, _), (right, _)| {
            (texts.get(&left.namespace), &left.name).cmp(&(texts.get(&right.namespace), &right.name))
        });
        self
    }

    /// In the order of the last sort, or none.
    pub fn iter(&self) -> impl Iterator<Item = PodView<'_>> {
        self.pods.iter().map(|(pod, limits)| PodView { pod, limits: limits.as_deref(), texts: &self.texts })
    }
}

impl<'a> PodView<'a> {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.pod.name
    }

    /// Its namespace.
    #[must_use]
    pub fn namespace(&self) -> &'a str {
        self.text(self.pod.namespace)
    }

    /// The node that it is on or assumed to be on; empty while it has none.
    #[must_use]
    pub fn node(&self) -> &'a str {
        self.text(self.pod.node_name)
    }

    /// The `schedulerName` of its spec.
    #[must_use]
    pub fn scheduler(&self) -> &'a str {
        self.text(self.pod.scheduler_name)
    }

    /// Its priority.
    #[must_use]
    pub fn priority(&self) -> i32 {
        self.pod.priority
    }

    /// What its spec requests, by name; CPU in thousandths.
    #[must_use]
    pub fn requests(&self) -> Vec<(&'a str, i64)> {
        let Resources { milli_cpu, memory, ephemeral_storage, scalars } = &self.pod.requests;
        let scalars = scalars.iter().map(|(name, amount)| (self.text(*name), *amount));
        by_name([*milli_cpu, *memory, *ephemeral_storage], scalars)
    }

    /// What it is limited to, by name; CPU in thousandths.
    #[must_use]
    pub fn limits(&self) -> Vec<(&'a str, i64)> {
        let Some(Requests { milli_cpu, memory, ephemeral_storage, scalars }) = self.limits else { return Vec::new() };
        let scalars = scalars.iter().map(|(name, amount)| (name.as_str(), *amount));
        by_name([*milli_cpu, *memory, *ephemeral_storage], scalars)
    }

    fn text(&self, sym: Sym) -> &'a str {
        self.texts.get(&sym).map_or("", |text| text)
    }
}

/// Amounts other than zero.
fn by_name<'a>(
    [milli_cpu, memory, ephemeral_storage]: [i64; 3],
    scalars: impl Iterator<Item = (&'a str, i64)>,
) -> Vec<(&'a str, i64)> {
    let usual = [("cpu", milli_cpu), ("memory", memory), ("ephemeral-storage", ephemeral_storage)];
    let mut amounts: Vec<_> = usual.into_iter().chain(scalars).filter(|(_, amount)| *amount != 0).collect();
    amounts.sort_unstable();
    amounts
}
