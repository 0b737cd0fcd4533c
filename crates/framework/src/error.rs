//! Why a plugin cannot be used: its arguments, its start, the state that it was handed.
//!
//! A plugin says why in its own words, and the operator reads them as they stand. So [`ConfigureError`] and
//! [`RestoreError`] are made from any text; a crate with error types of its own implements `From` for them.

use std::fmt::Display;

/// A plugin refuses its arguments (`pluginConfig`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigureError(String);

/// There is no instance of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The plugin was asked and refuses its arguments.
    #[error(transparent)]
    Refused(#[from] ConfigureError),
    /// The plugin could not be asked, or broke when it was. Holds the reason, which names the plugin.
    #[error("{0}")]
    Start(String),
}

/// A plugin has no use for the state of the binary before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RestoreError(String);

impl ConfigureError {
    /// What is wrong with the arguments; for the log and the configuration's author.
    #[must_use]
    pub fn new(reason: impl Display) -> Self {
        Self(reason.to_string())
    }
}

impl From<String> for ConfigureError {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

impl From<&str> for ConfigureError {
    fn from(reason: &str) -> Self {
        Self::new(reason)
    }
}

impl RestoreError {
    /// Why the state is of no use; for the log.
    #[must_use]
    pub fn new(reason: impl Display) -> Self {
        Self(reason.to_string())
    }
}

impl From<String> for RestoreError {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

impl From<&str> for RestoreError {
    fn from(reason: &str) -> Self {
        Self::new(reason)
    }
}
