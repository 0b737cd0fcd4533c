//! Why a pod is where it is, or why it waits.
//!
//! Two things are explained. A [`DecisionRecord`] is what is kept of a cycle: made from a
//! [`Decision`](berth_framework::run::Decision) while the cycle's buffers are there, and small enough to keep many
//! ([`DecisionRing`]). An [`Analysis`] is worked out when somebody asks: every Filter plugin is asked about every node
//! by itself, on a copy of the cluster. Both go into an [`Explanation`], which is data; [`text`](Explanation::text)
//! shows it to people.
//!
//! Nothing here knows the scheduler, a clock or the API server: what is asked about, and the plugins to ask, come in.

#![warn(clippy::wildcard_enum_match_arm)]

mod analysis;
mod cause;
mod explanation;
mod nearest;
mod record;
mod resources;
mod ring;
mod subject;
mod text;

pub use analysis::{
    Analysis, Combination, NodeReport, PluginReport, PluginTook, PodRejected, Preemption, Question, ReasonCount,
    Refusals, analyze, refusals,
};
pub use cause::Cause;
pub use explanation::Explanation;
pub use nearest::{NearNode, NodeReason};
pub use record::{DecisionRecord, Made, Outcome, PluginScore, RankedNode, Rejected, Sampled};
pub use resources::{Lack, ResourceSum, amount};
pub use ring::DecisionRing;
pub use subject::{Holder, PodName, Retry, State, Subject, WaitsFor};
