//! Errors that make a plugin unusable: its arguments, its start, or the state of the previous binary.
//!
//! A plugin gives the reason in its own words, and the operator reads these words unchanged. Therefore
//! [`ConfigureError`] and [`RestoreError`] can be made from any text. A crate with its own error types implements
//! `From` for them.

use std::fmt::Display;

/// A plugin refused its arguments (`pluginConfig`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigureError(String);

/// An instance of a plugin could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The plugin read its arguments and refused them.
    #[error(transparent)]
    Refused(#[from] ConfigureError),
    /// The plugin could not be started, or broke during its start. The reason names the plugin.
    #[error("{0}")]
    Start(String),
}

/// A plugin cannot use the state of the previous binary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RestoreError(String);

impl ConfigureError {
    /// An error that says what is wrong with the arguments, for the log and for the author of the configuration.
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
    /// An error that says why the state cannot be used, for the log.
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
