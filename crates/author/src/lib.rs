//! The work of `berth plugin test`, `verify` and `bench`: they call a plugin about clusters as the scheduler does.
//!
//! A plugin comes as a `PluginFactory`, so components and native plugins are treated alike, and this crate does not
//! depend on wasm. [`PluginHarness`] holds one instance and a cluster in memory. [`CaseFile`] compares answers with
//! answers that an author wrote down, [`conformance`] checks the contract of every plugin, and [`measure`] times each
//! extension point. The last two work in a [`Situation`], for example the situation of a case.

mod answers;
mod case_action;
mod case_decoding;
mod case_effect;
mod case_file;
mod case_host;
mod case_objects;
mod case_reading;
mod case_text;
mod case_uids;
mod case_words;
mod conformance;
mod every_hint;
mod every_point;
mod full_cluster;
mod harness;
mod ignored;
mod measure;
mod nearest;
mod placing;
mod random;
mod released;
mod situation;
mod step;
mod waiting_pods;

pub use answers::{Hint, PluginAnswers, PodAnswer, PreFilterAnswer, Rejection, ReleasedPod};
pub use case_action::{CaseAction, NoAction};
pub use case_decoding::WrongForm;
pub use case_effect::{AwaitedObject, CaseEffect, CasePatchType};
pub use case_file::{CaseFile, CaseResult, PluginCase};
pub use case_host::CaseHost;
pub use case_objects::CaseObjectError;
pub use case_reading::CaseFileError;
pub use case_words::{CaseWords, PartOfWords};
pub use conformance::{CheckOutcome, ConformanceCheck, conformance};
pub use harness::{HarnessError, PluginHarness};
pub use measure::{MeasuredPlugin, Measurement, Sizes, measure, sizes};
pub use placing::FailsAt;
pub use situation::Situation;
pub use step::{CaseError, CaseEvent, CaseStep, QueuedPod};
