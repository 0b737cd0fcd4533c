//! The taints that a pod tolerates.
//!
//! The rule is in Kubernetes' documentation on taints and tolerations. The comparison operators come with the alpha
//! gate `TaintTolerationComparisonOperators`, which is off by default.

use std::cmp::Ordering;

use crate::api::{Taint, Toleration};

/// Whether a toleration tolerates a taint. `Lt` and `Gt` tolerate nothing unless `comparison_operators_enabled`.
/// Scheduling ignores `tolerationSeconds`.
#[must_use]
pub fn tolerates(toleration: &Toleration, taint: &Taint, comparison_operators_enabled: bool) -> bool {
    let is_addressed = (toleration.effect.is_empty() || toleration.effect == taint.effect)
        && (toleration.key.is_empty() || toleration.key == taint.key);
    is_addressed
        && match toleration.operator.as_str() {
            "" | "Equal" => toleration.value == taint.value,
            "Exists" => true,
            "Lt" => comparison_operators_enabled && compare(taint, toleration) == Some(Ordering::Less),
            "Gt" => comparison_operators_enabled && compare(taint, toleration) == Some(Ordering::Greater),
            _ => false,
        }
}

/// The first taint, in the order of `taints`, that keeps pods off a node and that none of `tolerations` tolerates.
#[must_use]
pub fn first_untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    comparison_operators_enabled: bool,
) -> Option<&'a Taint> {
    let is_tolerated = |taint: &Taint| {
        let mut accepting = tolerations.iter().filter(|it| tolerates(it, taint, comparison_operators_enabled));
        accepting.next().is_some()
    };
    taints.iter().filter(|taint| keeps_pods_off(taint)).find(|taint| !is_tolerated(taint))
}

/// Whether the taint keeps pods off: `NoSchedule` and `NoExecute` do, and `PreferNoSchedule` only lowers a node's
/// score.
#[must_use]
pub fn keeps_pods_off(taint: &Taint) -> bool {
    matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
}

fn compare(taint: &Taint, toleration: &Toleration) -> Option<Ordering> {
    Some(canonical_integer(&taint.value)?.cmp(&canonical_integer(&toleration.value)?))
}

/// Reads an integer that is written without a plus sign or leading zeros.
pub(crate) fn canonical_integer(text: &str) -> Option<i64> {
    let integer: i64 = text.parse().ok()?;
    (integer.to_string() == text).then_some(integer)
}
