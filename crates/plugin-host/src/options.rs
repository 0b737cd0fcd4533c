//! The options about plugins on the command line.

use std::path::PathBuf;

use berth_config::Execution;
use berth_model::Features;
use berth_telemetry::chain;
use berth_wasm_host::{CompilerProcess, check_artefacts};
use tracing::warn;

/// The operator's options about plugins, apart from their configuration.
#[derive(Clone, Debug, Default)]
pub struct PluginHostOptions {
    /// `--plugins-dir`
    pub plugins_dir: Option<PathBuf>,
    /// `--artifact-cache`
    pub artifact_cache: Option<PathBuf>,
    /// `--plugin-state`
    pub plugin_state: Option<PathBuf>,
    /// `--plugin-config`
    pub plugin_config: Option<PathBuf>,
    /// `--execution`
    pub execution: Option<Execution>,
    /// The features by which the release and the feature gates change the rules of built-in plugins.
    pub features: Features,
    /// The process that compiles binaries that are not part of this program. `None` compiles them in this process.
    pub compiler: Option<CompilerProcess>,
}

/// The places that binaries come from, and the tools that load them.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub plugins_dir: Option<PathBuf>,
    /// The directory for compiled plugins. `None` compiles at each start.
    pub artifacts: Option<PathBuf>,
    pub compiler: Option<CompilerProcess>,
}

impl PluginHostOptions {
    /// The sources, with the directory for compiled plugins, if it is usable.
    #[must_use]
    pub fn sources(&self) -> Sources {
        let (plugins_dir, compiler) = (self.plugins_dir.clone(), self.compiler.clone());
        Sources { plugins_dir, artifacts: self.usable_artifact_cache(), compiler }
    }

    /// The directory for compiled plugins. `None` if no option names a directory and the default cannot be used, as on
    /// a read-only root file system.
    #[must_use]
    pub fn usable_artifact_cache(&self) -> Option<PathBuf> {
        let dir = self.artifact_cache()?;
        match check_artefacts(&dir) {
            Err(error) if self.artifact_cache.is_none() => {
                warn!(
                    "compiled plugins are not cached: {}; name another directory with --artifact-cache",
                    chain(&error)
                );
                None
            }
            // If a named directory cannot be used, the engine reports the error.
            Ok(()) | Err(_) => Some(dir),
        }
    }

    /// The directory for compiled plugins. `None` if the option is not given and no home directory is known.
    #[must_use]
    pub fn artifact_cache(&self) -> Option<PathBuf> {
        self.artifact_cache.clone().or_else(default_artifact_cache)
    }
}

fn default_artifact_cache() -> Option<PathBuf> {
    // With an empty variable, the directory would be inside the current directory.
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    base.map(|base| base.join("berth").join("plugins"))
}
