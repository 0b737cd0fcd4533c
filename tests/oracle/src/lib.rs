//! Compares Berth with recorded answers of kube-scheduler 1.36.
//!
//! A recorded case is a cluster, a pending pod and everything that a real scheduler made of them. [`check()`] takes the
//! objects through Berth's own cache, configuration and plugin runner and notes each answer that differs. What belongs
//! to plugins that Berth does not have is left out of the comparison, and counted, so that silence never reads as
//! agreement.

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
#[cfg(feature = "wasm")]
pub use execution::Wasm;
pub use execution::{Execution, Native};
pub use findings::{Difference, Findings};
pub use suite::{Suite, SuiteError};
pub use tested_profile::TestedProfile;
