//! Where the plugins under test come from.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Context;
use berth_framework::PluginFactory;
use berth_wasm_host::{Binary, Engine, EngineOptions};

/// One way to run the built-in plugins.
pub trait Execution {
    /// `native` or `wasm`, for the report.
    fn name(&self) -> &'static str;

    /// The factory of `plugin`; `None` for a plugin that does not exist yet.
    fn factory(&self, plugin: &str) -> Option<Arc<dyn PluginFactory>>;
}

/// The plugins as linked into this program.
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

/// The plugins as components, compiled once and run in instances of their own for every case.
#[derive(Debug)]
pub struct Wasm {
    factories: BTreeMap<&'static str, Arc<dyn PluginFactory>>,
}

impl Wasm {
    /// Compiles the embedded components, which takes seconds.
    ///
    /// # Errors
    /// A component that the host refuses.
    pub fn load() -> anyhow::Result<Self> {
        let engine = Engine::new(EngineOptions::default()).context("cannot run components")?;
        let mut factories: BTreeMap<&'static str, Arc<dyn PluginFactory>> = BTreeMap::new();
        for component in berth_components::COMPONENTS {
            let factory = engine.load(&Binary::new(component.name, component.bytes));
            let factory = factory.with_context(|| format!("the component {}", component.name))?;
            factories.insert(component.name, Arc::new(factory));
        }
        Ok(Self { factories })
    }
}

impl Execution for Wasm {
    fn name(&self) -> &'static str {
        "wasm"
    }

    fn factory(&self, plugin: &str) -> Option<Arc<dyn PluginFactory>> {
        self.factories.get(plugin).map(Arc::clone)
    }
}
