//! The file of the PluginHostConfiguration.

use std::{
    fs,
    path::{Path, PathBuf},
};

use berth_config::{PluginGrants, PluginHostSettings};
use tracing::warn;

use crate::{provenance::Provenance, watched_kinds};

/// The reason why the file cannot be used, with the file's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsFileError {
    /// The file cannot be read. The reason is the system's.
    #[error("--plugin-config {}: cannot be read: {reason}", file.display())]
    Unreadable { file: PathBuf, reason: String },
    /// The document is invalid.
    #[error("{0}")]
    Invalid(String),
}

/// The content of the file, and of the files that it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFile {
    pub settings: PluginHostSettings,
    pub provenance: Provenance,
}

/// Reads the file.
///
/// # Errors
/// The file cannot be read, or is invalid.
pub fn read(file: &Path) -> Result<HostFile, SettingsFileError> {
    let text = fs::read_to_string(file)
        .map_err(|error| SettingsFileError::Unreadable { file: file.to_owned(), reason: error.to_string() })?;
    let settings = PluginHostSettings::from_text(&file.display().to_string(), &text)
        .map_err(|error| SettingsFileError::Invalid(error.to_string()))?;
    let provenance = Provenance::read(&settings)
        .map_err(|error| SettingsFileError::Invalid(format!("{}: {error}", file.display())))?;
    Ok(HostFile { settings, provenance })
}

/// A sentence for each kind under `grants.reads` whose name resembles the name of a kind of Kubernetes. Such a kind may
/// also come with a CRD, so it is not an error.
#[must_use]
pub fn misspelt_kinds(settings: &PluginHostSettings) -> Vec<String> {
    let of = |place: String, grants: &PluginGrants| {
        let misspelt = grants.reads.iter().filter_map(move |read| {
            let meant = watched_kinds::nearest(&read.api_version, &read.kind)?;
            let version = &read.api_version;
            Some(format!("{place}.grants.reads: {read} is not a Kubernetes kind: did you mean {version}/{meant}?"))
        });
        misspelt.collect::<Vec<_>>()
    };
    let mut told = of("defaults".to_owned(), &settings.default_grants());
    for name in settings.named() {
        told.extend(of(format!("plugins[{name}]"), &settings.plugin(name.as_str()).grants.unwrap_or_default()));
    }
    told
}

/// Logs the kinds that are probably misspelt.
pub(crate) fn tell_misspelt_kinds(settings: &PluginHostSettings) {
    for misspelt in misspelt_kinds(settings) {
        warn!("--plugin-config: {misspelt}");
    }
}

/// Logs the kinds that the `"*"` of each rule does not cover.
pub(crate) fn tell_what_stars_leave_out(settings: &PluginHostSettings) {
    let tell = |of: &str, grants: &PluginGrants| {
        for (rule, left_out) in grants.rules.iter().filter_map(|rule| Some((rule, rule.left_out()?))) {
            warn!(of, %rule, "{left_out}");
        }
    };
    tell("defaults", &settings.default_grants());
    for name in settings.named() {
        tell(name.as_str(), &settings.plugin(name.as_str()).grants.unwrap_or_default());
    }
}
