//! The file of the PluginHostConfiguration, read again whenever it changes.
//!
//! What is watched is the file's directory: the file may be replaced, and in a mounted ConfigMap it is a link into a directory
//! that is itself swapped. Only what the file says counts, so that a touch is no change.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use berth_config::PluginHostSettings;
use notify_debouncer_full::{
    DebounceEventResult, Debouncer, RecommendedCache, new_debouncer,
    notify::{self, RecommendedWatcher, RecursiveMode},
};

/// Longer than any pause of a program that writes the file.
const SETTLE: Duration = Duration::from_millis(250);

/// Watches until it is dropped.
pub(crate) struct SettingsWatch {
    _debouncer: Debouncer<RecommendedWatcher, RecommendedCache>,
}

impl std::fmt::Debug for SettingsWatch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SettingsWatch").finish_non_exhaustive()
    }
}

/// Why the file cannot be used, with the file's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SettingsFileError {
    /// With the system's reason.
    #[error("--plugin-config {}: cannot be read: {reason}", file.display())]
    Unreadable { file: PathBuf, reason: String },
    /// What the document gets wrong.
    #[error("{0}")]
    Invalid(String),
}

/// What the file says.
///
/// # Errors
/// It cannot be read, or makes no sense.
pub(crate) fn read(file: &Path) -> Result<PluginHostSettings, SettingsFileError> {
    parse(file, &text(file)?)
}

/// Tells `sink`, on a thread of its own, of everything that the file says from here on, mistakes included.
///
/// # Errors
/// The directory cannot be watched.
pub(crate) fn watch(
    file: PathBuf,
    mut sink: impl FnMut(Result<PluginHostSettings, SettingsFileError>) + Send + 'static,
) -> Result<SettingsWatch, notify::Error> {
    let dir = match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut known = text(&file);
    let on_change = move |result: DebounceEventResult| {
        // Reading the file is an event too.
        if result.is_ok_and(|events| events.iter().all(|event| event.kind.is_access())) {
            return;
        }
        let new = text(&file);
        if new != known {
            sink(new.clone().and_then(|text| parse(&file, &text)));
            known = new;
        }
    };
    let mut debouncer = new_debouncer(SETTLE, None, on_change)?;
    debouncer.watch(&dir, RecursiveMode::NonRecursive)?;
    Ok(SettingsWatch { _debouncer: debouncer })
}

fn text(file: &Path) -> Result<String, SettingsFileError> {
    fs::read_to_string(file)
        .map_err(|error| SettingsFileError::Unreadable { file: file.to_owned(), reason: error.to_string() })
}

fn parse(file: &Path, text: &str) -> Result<PluginHostSettings, SettingsFileError> {
    PluginHostSettings::from_text(&file.display().to_string(), text)
        .map_err(|error| SettingsFileError::Invalid(error.to_string()))
}
