//! Which taints a pod puts up with.
//!
//! Rule: Kubernetes' documentation on taints and tolerations; the comparison operators are those of the alpha gate
//! `TaintTolerationComparisonOperators`, which is off by default.

use std::cmp::Ordering;

use crate::api::{Taint, Toleration};

/// Whether one toleration accepts one taint. `Lt` and `Gt` accept nothing unless `comparison_operators_enabled`;
/// `tolerationSeconds` plays no part in scheduling.
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

/// The first taint that keeps pods off a node, in the order of `taints`, and that none of `tolerations` accepts.
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

/// `NoSchedule` and `NoExecute` do; `PreferNoSchedule` only lowers a node's score.
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
