//! The source of all random input, and the duration of random tests.

use std::{
    env, thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The variable that `cargo xtask fuzz` sets: random tests run for this number of seconds.
const SECONDS: &str = "BERTH_FUZZ_SECONDS";

/// The variable with the seed of the only round to repeat.
const SEED: &str = "BERTH_FUZZ_SEED";

/// The generator xorshift64*.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator that gives the same numbers for the same seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // The generator needs more than a few low bits at the start.
        Self(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn of_state(state: u64) -> Self {
        Self(state | 1)
    }

    /// 48 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// A number less than `bound`; 0 for 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.bits()).unwrap_or(usize::MAX).checked_rem(bound).unwrap_or(0)
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        self.bits().to_le_bytes()[0]
    }

    /// One of the items.
    ///
    /// # Panics
    /// There are no items.
    pub fn one_of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    pub(crate) fn word(&mut self, words: &[&'static str]) -> &'static str {
        words.get(self.below(words.len())).copied().unwrap_or_default()
    }
}

/// Calls `round` `n` times, always with the same numbers. If `BERTH_FUZZ_SECONDS` is set, the function calls `round`
/// with new numbers for this time. If `BERTH_FUZZ_SEED` is set, the function calls `round` once with the numbers of
/// that seed. The seed of a round that panics is printed.
///
/// # Panics
/// A round panics, or the variables are not numbers.
#[expect(clippy::expect_used, reason = "a wrong variable must end the run")]
pub fn rounds(n: u64, mut round: impl FnMut(&mut Random)) {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let mut run = |seed: u64| {
        let _told = ToldIfItPanics(seed);
        round(&mut Random::new(seed));
    };
    match (number(SEED), number(SECONDS)) {
        (Some(seed), _) => run(seed),
        (None, None) => (0..n).for_each(run),
        (None, Some(seconds)) => {
            let begin = Instant::now();
            let first = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
            let first = u64::try_from(first).unwrap_or_default();
            let mut n_rounds = 0;
            while begin.elapsed() < Duration::from_secs(seconds) {
                run(first.wrapping_add(n_rounds));
                n_rounds += 1;
            }
            eprintln!("{n_rounds} rounds");
        }
    }
}

struct ToldIfItPanics(u64);

impl Drop for ToldIfItPanics {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{SEED}={} repeats it", self.0);
        }
    }
}
