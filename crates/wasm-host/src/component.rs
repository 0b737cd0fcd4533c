//! A component as all its instances share it: compiled, with its limits, its figures, and what it said about itself.

use std::sync::Arc;

use berth_framework::{Manifest, PluginVersion, Points};
use wasmtime::component::InstancePre;

use crate::{
    clock::Clock,
    exports::ExportIndices,
    fault::{Fault, FaultReport, FaultSink},
    host_state::HostState,
    limits::Limits,
    stats::PluginStats,
};

/// What all instances of a component share.
#[derive(Clone)]
pub(crate) struct LoadedComponent {
    pub(crate) pre: InstancePre<HostState>,
    pub(crate) indices: ExportIndices,
    pub(crate) limits: Limits,
    pub(crate) clock: Arc<Clock>,
    pub(crate) stats: Arc<PluginStats>,
    pub(crate) faults: FaultSink,
    /// As in the logs: the name by which the binary came.
    pub(crate) name: Arc<str>,
    pub(crate) manifest: Manifest,
    pub(crate) points: Points,
    pub(crate) version: PluginVersion,
}

impl std::fmt::Debug for LoadedComponent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LoadedComponent").field("version", &self.version).finish_non_exhaustive()
    }
}

impl LoadedComponent {
    /// Reports a fault of an instance in service.
    pub(crate) fn tell(&self, fault: &Fault) {
        self.faults.tell(FaultReport {
            plugin: self.name.to_string(),
            digest: self.version.digest.clone(),
            kind: fault.kind,
            reason: fault.to_string(),
        });
    }

    /// How messages name the plugin.
    pub(crate) fn title(&self) -> String {
        let PluginVersion { version, digest, .. } = &self.version;
        let digest = digest.get(..12).unwrap_or(digest);
        format!("plugin {:?} ({version}, {digest})", self.name)
    }
}
