//! The reasons for which a connection of a watch ends early.

use std::time::Duration;

use kube::core::Status;

use crate::{api_error::RequestFailure, object::BadName, write::WriteError};

use super::wire::ReadError;

/// The reason why a connection ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum WatchError {
    /// The receiver of the events was dropped.
    #[error("the receiver of the watch's events was dropped")]
    Closed,
    /// The resource version is too old for a watch to go on from it.
    #[error("the API server no longer has the changes since the last connection: {0}")]
    Expired(String),
    #[error("a new list was requested")]
    RelistWanted,
    #[error("the end of the watch was requested")]
    EndWanted,
    #[error("this server does not stream lists: {0}")]
    NotStreamed(String),
    #[error("the server did not end the watch in time, so the connection is considered broken")]
    Overdue,
    #[error("{0}")]
    NotServed(String),
    #[error("its path cannot be looked up: {0}")]
    Unresolved(WriteError),
    #[error(transparent)]
    BadName(#[from] BadName),
    #[error(transparent)]
    Request(#[from] RequestFailure),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the answer is not a list: {0}")]
    Malformed(#[from] serde_json::Error),
}

impl WatchError {
    /// Whether the server responded with an answer.
    pub(super) fn is_answer(&self) -> bool {
        !matches!(self, Self::Request(failure) if failure.code().is_none())
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        if let Self::Request(failure) = self { failure.retry_after() } else { None }
    }
}

/// The failure of a request for a page of a list.
pub(super) fn listing_failed(failure: RequestFailure) -> WatchError {
    if failure.code() == Some(404) { WatchError::NotServed(failure.to_string()) } else { failure.into() }
}

/// The failure that a server reports in an answer that has begun.
pub(super) fn refused(status: Box<Status>) -> WatchError {
    let gone = status.code == 410;
    let failure = RequestFailure::Api(status);
    if gone { WatchError::Expired(failure.to_string()) } else { failure.into() }
}
