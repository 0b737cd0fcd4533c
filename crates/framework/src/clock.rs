//! A clock that the host provides.

use std::{fmt::Debug, time::Duration};

/// A clock that measures the time since some fixed moment. It never goes back.
pub trait Clock: Debug + Send + Sync {
    /// The current time.
    fn now(&self) -> Duration;
}
