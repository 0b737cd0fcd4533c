//! A component as all its instances share it: compiled, with its limits, its figures, and what it said about itself.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use berth_framework::{Manifest, PluginVersion, Point, Points};
use berth_model::{BinaryId, Digest, PodUid};
use wasmtime::component::InstancePre;

use crate::{
    budget::Budget,
    clock::Clock,
    exports::ExportIndices,
    fault::{Fault, FaultReport, FaultSink},
    host_state::HostState,
    limits::Limits,
    stats::PluginStats,
    ticker::Ticker,
};

/// What all instances of a component share.
#[derive(Clone)]
pub(crate) struct LoadedComponent {
    pub(crate) pre: InstancePre<HostState>,
    pub(crate) indices: ExportIndices,
    pub(crate) limits: Limits,
    pub(crate) clock: Arc<Clock>,
    pub(crate) ticker: Arc<Ticker>,
    pub(crate) stats: Arc<PluginStats>,
    /// Of the plugin, whichever binary serves.
    pub(crate) budget: Arc<Budget>,
    pub(crate) faults: FaultSink,
    /// As in the logs: the name by which the binary came.
    pub(crate) name: Arc<str>,
    pub(crate) manifest: Manifest,
    pub(crate) points: Points,
    pub(crate) digest: Digest,
}

impl std::fmt::Debug for LoadedComponent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LoadedComponent").field("version", &self.version()).finish_non_exhaustive()
    }
}

impl LoadedComponent {
    pub(crate) fn version(&self) -> PluginVersion {
        let Manifest { name, version, .. } = &self.manifest;
        let binary = Some(BinaryId::Component(self.digest));
        PluginVersion { name: name.clone(), version: version.clone(), binary }
    }

    /// Whether pods that are alike may be asked about in one cycle: points that tell pods apart need a cycle for each.
    pub(crate) fn may_share_cycles(&self) -> bool {
        const OF_ONE_POD: [Point; 6] = [
            Point::PostFilter,
            Point::Reserve,
            Point::Permit,
            Point::PreBindPreFlight,
            Point::PreBind,
            Point::PostBind,
        ];
        !OF_ONE_POD.into_iter().any(|point| self.points.contains(point))
    }

    /// Whether cycles may pass without a call into the plugin: it need not hear of every pod at once.
    pub(crate) fn may_hear_later(&self) -> bool {
        const ASKED_SELDOM: [Point; 3] = [Point::PostFilter, Point::PreEnqueue, Point::QueueingHint];
        self.indices.has_reuse()
            || Point::ALL.into_iter().all(|it| ASKED_SELDOM.contains(&it) || !self.points.contains(it))
    }

    /// Whether answers about rows stay as they are while a cycle is shared, whatever pods come and go.
    pub(crate) fn is_blind_to_pods(&self) -> bool {
        !self.manifest.needs.pods_matter()
    }

    /// Reports a fault of an instance in service.
    pub(crate) fn tell(&self, fault: &Fault, pod: Option<PodUid>) {
        self.faults.tell(FaultReport {
            plugin: self.name.to_string(),
            digest: self.digest,
            kind: fault.kind,
            reason: fault.to_string(),
            took: fault.took,
            pod,
        });
    }

    /// A call on the scheduling thread took so long.
    pub(crate) fn charge(&self, used: Duration) {
        if let Some(share) = self.limits.share {
            self.budget.take(used, share, Instant::now());
        }
    }

    /// Whether the plugin may not be called for now.
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.limits.share.is_some_and(|share| self.budget.is_spent(share, Instant::now()))
    }

    /// Why the plugin may not be asked for now; `None`: it may.
    pub(crate) fn out_of_time(&self) -> Option<String> {
        let share = self.limits.share?;
        let now = Instant::now();
        if !self.budget.is_spent(share, now) {
            return None;
        }
        self.stats.record_out_of_time();
        let milliseconds = share.per_second.as_millis();
        let reason = format!("{} has used up its time, {milliseconds} ms of each second", self.title());
        if self.budget.is_to_be_told(now) {
            tracing::warn!(plugin = &*self.name, "{reason}; limits.millisecondsPerSecond would give it more");
        }
        Some(reason)
    }

    /// How messages name the plugin.
    pub(crate) fn title(&self) -> String {
        format!("plugin {:?} ({}, {})", self.name, self.manifest.version, self.digest.short())
    }
}
