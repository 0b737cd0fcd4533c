//! The watches as kube-scheduler's metrics show informers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use berth_cluster::WatchObserver;
use berth_model::KindRef;
use berth_telemetry::metrics::{InformerMetrics, Metrics};

/// The metrics of all kinds.
#[derive(Debug)]
pub(crate) struct Informers {
    metrics: Arc<Metrics>,
    of_kinds: Mutex<HashMap<KindRef, InformerMetrics>>,
}

/// A change that was taken from the queue and is being handled.
#[derive(Debug)]
pub(crate) struct Handling {
    metrics: InformerMetrics,
    began: Instant,
}

impl Informers {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, of_kinds: Mutex::default() }
    }

    /// Records that a change of the kind was taken from the queue.
    pub(crate) fn taken(&self, kind: &KindRef) -> Handling {
        let metrics = self.of_kind(kind);
        metrics.taken();
        Handling { metrics, began: Instant::now() }
    }

    fn of_kind(&self, kind: &KindRef) -> InformerMetrics {
        let mut of_kinds = self.of_kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = of_kinds.get(kind) {
            return known.clone();
        }
        // The server may not have told the plural yet.
        let made = self.metrics.informer(&kind.group, &kind.version, &kind.likely_plural());
        of_kinds.insert(kind.clone(), made.clone());
        made
    }

    /// Removes the metrics of a kind that is no longer watched. `is_it` recognises the kind under each of its names.
    pub(crate) fn forget(&self, is_it: impl Fn(&KindRef) -> bool) {
        let mut of_kinds = self.of_kinds.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, _) in of_kinds.extract_if(|kind, _| is_it(kind)) {
            self.metrics.remove_informer(&kind.group, &kind.version, &kind.likely_plural());
        }
    }
}

impl Handling {
    pub(crate) fn done(self) {
        self.metrics.handled(self.began.elapsed());
    }
}

impl WatchObserver for Informers {
    fn read_up_to(&self, kind: &KindRef, resource_version: &str) {
        self.of_kind(kind).read_up_to(resource_version);
    }

    fn queued(&self, kind: &KindRef) {
        self.of_kind(kind).queued();
    }
}
