//! What went wrong with one request, sorted by what a caller can do about it.

use std::time::Duration;

use kube::core::Status;

/// One failed attempt.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The API server answered, and said no. Its message is kept as it is: it ends up in events and conditions.
    #[error("{}", text(.0))]
    Api(Box<Status>),
    /// No usable answer: the request may or may not have been carried out.
    #[error("{}", deepest(.0))]
    Transport(#[source] kube::Error),
    /// As [`Failure::Transport`], because the time for one attempt ran out.
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
}

impl Failure {
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Api(status) => Some(status.code),
            Self::Transport(_) | Self::TimedOut(_) => None,
        }
    }

    /// Whether the request may have taken effect in spite of the failure.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.code().is_none_or(|code| code >= 500)
    }

    /// Whether the same request may succeed later: the outcome is unknown, or the server is overloaded.
    pub(crate) fn is_temporary(&self) -> bool {
        self.is_ambiguous() || self.code() == Some(429)
    }

    /// How long the server asked to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let Self::Api(status) = self else { return None };
        let seconds = status.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Api(status),
            other => Self::Transport(other),
        }
    }
}

fn text(status: &Status) -> String {
    match (status.message.trim(), status.reason.as_str()) {
        ("", "") => format!("the API server answered {}", status.code),
        ("", reason) => reason.to_owned(),
        (message, _) => message.to_owned(),
    }
}

/// HTTP clients wrap the telling part ("connection refused") in layers that all say "error".
fn deepest(error: &kube::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
