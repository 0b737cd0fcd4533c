//! A component as all its instances share it: compiled, with its limits, its figures, and what it said about itself.

use std::sync::Arc;

use berth_framework::{Manifest, PluginVersion, Points};
use berth_model::{BinaryId, Digest};
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

    /// Reports a fault of an instance in service.
    pub(crate) fn tell(&self, fault: &Fault) {
        self.faults.tell(FaultReport {
            plugin: self.name.to_string(),
            digest: self.digest,
            kind: fault.kind,
            reason: fault.to_string(),
        });
    }

    /// How messages name the plugin.
    pub(crate) fn title(&self) -> String {
        format!("plugin {:?} ({}, {})", self.name, self.manifest.version, self.digest.short())
    }
}
