//! A binary that could serve under a plugin's name, and where it came from.

use std::{collections::BTreeMap, fmt, sync::Arc};

use berth_framework::PluginFactory;
use berth_wasm_host::{ComponentFactory, Limits};
use serde::Serialize;

/// Compiled and checked, ready to make instances.
#[derive(Clone, Debug)]
pub(crate) struct Binary {
    pub factory: Arc<dyn PluginFactory>,
    pub source: Source,
    /// `None` for native code, which nobody counts.
    pub figures: Option<Arc<dyn Figures>>,
    /// What `factory` is, for a component.
    pub component: Option<Arc<ComponentFactory>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Source {
    /// Linked into this program.
    Native,
    /// The component of a built-in that comes with this program.
    Embedded,
    /// A file of the plugins directory.
    Directory,
}

/// What is counted about a component.
pub(crate) trait Figures: fmt::Debug + Send + Sync {
    fn calls(&self) -> u64;
    /// By kind.
    fn faults(&self) -> BTreeMap<&'static str, u64>;
    fn dropped_log_lines(&self) -> u64;
}

impl Binary {
    pub(crate) fn digest(&self) -> String {
        self.factory.version().digest
    }

    /// From here on, instances have other limits. Native code has none.
    pub(crate) fn set_limits(&mut self, limits: &Limits) {
        if let Some(component) = &mut self.component {
            *component = Arc::new(component.with_limits(limits.clone()));
            self.factory = Arc::clone(component) as _;
        }
    }

    pub(crate) fn calls(&self) -> u64 {
        self.figures.as_ref().map_or(0, |figures| figures.calls())
    }
}
