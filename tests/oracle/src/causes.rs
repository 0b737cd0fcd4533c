//! What recorded cases answer in another release than the recorded one, and why: each difference has a feature as its cause.

use std::collections::BTreeMap;

use berth_model::{Feature, Features, Release};

use crate::findings::Findings;

/// How many cases of a family answer otherwise in a release, by cause.
#[derive(Clone, Debug, Default)]
pub struct Causes {
    pub n_cases: usize,
    /// Cases that agree with the record all the same.
    pub n_agreeing: usize,
    /// Cases by the features that make them differ. One may have several.
    pub by_feature: BTreeMap<Feature, usize>,
    /// Cases that differ from the record with every feature as it was recorded: they differ for no reason that is known.
    pub unexplained: Vec<(String, Findings)>,
}

impl Causes {
    /// Enters a case. `check` compares it with the record as a scheduler with these features.
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
