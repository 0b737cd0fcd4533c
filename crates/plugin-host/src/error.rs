//! The reasons why plugins cannot be hosted at all. A mistake in one plugin is not an error of the host.

use std::{io, path::PathBuf};

use berth_config::Usage;
use berth_model::PluginName;
use berth_wasm_host::{EngineError, LoadError};

use crate::directory::DirectoryError;

pub(crate) type Result<T, E = PluginHostError> = std::result::Result<T, E>;

/// The reason why there are no plugins.
#[derive(Debug, thiserror::Error)]
pub enum PluginHostError {
    #[error(transparent)]
    Usage(#[from] Usage),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("built-in plugin {name}")]
    BuiltIn { name: PluginName, source: LoadError },
    #[error("cannot start the runtime that pulls plugins")]
    Runtime(#[source] io::Error),
    #[error("pulling plugins from registries panicked")]
    PullPanicked,
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("--plugin-config {}: cannot be watched", file.display())]
    Settings { file: PathBuf, source: notify::Error },
}
