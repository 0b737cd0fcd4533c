//! The configuration that holds while a scheduler runs, which may change at any time.

use std::sync::{Arc, PoisonError, RwLock};

use crate::Settings;

/// The configuration that holds at the moment. Clones share it.
#[derive(Clone, Debug)]
pub struct RunningConfiguration(Arc<RwLock<Settings>>);

impl RunningConfiguration {
    /// These settings hold.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self(Arc::new(RwLock::new(settings)))
    }

    /// A copy of what holds.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// These hold from here on.
    pub fn set(&self, settings: Settings) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }
}
