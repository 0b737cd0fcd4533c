//! The plugins as components.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use anyhow::Context;
use berth_framework::PluginFactory;
use berth_wasm_host::{Binary, Engine, EngineOptions};

use super::Execution;

/// The plugins as components. They are compiled once, and every case has its own instances.
#[derive(Debug)]
pub struct Wasm {
    factories: BTreeMap<String, Arc<dyn PluginFactory>>,
}

impl Wasm {
    /// Compiles the embedded components, which takes seconds.
    ///
    /// # Errors
    /// The host refuses a component.
    pub fn load() -> anyhow::Result<Self> {
        let embedded = berth_components::COMPONENTS.iter();
        Self::compile(embedded.map(|component| Binary::embedded(component.name, component.bytes())))
    }

    /// Compiles the `NAME.wasm` files of a folder. A plugin without a file is missing in this execution.
    ///
    /// # Errors
    /// A file cannot be read, or the host refuses it.
    pub fn load_from(dir: &Path) -> anyhow::Result<Self> {
        let mut binaries = Vec::new();
        for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "wasm")
                && let Some(name) = path.file_stem().and_then(|stem| stem.to_str())
            {
                let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
                binaries.push(Binary::new(name, bytes));
            }
        }
        Self::compile(binaries)
    }

    fn compile(binaries: impl IntoIterator<Item = Binary>) -> anyhow::Result<Self> {
        let engine = Engine::new(EngineOptions::default()).context("cannot run components")?;
        let mut factories: BTreeMap<String, Arc<dyn PluginFactory>> = BTreeMap::new();
        for binary in binaries {
            let factory = engine.load(&binary).with_context(|| format!("the component {}", binary.name()))?;
            factories.insert(binary.name().to_owned(), Arc::new(factory));
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
