//! The reason why a write failed for good.

use crate::{api_error::RequestFailure, object::BadName};

/// The message with which the API server refuses to bind a pod that is being deleted
/// (`pkg/registry/core/pod/storage/storage.go`). Code and reason are the same as for any conflict.
const BEING_DELETED: &str = "is being deleted, cannot be assigned to a host";

/// The reason why a write failed for good. Its text is the API server's own message if there is one, since users read
/// it in events and conditions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The object no longer exists.
    #[error("{message}")]
    NotFound { message: String },
    /// The object has changed: it is already bound, is being deleted, or was written by another client.
    #[error("{message}")]
    Conflict { message: String },
    /// The object or its namespace is being deleted.
    #[error("{message}")]
    Leaving { message: String },
    /// The API server refuses the write, and retries would not help.
    #[error("{message}")]
    Rejected { code: u16, message: String },
    /// No tries are left, and none had a clear answer. The write may have taken effect.
    #[error("{message}")]
    Unavailable { message: String },
}

impl From<RequestFailure> for WriteError {
    fn from(failure: RequestFailure) -> Self {
        let message = failure.to_string();
        if failure.is_namespace_terminating() {
            return Self::Leaving { message };
        }
        match failure.code() {
            Some(404) => Self::NotFound { message },
            Some(409) if message.contains(BEING_DELETED) => Self::Leaving { message },
            Some(409) => Self::Conflict { message },
            Some(code @ 400..=499) if code != 429 => Self::Rejected { code, message },
            _ => Self::Unavailable { message },
        }
    }
}

impl From<BadName> for WriteError {
    fn from(bad: BadName) -> Self {
        Self::Rejected { code: 400, message: bad.to_string() }
    }
}
