//! Failures of one request, sorted by the way in which a caller can react.

use std::time::Duration;

use kube::core::Status;

/// One failed attempt.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestFailure {
    /// The API server refused the request. The server's message is kept unchanged, because it appears in events and
    /// conditions.
    #[error("{}", text(.0))]
    Api(Box<Status>),
    /// The request has no usable answer. The server may or may not have carried it out.
    #[error("{}", deepest(.0))]
    Transport(#[source] kube::Error),
    /// A failure like [`RequestFailure::Transport`], because the time for one attempt ran out.
    #[error("no answer within {} s", .0.as_secs())]
    TimedOut(Duration),
}

impl RequestFailure {
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

    /// The time for which an overloaded server asks the client to wait before it repeats the request.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let Self::Api(status) = self else { return None };
        let seconds = status.details.as_ref()?.retry_after_seconds;
        let is_overloaded = status.code == 429 || status.code >= 500;
        (is_overloaded && seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Whether no object can be created because the namespace is being deleted.
    pub(crate) fn is_namespace_terminating(&self) -> bool {
        let Self::Api(status) = self else { return false };
        let mut causes = status.details.iter().flat_map(|details| &details.causes);
        status.code == 403 && causes.any(|cause| cause.reason == "NamespaceTerminating")
    }

    /// Whether the user of the credentials lacks the right to act as another user. Only the message distinguishes this
    /// from the refusal of a request of the other user. The message names the verb `impersonate`, or with constrained
    /// impersonation (KEP-5284) a verb such as `impersonate-on:serviceaccount:get`.
    pub(crate) fn is_impersonation_refused(&self) -> bool {
        self.code() == Some(403) && self.to_string().contains(" cannot impersonate")
    }
}

impl From<kube::Error> for RequestFailure {
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

/// The innermost cause. HTTP clients wrap the useful part ("connection refused") in layers that only say "error".
fn deepest(error: &kube::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_for_a_namespace_that_is_being_deleted_is_told_from_other_refusals() {
        let refused = |reason: &str| {
            let status = serde_json::json!({
                "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden",
                "message": "events \"a\" is forbidden: unable to create new content in namespace b because it is being terminated",
                "details": {"causes": [{"reason": reason, "message": "namespace b is being terminated"}]},
            });
            RequestFailure::Api(serde_json::from_value(status).unwrap())
        };
        assert!(refused("NamespaceTerminating").is_namespace_terminating());
        assert!(!refused("").is_namespace_terminating());
    }
}
