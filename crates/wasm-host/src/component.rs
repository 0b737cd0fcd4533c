//! A component as all its instances share it: compiled, with its limits, its statistics, and its manifest.

use std::{sync::Arc, time::Duration};

use berth_framework::{Manifest, OutOfTime, PluginAccount, PluginVersion, Point, Points, SchedulingTime};
use berth_model::{BinaryId, Digest, PodUid};
use wasmtime::component::InstancePre;

use crate::{
    clock::Clock,
    exports::ExportIndices,
    fault::{FaultReport, FaultSink, InstanceFault},
    host_state::HostState,
    limits::Limits,
    log_budget::LogBudget,
    stats::PluginStats,
    ticker::Ticker,
};

/// The data that all instances of a component share.
#[derive(Clone)]
pub(crate) struct LoadedComponent {
    pub(crate) pre: InstancePre<HostState>,
    pub(crate) indices: ExportIndices,
    pub(crate) limits: Limits,
    pub(crate) clock: Arc<Clock>,
    pub(crate) ticker: Arc<Ticker>,
    pub(crate) stats: Arc<PluginStats>,
    /// The plugin's budget of time, shared by all of its binaries.
    pub(crate) account: PluginAccount,
    /// The plugin's budget of log lines, shared by all of its binaries.
    pub(crate) log_budget: Arc<LogBudget>,
    pub(crate) faults: FaultSink,
    /// The name of the binary, as in the logs.
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

    /// Whether pods that are alike may be asked about in one cycle. Points that distinguish pods need a cycle for each
    /// pod.
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

    /// Whether cycles may pass without a call into the plugin, so that the plugin may be informed of pods later.
    pub(crate) fn may_hear_later(&self) -> bool {
        const ASKED_SELDOM: [Point; 4] = [Point::PostFilter, Point::PreEnqueue, Point::QueueingHint, Point::Explain];
        self.indices.has_reuse()
            || Point::ALL.into_iter().all(|it| ASKED_SELDOM.contains(&it) || !self.points.contains(it))
    }

    /// Whether answers about rows stay the same while a cycle is shared, even when pods come and go.
    pub(crate) fn is_blind_to_pods(&self) -> bool {
        !self.manifest.needs.pods_matter()
    }

    /// Reports a fault of an instance in service. `start` is the time that the instance took to start.
    pub(crate) fn tell(&self, fault: &InstanceFault, start: Duration, pod: Option<PodUid>) {
        self.faults.tell(FaultReport {
            plugin: self.name.to_string(),
            digest: self.digest,
            kind: fault.kind,
            reason: fault.to_string(),
            took: start + fault.took,
            pod,
            stack: fault.stack.clone(),
        });
    }

    /// Charges a call on the scheduling thread.
    pub(crate) fn charge(&self, used: Duration) {
        if let Some(share) = self.limits.share {
            self.account.take(used, share);
        }
    }

    /// Whether the plugin may not be called for now.
    pub(crate) fn is_out_of_time(&self) -> bool {
        self.limits.share.is_some_and(|share| self.account.out_of_time(share).is_some())
    }

    /// The reason why the plugin is not called in the rest of the present step of a pod; `None` if it may be called.
    pub(crate) fn step_is_over(&self) -> Option<String> {
        let is_over = self.limits.share.is_some() && self.account.step_is_over();
        let milliseconds = SchedulingTime::STEP.as_millis();
        is_over.then(|| format!("{} is not asked: plugins have taken {milliseconds} ms of this attempt", self.title()))
    }

    /// The reason why the plugin may not be asked now; `None` if the plugin may be asked. A refused question is
    /// counted, and reported from time to time.
    pub(crate) fn out_of_time(&self) -> Option<(OutOfTime, String)> {
        let why = self.account.out_of_time(self.limits.share?)?;
        self.stats.record_out_of_time();
        self.account.was_not_asked(why);
        let reason = match why {
            OutOfTime::Plugin(share) => {
                let milliseconds = share.per_second.as_millis();
                format!("{} has used up its time, {milliseconds} ms of each second", self.title())
            }
            OutOfTime::AllPlugins(share) => {
                let milliseconds = share.per_second.as_millis();
                format!("{} waits: all plugins have used up their time, {milliseconds} ms of each second", self.title())
            }
        };
        Some((why, reason))
    }

    /// The name of the plugin in messages.
    pub(crate) fn title(&self) -> String {
        format!("plugin {:?} ({}, {})", self.name, self.manifest.version, self.digest.short())
    }
}
