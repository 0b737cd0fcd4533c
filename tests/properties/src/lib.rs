//! Properties of whole profiles, which are checked on random clusters.
//!
//! - `tests/agreement`: the default plugins give the same answers as components and natively. They also give the same
//!   answers whether they followed every change of a cluster or see the cluster for the first time.
//! - `tests/placements.rs`: no placement of the scheduler violates a rule of the documentation.
//!
//! [`generate`] makes clusters from the meaning of the API's types; nothing is recorded. [`N_CASES`] is the number of
//! cases in a run of the tests. The environment variable `PROPTEST_CASES` replaces this number, for long runs. A
//! failing case is shrunk, and printed with its objects.

#![expect(clippy::panic, reason = "the whole crate is a test, and a panic ends its run")]

pub mod answers;
pub mod changing_cluster;
pub mod checker;
pub mod generate;
pub mod simulation;

/// The number of cases of each property in an ordinary run. All properties together take a little more than a minute on
/// two cores.
pub const N_CASES: u32 = 500;

/// The configuration of the runs, with `n_cases` unless `PROPTEST_CASES` is set.
#[must_use]
pub fn config(n_cases: u32) -> proptest::test_runner::Config {
    let from_environment = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    let config = proptest::test_runner::Config::default();
    // Shrinking ends after a minute, or PROPTEST_MAX_SHRINK_TIME milliseconds.
    let max_shrink_time = if config.max_shrink_time == 0 { 60_000 } else { config.max_shrink_time };
    let cases = from_environment.unwrap_or(n_cases);
    proptest::test_runner::Config { cases, max_shrink_time, failure_persistence: None, ..config }
}
