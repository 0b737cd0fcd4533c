//! The scheduler's configuration file.

use std::path::Path;

use anyhow::Result;
use berth_config::{Overrides, PluginCatalogue, Settings};
use serde_json::json;
use tracing::info;

use crate::failure::Usage;

/// Reads the configuration file, or gives what holds without one.
///
/// # Errors
/// The file cannot be read, or what it and the command line say cannot be used.
pub(crate) fn read(file: Option<&Path>, overrides: &Overrides, plugins: &dyn PluginCatalogue) -> Result<Settings> {
    let settings = match file {
        None => Settings::without_text(overrides, plugins),
        Some(file) => {
            let text = std::fs::read_to_string(file)
                .map_err(|error| Usage(format!("--config {}: cannot be read: {error}", file.display())))?;
            Settings::from_text_and(&file.display().to_string(), &text, overrides, plugins)
        }
    };
    let settings = settings.map_err(|error| Usage(error.to_string()))?;
    let profiles: Vec<&str> = settings.profiles.iter().map(|profile| profile.scheduler_name.as_str()).collect();
    info!(scheduler_names = profiles.join(", "), "configuration loaded");
    Ok(settings)
}

/// What a scheduler that is alone on its API server says beside the configuration file.
pub(crate) fn alone() -> Overrides {
    let mut overrides = Overrides::default();
    overrides.fields.insert("leaderElection".to_owned(), json!({ "leaderElect": false }));
    overrides
}
