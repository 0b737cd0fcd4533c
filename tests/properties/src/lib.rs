//! Properties of whole profiles, shown on random clusters.
//!
//! - `tests/agreement`: the default plugins decide alike as components and natively, and alike whether they followed
//!   every change of a cluster or see it for the first time.
//! - `tests/placements.rs`: no placement of the scheduler breaks a rule of the documentation.
//!
//! Clusters are made by [`generate`] from what the API's types mean; nothing is recorded. [`N_CASES`] is how many cases a
//! run of the tests looks at; the environment variable `PROPTEST_CASES` replaces it, for long runs. A failing case is
//! shrunk, and printed with the objects that it consists of.

#![expect(clippy::panic, reason = "the whole crate is a test: what it cannot go on without ends the run")]

pub mod answers;
pub mod changing_cluster;
pub mod checker;
pub mod generate;
pub mod simulation;

/// Cases of each property in an ordinary run: what takes a good minute on two cores, all properties together.
pub const N_CASES: u32 = 500;

/// How the properties are run: `n_cases` unless `PROPTEST_CASES` says how many.
#[must_use]
pub fn config(n_cases: u32) -> proptest::test_runner::Config {
    let from_environment = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    let config = proptest::test_runner::Config::default();
    // Shrinking ends after a minute, or PROPTEST_MAX_SHRINK_TIME milliseconds.
    let max_shrink_time = if config.max_shrink_time == 0 { 60_000 } else { config.max_shrink_time };
    let cases = from_environment.unwrap_or(n_cases);
    proptest::test_runner::Config { cases, max_shrink_time, failure_persistence: None, ..config }
}
