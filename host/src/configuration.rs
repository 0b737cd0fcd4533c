//! The scheduler's configuration file.

use std::path::Path;

use anyhow::Result;
use berth_config::{InTree, PluginCatalogue, Settings};
use tracing::info;

use crate::failure::Usage;

/// Reads the configuration file, or gives the defaults. `scheduler_name` renames the only profile.
///
/// # Errors
/// The file cannot be read or used, or there are several profiles to rename.
pub(crate) fn read(
    file: Option<&Path>,
    scheduler_name: Option<&str>,
    plugins: &dyn PluginCatalogue,
) -> Result<Settings> {
    let mut settings = match file {
        None => Settings::defaults(&InTree::new(&berth_builtins::factories())),
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Usage(format!("--config {}: cannot be read: {error}", file.display())))?;
            Settings::from_text(&file.display().to_string(), &text, plugins)
                .map_err(|error| Usage(error.to_string()))?
        }
    };
    match (scheduler_name, settings.profiles.as_mut_slice()) {
        (None, _) => {}
        (Some(name), [profile]) => name.clone_into(&mut profile.scheduler_name),
        (Some(_), profiles) => {
            let count = profiles.len();
            let text = format!("--scheduler-name renames the only profile, but the configuration has {count}");
            return Err(Usage(text).into());
        }
    }
    info!(profiles = settings.profiles.len(), "configuration loaded");
    Ok(settings)
}
