//! What `berth plugin test`, `verify` and `bench` do with a plugin: they call it about clusters as the scheduler does.
//!
//! A plugin comes as a `PluginFactory`, so components and native plugins are treated alike, and nothing here knows wasm.
//! [`PluginHarness`] holds one instance and a cluster in memory.
//! [`CaseFile`] compares answers with those that an author wrote down, [`conformance`] checks what the contract asks of
//! every plugin, [`measure`] times each extension point; the latter two in a [`Situation`], that of a case for one.

mod answers;
mod case_action;
mod case_effect;
mod case_file;
mod case_host;
mod case_objects;
mod case_reading;
mod case_text;
mod conformance;
mod every_point;
mod harness;
mod measure;
mod placing;
mod random;
mod situation;
mod step;

pub use answers::{Hint, PluginAnswers, PodAnswer, Rejection};
pub use case_action::{CaseAction, NoAction};
pub use case_effect::{AwaitedObject, CaseEffect};
pub use case_file::{CaseFile, CaseResult, PluginCase};
pub use case_host::CaseHost;
pub use case_objects::UnknownKey;
pub use case_reading::CaseFileError;
pub use conformance::{CheckOutcome, ConformanceCheck, conformance};
pub use harness::{HarnessError, PluginHarness};
pub use measure::{Measurement, Sizes, measure, sizes};
pub use situation::Situation;
pub use step::{CaseError, CaseEvent, CaseStep, QueuedPod};
