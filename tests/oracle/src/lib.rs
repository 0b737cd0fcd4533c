//! Compares Berth with recorded answers of kube-scheduler 1.36.
//!
//! A recorded case is a cluster, a pending pod and all decisions of a real scheduler about them. [`check()`] runs the
//! objects through Berth's own cache, configuration and plugin runner, and records each answer that differs. Answers of
//! plugins that Berth does not have are left out of the comparison and counted, so that a missing answer never counts
//! as agreement.

pub mod case;
pub mod causes;
pub mod check;
pub mod execution;
pub mod findings;
pub mod report;
pub mod suite;
pub mod tables;

mod cluster;
pub mod hints;
mod registrations;
mod tested_profile;

pub use case::Case;
pub use causes::Causes;
pub use check::{check, check_explanation};
pub use execution::{Execution, Native};
#[cfg(feature = "wasm")]
pub use execution::{Wasm, artefacts_of_tests};
pub use findings::{Difference, Findings};
pub use suite::{Suite, SuiteError};
pub use tested_profile::TestedProfile;
