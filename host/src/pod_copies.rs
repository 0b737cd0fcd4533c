//! What other threads may see of cache and queue: copies that the scheduling thread makes between two turns of its loop.

use std::{collections::HashMap, sync::Arc};

use berth_model::{Pod, Sym, Symbols, pod::Resources, requests::Requests};
use berth_scheduler::Scheduler;
use tokio::sync::oneshot;

use crate::cache_dump::Dump;

/// What the scheduling thread is asked to copy.
#[derive(Debug)]
pub(crate) enum View {
    /// Cache and queue, for the log.
    Dump(oneshot::Sender<Dump>),
    /// The pods that are known.
    Pods(oneshot::Sender<PodCopies>),
}

/// Pods at one moment. They are shared with the scheduler, and immutable; the texts of their symbols are copied.
#[derive(Debug, Default)]
pub(crate) struct PodCopies {
    pods: Vec<(Arc<Pod>, Option<Arc<Requests>>)>,
    texts: HashMap<Sym, Arc<str>>,
}

/// One pod with the texts that it needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodCopy<'a> {
    pod: &'a Pod,
    limits: Option<&'a Requests>,
    texts: &'a HashMap<Sym, Arc<str>>,
}

impl View {
    /// Copies what is asked for.
    pub(crate) fn answer(self, scheduler: &Scheduler) {
        // The asker may have left.
        match self {
            Self::Dump(answer) => drop(answer.send(Dump::of(scheduler))),
            Self::Pods(answer) if !answer.is_closed() => drop(answer.send(PodCopies::of(scheduler))),
            Self::Pods(_) => {}
        }
    }
}

impl From<oneshot::Sender<Dump>> for View {
    fn from(answer: oneshot::Sender<Dump>) -> Self {
        Self::Dump(answer)
    }
}

impl PodCopies {
    fn of(scheduler: &Scheduler) -> Self {
        Self::new(scheduler.pods(), &scheduler.cache().table().symbols)
    }

    fn new<'a>(pods: impl Iterator<Item = (&'a Arc<Pod>, Option<&'a Arc<Requests>>)>, symbols: &Symbols) -> Self {
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

    /// By namespace and name.
    pub(crate) fn sorted(mut self) -> Self {
        let Self { pods, texts } = &mut self;
        pods.sort_unstable_by(|(left, _), (right, _)| {
            (texts.get(&left.namespace), &left.name).cmp(&(texts.get(&right.namespace), &right.name))
        });
        self
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = PodCopy<'_>> {
        self.pods.iter().map(|(pod, limits)| PodCopy { pod, limits: limits.as_deref(), texts: &self.texts })
    }
}

impl<'a> PodCopy<'a> {
    pub(crate) fn name(&self) -> &'a str {
        &self.pod.name
    }

    pub(crate) fn namespace(&self) -> &'a str {
        self.text(self.pod.namespace)
    }

    /// Empty while it has none.
    pub(crate) fn node(&self) -> &'a str {
        self.text(self.pod.node_name)
    }

    pub(crate) fn scheduler(&self) -> &'a str {
        self.text(self.pod.scheduler_name)
    }

    pub(crate) fn priority(&self) -> i32 {
        self.pod.priority
    }

    /// What its spec requests, by name; CPU in thousandths.
    pub(crate) fn requests(&self) -> Vec<(&'a str, i64)> {
        let Resources { milli_cpu, memory, ephemeral_storage, scalars } = &self.pod.requests;
        let scalars = scalars.iter().map(|(name, amount)| (self.text(*name), *amount));
        by_name([*milli_cpu, *memory, *ephemeral_storage], scalars)
    }

    /// What it is limited to, by name; CPU in thousandths.
    pub(crate) fn limits(&self) -> Vec<(&'a str, i64)> {
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

#[cfg(test)]
pub(crate) mod tests {
    use berth_model::{api, intern};

    use super::*;

    /// What a scheduler would show that knows these pods.
    pub(crate) fn of(pods: impl IntoIterator<Item = serde_json::Value>) -> PodCopies {
        let mut symbols = Symbols::default();
        let read = |pod| serde_json::from_value::<api::Pod>(pod).expect("a pod");
        let interned = |api: api::Pod| {
            let limits = Requests::from_list(&berth_model::requests::pod_limits(&api));
            (Arc::new(intern::pod(&api, &mut symbols)), Arc::new(limits))
        };
        let pods: Vec<_> = pods.into_iter().map(read).map(interned).collect();
        PodCopies::new(pods.iter().map(|(pod, limits)| (pod, Some(limits))), &symbols)
    }
}
