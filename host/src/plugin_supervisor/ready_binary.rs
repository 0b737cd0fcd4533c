//! A binary that is ready to make instances, as the registry of plugins holds it.

use std::sync::Arc;

use berth_framework::{PluginFactory, PluginVersion};
use berth_lifecycle::{BinaryId, Component, CountCalls};
use berth_model::Digest;
use berth_wasm_host::{ComponentFactory, Limits, PluginStats};

/// Compiled and checked.
#[derive(Clone, Debug)]
pub(crate) enum ReadyBinary {
    /// Linked into this program; nobody counts its calls.
    Native(Arc<dyn PluginFactory>),
    Component(Arc<ComponentFactory>),
}

impl ReadyBinary {
    pub(crate) fn factory(&self) -> Arc<dyn PluginFactory> {
        match self {
            ReadyBinary::Native(factory) => Arc::clone(factory),
            ReadyBinary::Component(factory) => Arc::clone(factory) as _,
        }
    }

    /// What is counted about a component.
    pub(crate) fn stats(&self) -> Option<&PluginStats> {
        match self {
            ReadyBinary::Native(_) => None,
            ReadyBinary::Component(factory) => Some(factory.stats()),
        }
    }

    /// From here on, instances have other limits. Native code has none.
    pub(crate) fn set_limits(&mut self, limits: &Limits) {
        match self {
            ReadyBinary::Native(_) => {}
            ReadyBinary::Component(factory) => *factory = Arc::new(factory.with_limits(limits.clone())),
        }
    }
}

impl CountCalls for ReadyBinary {
    fn n_calls(&self) -> u64 {
        self.stats().map_or(0, PluginStats::calls)
    }
}

/// A compiled component with its digest.
#[expect(clippy::expect_used, reason = "the digest of a component is always that of its bytes")]
pub(crate) fn component(factory: Arc<ComponentFactory>) -> Component<ReadyBinary> {
    let digest = digest(&factory.version()).expect("a component has a digest");
    Component { digest, binary: ReadyBinary::Component(factory) }
}

/// Which binary a version is of; `None` for a stand-in.
pub(crate) fn binary_id(version: &PluginVersion) -> Option<BinaryId> {
    match digest(version) {
        Some(digest) => Some(BinaryId::Component(digest)),
        None => (version.digest == "native").then_some(BinaryId::Native),
    }
}

fn digest(version: &PluginVersion) -> Option<Digest> {
    version.digest.parse().ok()
}
