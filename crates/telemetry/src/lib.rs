//! The output of the process about itself: metrics, the audit log, log lines in the form of Kubernetes' components, and
//! the limit on the log lines that an outsider can cause.
//!
//! Every part of the process writes to this crate. The crate knows nothing about connections, plugins' binaries or
//! HTTP.

pub mod audit;
pub mod clock;
pub mod klog;
pub mod log_rate;
pub mod metrics;
pub mod notices;

use std::error::Error;

/// The error and its causes in one line.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
