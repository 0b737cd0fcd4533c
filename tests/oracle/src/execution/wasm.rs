//! The plugins as components.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use berth_framework::PluginFactory;
use berth_wasm_host::{Binary, Engine, EngineOptions};

use super::Execution;

/// The plugins as components. They are compiled once, and every case has its own instances.
#[derive(Debug)]
pub struct Wasm {
    factories: BTreeMap<String, Arc<dyn PluginFactory>>,
}

/// The directory of compiled components that tests share, inside cargo's directory for integration tests
/// (`CARGO_TARGET_TMPDIR`). The `berth` processes in the tests of `host` use the same directory.
#[must_use]
pub fn artefacts_of_tests(tmpdir: &str) -> PathBuf {
    Path::new(tmpdir).join("cache").join("berth").join("plugins")
}

impl Wasm {
    /// Compiles the embedded components, which takes half a minute in a debug build. With a directory for artefacts,
    /// compiled components are kept in the directory and used again.
    ///
    /// # Errors
    /// The host refuses a component, or the directory cannot be used.
    pub fn load(artefacts: Option<&Path>) -> anyhow::Result<Self> {
        let embedded = berth_components::COMPONENTS.iter();
        Self::compile(embedded.map(|component| Binary::embedded(component.name, component.bytes())), artefacts)
    }

    /// Compiles the `NAME.wasm` files of a folder. A plugin without a file is missing in this execution. `artefacts` is
    /// as in [`Self::load`].
    ///
    /// # Errors
    /// A file cannot be read, the host refuses it, or the directory for artefacts cannot be used.
    pub fn load_from(dir: &Path, artefacts: Option<&Path>) -> anyhow::Result<Self> {
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
        Self::compile(binaries, artefacts)
    }

    fn compile(binaries: impl IntoIterator<Item = Binary>, artefacts: Option<&Path>) -> anyhow::Result<Self> {
        let options = EngineOptions { artefacts: artefacts.map(Path::to_owned), ..EngineOptions::default() };
        let engine = Engine::new(options).context("cannot run components")?;
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
