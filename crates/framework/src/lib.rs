//! The definition of a plugin: extension points as traits over the node table, statuses, manifests, and the plugin sets
//! of a profile.
//!
//! A built-in plugin implements these traits directly. The host runs a component through an implementation of the same
//! traits. This crate knows nothing of wasm, Kubernetes' API machinery, time or threads.

#![warn(clippy::wildcard_enum_match_arm)]

mod clock;
mod deadline;
pub mod effect;
pub mod equivalence;
pub mod error;
pub mod extender;
pub mod factory;
pub mod grants;
pub mod hooks;
#[doc(hidden)]
pub mod implemented;
mod macros;
pub mod manifest;
pub mod meter;
mod object_kind;
mod per_point;
pub mod plugin;
mod plugin_messages;
pub mod points;
pub mod profile;
pub mod run;
pub mod scheduling_time;
pub mod status;
mod time_report;
pub mod trace;
pub mod unlisted;

pub use clock::Clock;
pub use deadline::Deadline;
pub use effect::{Demand, Effect, EffectKind, ObjectAccess, ObjectRef, PatchType, Permission, Verb};
pub use equivalence::EquivalenceCache;
pub use error::{BuildError, ConfigureError, RestoreError};
pub use extender::{ExtenderError, ExtenderIdx, ExtenderProfile, ExtenderVerdict, ExtenderVictims, Extenders};
pub use factory::{Configure, PluginFactory, PluginType};
pub use grants::{Grants, Namespaces, ObjectRule, RuleObjects};
pub use hooks::{DeltaSource, EndCycle, Fact, Follow, Hosted, Reach, Reuse, ShareFacts, State};
pub use manifest::{ClusterEvent, Manifest, Needs};
pub use meter::{Measured, Meter, PluginTime, PointTime, Start};
pub use object_kind::{FACTS_API_VERSION, ObjectKind};
pub use plugin::{ExtensionPoint, Hook, HookRef, Plugin, PluginVersion, Point, PointRef, Points};
pub use plugin_messages::LateEffects;
pub use points::{
    Bind, Call, CycleId, DryRun, DryRunCase, EventSubject, Explain, Failure, Filter, HintCall, Normalize, Permit,
    PermitVerdict, PostBind, PostFilter, PostFilterOutcome, PreBind, PreBindPreFlight, PreEnqueue, PreFilter,
    PreFlight, PreScore, Preemption, QueueSort, QueueingHint, RejectedNodes, Removal, Reserve, Score, Sign,
};
pub use profile::{Instance, PluginIdx, PluginSet, PluginsAt, Profile};
pub use scheduling_time::{OutOfTime, PluginAccount, SchedulingTime, SearchLength, SpentSearches, TimeBounds};
pub use status::{Code, Status};
pub use time_report::{Share, TimeReport};
pub use trace::{TraceSampling, TracedCall, TracedSpan};
pub use unlisted::{UnlistedKind, UnlistedKinds};
