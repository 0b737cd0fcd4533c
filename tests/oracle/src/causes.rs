//! The answers of recorded cases in another release than the recorded release, and the causes. Each difference is
//! caused by a feature.

use std::collections::BTreeMap;

use berth_model::{Feature, Features, Release};

use crate::findings::Findings;

/// The number of cases of a family with other answers in a release, by cause.
#[derive(Clone, Debug, Default)]
pub struct Causes {
    pub n_cases: usize,
    /// The number of cases that agree with the record nevertheless.
    pub n_agreeing: usize,
    /// The number of cases for each feature that makes them differ. One case may have several.
    pub by_feature: BTreeMap<Feature, usize>,
    /// The cases that differ from the record although every feature is as recorded. The reason is not known.
    pub unexplained: Vec<(String, Findings)>,
}

impl Causes {
    /// Adds a case. `check` compares it with the record for a scheduler with these features.
    pub fn add(&mut self, id: &str, release: Release, check: &dyn Fn(Features) -> Findings) {
        self.n_cases += 1;
        let mut features = Features::of(release);
        let mut n_left = check(features).differences.len();
        if n_left == 0 {
            self.n_agreeing += 1;
            return;
        }
        let recorded = Features::default();
        let changed: Vec<Feature> = features.differing().map(|(feature, _)| feature).collect();
        for feature in changed {
            if n_left == 0 {
                break;
            }
            let without = features.with(feature, recorded.has(feature));
            let n_without = check(without).differences.len();
            if n_without < n_left {
                (features, n_left) = (without, n_without);
                *self.by_feature.entry(feature).or_default() += 1;
            }
        }
        if n_left > 0 {
            self.unexplained.push((id.to_owned(), check(features)));
        }
    }
}
