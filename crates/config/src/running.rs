//! The configuration that is in force while a scheduler runs. It may change at any time.

use std::sync::{Arc, PoisonError, RwLock};

use crate::Settings;

/// The configuration that is currently in force. Clones share the configuration.
#[derive(Clone, Debug)]
pub struct RunningConfiguration(Arc<RwLock<Settings>>);

impl RunningConfiguration {
    /// Starts with these settings.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(RwLock::new(settings)))
    }

    /// A copy of the current settings.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the settings.
    pub fn set(&self, settings: Settings) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }
}
