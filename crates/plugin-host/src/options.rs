//! What the command line says about plugins.

use std::path::PathBuf;

use berth_config::Execution;
use berth_model::Features;
use berth_telemetry::chain;
use berth_wasm_host::{CompilerProcess, check_artefacts};
use tracing::warn;

/// What an operator says about plugins beside their configuration.
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
    /// What the release and the feature gates have rules of built-in plugins do.
    pub features: Features,
    /// What compiles binaries that are no part of this program; `None` compiles them in this process.
    pub compiler: Option<CompilerProcess>,
}

/// Where binaries are taken from, and what with.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    pub plugins_dir: Option<PathBuf>,
    /// Where compiled plugins are kept; `None` compiles at each start.
    pub artifacts: Option<PathBuf>,
    pub compiler: Option<CompilerProcess>,
}

impl PluginHostOptions {
    /// With a directory for compiled plugins that can be used, if there is one.
    #[must_use]
    pub fn sources(&self) -> Sources {
        let (plugins_dir, compiler) = (self.plugins_dir.clone(), self.compiler.clone());
        Sources { plugins_dir, artifacts: self.usable_artifact_cache(), compiler }
    }

    /// Where compiled plugins are kept, or `None` where no option names a directory and the usual one cannot be used, as on a
    /// root file system that is read-only.
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
            // What is wrong with one that was named is an error of the engine.
            Ok(()) | Err(_) => Some(dir),
        }
    }

    /// Where compiled plugins are kept; `None` without the option and without a home directory.
    #[must_use]
    pub fn artifact_cache(&self) -> Option<PathBuf> {
        self.artifact_cache.clone().or_else(default_artifact_cache)
    }
}

fn default_artifact_cache() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    base.map(|base| base.join("berth").join("plugins"))
}
