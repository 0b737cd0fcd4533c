//! A binary that is ready to make instances, in the form that the registry of plugins holds.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use berth_components::EmbeddedComponent;
use berth_framework::{PluginFactory, SchedulingTime};
use berth_lifecycle::{Component, CountCalls};
use berth_model::{BinaryId, Digest};
use berth_wasm_host::{Binary, ComponentFactory, Limits, PluginStats};

/// A binary that was compiled and checked.
#[derive(Clone, Debug)]
pub(crate) enum ReadyBinary {
    /// A plugin that is linked into this program. Its calls are not counted.
    Native(Arc<dyn PluginFactory>),
    Component(Arc<ComponentFactory>, Origin),
}

/// The source of a component, for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The artifact in a registry, by digest; `None` for a file and for the program's own binaries.
    pub reference: Option<String>,
    /// The signers that counted.
    pub signed_by: Vec<String>,
}

impl ReadyBinary {
    pub(crate) fn factory(&self) -> Arc<dyn PluginFactory> {
        match self {
            ReadyBinary::Native(factory) => Arc::clone(factory),
            ReadyBinary::Component(factory, _) => Arc::clone(factory) as _,
        }
    }

    /// A factory whose instances answer questions that decide nothing. Their time is charged to `time`.
    pub(crate) fn factory_for_questions(&self, time: &SchedulingTime) -> Arc<dyn PluginFactory> {
        match self {
            ReadyBinary::Native(factory) => Arc::clone(factory),
            ReadyBinary::Component(factory, _) => Arc::new(factory.for_questions(time)),
        }
    }

    /// The source of a component.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        match self {
            ReadyBinary::Native(_) => None,
            ReadyBinary::Component(_, origin) => Some(origin),
        }
    }

    /// The counters of a component.
    pub(crate) fn stats(&self) -> Option<&Arc<PluginStats>> {
        match self {
            ReadyBinary::Native(_) => None,
            ReadyBinary::Component(factory, _) => Some(factory.stats()),
        }
    }

    /// Sets other limits for instances from now on. Native code has no limits.
    pub(crate) fn set_limits(&mut self, limits: &Limits) {
        match self {
            ReadyBinary::Native(_) => {}
            ReadyBinary::Component(factory, _) => *factory = Arc::new(factory.with_limits(limits.clone())),
        }
    }
}

impl CountCalls for ReadyBinary {
    fn n_calls(&self) -> u64 {
        self.stats().map_or(0, |stats| stats.calls())
    }

    fn n_answers(&self) -> u64 {
        self.stats().map_or(0, |stats| stats.answers())
    }
}

/// A compiled component with its digest. A copy of a component of this program is treated as that component.
pub(crate) fn component(factory: Arc<ComponentFactory>, origin: Origin) -> Component<ReadyBinary> {
    let digest = factory.digest();
    let is_copy = is_own(&factory.manifest().name, Some(BinaryId::Component(digest)));
    let factory = if is_copy { Arc::new(factory.of_copy()) } else { factory };
    Component { digest, binary: ReadyBinary::Component(factory, origin) }
}

/// Whether the binary is this program's own binary of the built-in of this name.
pub fn is_own(name: &str, binary: Option<BinaryId>) -> bool {
    static EMBEDDED: LazyLock<BTreeMap<&str, Digest>> = LazyLock::new(|| {
        let digest = |it: &'static EmbeddedComponent| (it.name, Binary::embedded(it.name, it.bytes()).digest());
        berth_components::COMPONENTS.iter().map(digest).collect()
    });
    match binary {
        Some(BinaryId::Native) => true,
        Some(BinaryId::Component(digest)) => EMBEDDED.get(name) == Some(&digest),
        None => false,
    }
}
