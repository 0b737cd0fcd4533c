//! Reads the operator's files: `KubeSchedulerConfiguration` documents into complete, validated [`Settings`],
//! `PluginHostConfiguration` documents into [`PluginHostSettings`], and `TracingConfiguration` documents into
//! [`TracingSettings`].
//!
//! A `KubeSchedulerConfiguration` is read in one strict pass. `settings` reads the top level, and `profile` reads one
//! scheduling profile. The plugin lists of a profile are merged with the defaults in `merge` and expanded to the
//! extension points in `expand`. All mistakes are collected with their field paths and returned as one [`ConfigError`].
//!
//! This crate knows no plugin code and, apart from the types of the framework and the model, no other crate. A
//! [`PluginCatalogue`] says which plugin implements which extension point, and [`Profile::build`] gets the plugins from
//! its caller. The crate does not read or watch files.

#![warn(clippy::wildcard_enum_match_arm)]

mod running;
mod settings;

mod changes;

mod plugin_host;

mod tracing;

mod args;
mod extender;
mod leader;
pub mod migrate;
mod profile;

mod build;

mod expand;
mod in_tree;
mod merge;
mod named_points;
mod point;

pub mod emulation;
mod error;
pub mod feature_gates;
mod fields;
mod names;
mod nearest;
mod useless_names;

pub use build::ProvidedPlugin;
pub use changes::Change;
pub use error::{ConfigError, Problem, Usage};
pub use expand::PluginSets;
pub use extender::{Extender, ExtenderTls, ManagedResource};
pub use in_tree::{InTree, missing_plugins, points_of_missing_plugin};
pub use leader::LeaderElection;
pub use named_points::NamedPoints;
pub use nearest::nearest;
pub use plugin_host::{
    Execution, FailurePolicy, FileSettings, KeylessSettings, KeylessSubject, PLUGIN_HOST_API_VERSION, PluginGrants,
    PluginHostConfigError, PluginHostSettings, PluginLimits, PluginSettings, PluginSource, PluginTermsError, Probation,
    ProbationSpan, ProvenanceSettings, Quarantine, RegistrySettings, SchedulingThreadSettings, SignatureRule,
    SignatureSource, SignerIdentity, SignerSettings, Unsigned,
};
pub use point::{PluginCatalogue, configurable_points};
pub use profile::Profile;
pub use running::RunningConfiguration;
pub use settings::{ClientConnection, Overrides, Program, Settings};
pub use tracing::TracingSettings;
pub use useless_names::UselessName;
