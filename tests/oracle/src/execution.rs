//! The ways to run the plugins under test: natively, or as components.

#[cfg(feature = "wasm")]
mod wasm;

use std::sync::Arc;

use berth_framework::PluginFactory;

#[cfg(feature = "wasm")]
pub use self::wasm::{Wasm, artefacts_of_tests};

/// One way to run the built-in plugins.
pub trait Execution {
    /// `native` or `wasm`, for the report.
    fn name(&self) -> &'static str;

    /// The factory of `plugin`; `None` for a plugin that does not exist yet.
    fn factory(&self, plugin: &str) -> Option<Arc<dyn PluginFactory>>;
}

/// The plugins that are linked into this program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

impl Execution for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn factory(&self, plugin: &str) -> Option<Arc<dyn PluginFactory>> {
        berth_builtins::factory(plugin)
    }
}
