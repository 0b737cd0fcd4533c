//! Choices that depend on a seed, and recipes, which describe objects as a seed and a set of features.
//!
//! proptest generates and shrinks a recipe instead of an object. Features are switched off one after the other. Each
//! feature has its own numbers, so the remaining features do not change.

use std::fmt;

use proptest::{bits::u64 as bits, prelude::*};

/// A generator of numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit.max(1)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `among`, which must not be empty.
    pub fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        let at = usize::try_from(self.below(among.len() as u64)).unwrap_or(0);
        &among[at]
    }

    /// Some of `among`, in order.
    pub fn some<'a, T>(&mut self, among: &'a [T]) -> Vec<&'a T> {
        among.iter().filter(|_| self.chance(50)).collect()
    }
}

/// A description of an object to generate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Recipe {
    pub seed: u64,
    /// One bit for each feature of the object.
    pub features: u64,
}

impl fmt::Debug for Recipe {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Recipe {{ seed: {:#x}, features: {:#b} }}", self.seed, self.features)
    }
}

impl Recipe {
    /// The numbers for the parts that every object of the kind has.
    #[must_use]
    pub fn base(&self) -> Random {
        Random::new(self.seed)
    }

    /// The numbers of a feature, if the object has it.
    #[must_use]
    pub fn feature(&self, feature: u32) -> Option<Random> {
        let has = self.features >> feature & 1 == 1;
        has.then(|| Random::new(self.seed ^ (u64::from(feature) + 1).wrapping_mul(0xd6e8_feb8_6659_fd93)))
    }

    #[must_use]
    pub fn has(&self, feature: u32) -> bool {
        self.feature(feature).is_some()
    }

    /// A number that is unique among recipes.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        Random::new(self.seed ^ self.features.rotate_left(40)).number()
    }
}

/// Recipes of up to `most` of the first `n_features` features.
pub fn recipe(n_features: usize, most: usize) -> impl Strategy<Value = Recipe> {
    (any::<u64>().no_shrink(), bits::sampled(0..=most, 0..n_features))
        .prop_map(|(seed, features)| Recipe { seed, features })
}
