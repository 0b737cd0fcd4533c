//! The status with which a plugin answers about a pod, or about a pod on a node.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// Kubernetes' status codes, in their order (`Code` in `staging/src/k8s.io/kube-scheduler/framework/interface.go`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Code {
    /// The pod passes, or the step is done.
    Success,
    /// An internal failure: the attempt ends and is retried after backoff.
    Error,
    /// The pod is rejected. The eviction of pods may help.
    Unschedulable,
    /// The pod is rejected. The eviction of pods cannot help.
    UnschedulableAndUnresolvable,
    /// The pod is held. Only Permit uses this code.
    Wait,
    /// The plugin has nothing to do for the pod in this cycle.
    Skip,
    /// The pod is rejected until an event outside the scheduler. This event lets the pod skip its backoff.
    Pending,
}

impl Code {
    /// The name that metrics, logs and golden cases use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Code::Success => "Success",
            Code::Error => "Error",
            Code::Unschedulable => "Unschedulable",
            Code::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
            Code::Wait => "Wait",
            Code::Skip => "Skip",
            Code::Pending => "Pending",
        }
    }

    /// Whether the code rejects the pod. A code that breaks the attempt does not reject the pod.
    #[must_use]
    pub fn is_rejected(self) -> bool {
        matches!(self, Code::Unschedulable | Code::UnschedulableAndUnresolvable | Code::Pending)
    }
}

/// A code with its reasons, in the order in which users read them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Status {
    /// The kind of answer.
    pub code: Code,
    /// The reasons that users read in events and conditions.
    pub reasons: Vec<String>,
}

impl Status {
    /// A status with these reasons.
    #[must_use]
    pub fn new(code: Code, reasons: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { code, reasons: reasons.into_iter().map(Into::into).collect() }
    }

    /// A status without objection.
    #[must_use]
    pub fn success() -> Self {
        Self { code: Code::Success, reasons: Vec::new() }
    }

    /// The status of a plugin that has nothing to do for the pod.
    #[must_use]
    pub fn skip() -> Self {
        Self { code: Code::Skip, reasons: Vec::new() }
    }

    /// A status for an internal failure.
    #[must_use]
    pub fn error(reason: impl Into<String>) -> Self {
        Self::new(Code::Error, [reason])
    }

    /// A rejection. The eviction of pods may help.
    #[must_use]
    pub fn unschedulable(reason: impl Into<String>) -> Self {
        Self::new(Code::Unschedulable, [reason])
    }

    /// A rejection. The eviction of pods cannot help.
    #[must_use]
    pub fn unresolvable(reason: impl Into<String>) -> Self {
        Self::new(Code::UnschedulableAndUnresolvable, [reason])
    }

    /// Whether the code is [`Code::Success`].
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.code == Code::Success
    }

    /// All reasons in one line, as events and conditions show them. If the reasons are many or long, only the first
    /// reasons are shown.
    #[must_use]
    pub fn message(&self) -> String {
        join_reasons(self.reasons.iter().map(String::as_str))
    }
}

/// The maximum number of bytes of one reason that are shown, so that a long reason leaves room for other reasons. The
/// note of an event has the same limit (`NoteLengthLimit` in `k8s.io/kubernetes/pkg/apis/events/validation`).
const MAX_REASON_BYTES: usize = 1 << 10;
/// The maximum number of bytes of a list of reasons. A condition's message has at most two lists: the reasons of nodes
/// and the reasons of PostFilter. The API has no limit for the message. The message is written again after every
/// attempt with other reasons. The reasons of kube-scheduler's own plugins have some hundred bytes.
const MAX_REASONS_BYTES: usize = 2 << 10;

/// Joins reasons with commas. Each reason is cut to [`MAX_REASON_BYTES`]. Reasons after the first [`MAX_REASONS_BYTES`]
/// are counted, not shown.
pub(crate) fn join_reasons<'a>(reasons: impl IntoIterator<Item = &'a str>) -> String {
    let mut text = String::new();
    let mut n_left_out = 0_usize;
    for reason in reasons {
        let separator = if text.is_empty() { "" } else { ", " };
        let (shown, cut) = match reason.len() {
            0..=MAX_REASON_BYTES => (reason, ""),
            _ => (&reason[..reason.floor_char_boundary(MAX_REASON_BYTES - CUT.len())], CUT),
        };
        if n_left_out == 0 && text.len() + separator.len() + shown.len() + cut.len() <= MAX_REASONS_BYTES {
            text.extend([separator, shown, cut]);
        } else {
            n_left_out += 1;
        }
    }
    if n_left_out > 0 {
        let _ = write!(text, " and {n_left_out} more");
    }
    text
}

/// The mark at the end of a text that was cut.
const CUT: &str = "...";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_reasons_are_shown_whole() {
        assert_eq!(Status::new(Code::Error, ["a", "b, c", ""]).message(), "a, b, c, ");
        assert_eq!(Status::success().message(), "");
    }

    #[test]
    fn too_many_reasons_are_counted_and_long_ones_cut() {
        let many = Status::new(Code::Unschedulable, (0..5_000).map(|node| format!("reason {node:04}"))).message();
        assert!(many.starts_with("reason 0000, reason 0001, ") && many.ends_with(" more"), "{many}");
        let shown = many.matches("reason ").count();
        assert!(many.contains(&format!(" and {} more", 5_000 - shown)) && many.len() < MAX_REASONS_BYTES + 32);
        let long = Status::error("é".repeat(1 << 20)).message();
        assert!(long.ends_with("é...") && long.len() <= MAX_REASON_BYTES);
        let reasons = [long.repeat(4), "b".to_owned(), "c".repeat(4_000), "d".to_owned()];
        let shown = Status::new(Code::Unschedulable, reasons).message();
        assert!(shown.contains("..., b and 2 more") && shown.len() <= MAX_REASONS_BYTES, "a long one leaves room");
    }
}
