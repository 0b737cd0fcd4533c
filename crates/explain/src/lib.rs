//! This crate explains why a pod is on its node, or why it waits.
//!
//! An explanation has two parts. A [`DecisionRecord`] keeps the decision of a cycle. It is made from a
//! [`Decision`](berth_framework::run::Decision) while the cycle's buffers exist, and is small, so that many records can
//! be kept ([`DecisionRing`]). An [`Analysis`] is made when a user asks. Every Filter plugin is then asked about every
//! node on its own, on a copy of the cluster, and plugins may add [their own words](PluginWords). Both parts become one
//! [`Explanation`], which is data. [`text`](Explanation::text) shows it to people.
//!
//! This crate knows neither the scheduler, nor a clock, nor the API server. The caller provides the subject and the
//! plugins to ask.

#![warn(clippy::wildcard_enum_match_arm)]

mod analysis;
mod budgets;
mod cause;
mod earlier;
mod explanation;
mod nearest;
mod question;
mod record;
mod resources;
mod ring;
mod subject;
mod suggestion;
mod text;
mod words;

pub use analysis::{
    Analysis, CYCLES, Combination, MissingNodes, NodeReport, PluginAnalysis, PluginTook, PluginWords, PodRejected,
    PreemptionReport, ReasonCount, Refusals, analyze, refusals,
};
pub use budgets::ViolatedBudget;
pub use cause::Cause;
pub use earlier::EarlierAttempt;
pub use explanation::Explanation;
pub use nearest::{NearNode, NodeReason};
pub use question::Question;
pub use record::{DecisionRecord, Made, NotBound, Outcome, PluginScore, RankedNode, Rejected, Sampled};
pub use resources::{Lack, ResourceSum, amount};
pub use ring::DecisionRing;
pub use subject::{Holder, PodIdentity, PodState, Retry, Subject, WaitsFor};
pub use suggestion::Suggestion;
pub use words::add_words;
