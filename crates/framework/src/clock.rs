//! The time that passes, as the host measures it.

use std::{fmt::Debug, time::Duration};

/// Tells how much time has passed since some moment, and never goes back.
pub trait Clock: Debug + Send + Sync {
    /// The present.
    fn now(&self) -> Duration;
}
