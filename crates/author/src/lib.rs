//! What `berth plugin test`, `verify` and `bench` do to a plugin: ask it about clusters as the scheduler asks.
//!
//! A plugin comes as a `PluginFactory`, so a component and a native one are tried alike, and nothing here knows wasm.
//! [`Suite`] compares answers with those that an author wrote down, [`conformance`] checks what the contract asks of
//! every plugin, [`measure`] times each extension point.

mod answers;
pub mod conformance;
pub mod measure;
mod random;
mod suite;
mod trial;

pub use answers::{Answers, Rejection};
pub use conformance::{Check, Outcome, conformance};
pub use measure::{Measurement, measure};
pub use suite::{Case, CaseResult, Step, Suite, SuiteError};
pub use trial::Trial;
