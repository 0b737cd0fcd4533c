//! The default normalisation of scores: `DefaultNormalizeScore` in
//! `pkg/scheduler/framework/plugins/helper/normalize_score.go`.

/// The highest score that a node can get from a plugin.
pub(crate) const MAX_SCORE: i64 = 100;

/// Scales scores so that the highest score becomes 100. If `reversed`, the highest score becomes 0, and 0 becomes 100.
/// If no score is positive, the scores do not change, or if `reversed`, each score becomes 100.
pub(crate) fn normalize(scores: &mut [i64], reversed: bool) {
    let max = scores.iter().copied().fold(0, i64::max);
    if max == 0 {
        if reversed {
            scores.fill(MAX_SCORE);
        }
        return;
    }
    // As in Kubernetes, scores that overflow wrap. The framework refuses the results as out of range.
    for score in scores {
        let share = score.wrapping_mul(MAX_SCORE) / max;
        *score = if reversed { MAX_SCORE.wrapping_sub(share) } else { share };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_to_the_highest() {
        let cases: [(&[i64], bool, &[i64]); 10] = [
            // The product wraps, as in Kubernetes, but nothing panics.
            (&[i64::MIN, 1], true, &[100, 0]),
            // Negative results are out of range, as in Kubernetes.
            (&[10, -5], false, &[100, -50]),
            (&[0, -5], false, &[0, -5]),
            (&[-5, -5], false, &[-5, -5]),
            (&[-5, -5], true, &[100, 100]),
            (&[50, 20, 0], false, &[100, 40, 0]),
            (&[0, 0], false, &[0, 0]),
            (&[0, 1, 3], true, &[100, 67, 0]),
            (&[0, 0], true, &[100, 100]),
            (&[], true, &[]),
        ];
        for (raw, reversed, expected) in cases {
            let mut scores = raw.to_vec();
            normalize(&mut scores, reversed);
            assert_eq!(scores, expected, "{raw:?}");
        }
    }
}
