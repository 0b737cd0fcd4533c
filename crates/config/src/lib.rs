//! What did the operator ask for? Reads `KubeSchedulerConfiguration` documents into complete, validated [`Settings`], and
//! `PluginHostConfiguration` documents into [`PluginHostSettings`].
//!
//! A `KubeSchedulerConfiguration` goes through one strict pass: `settings` reads the top level, `profile` one scheduling profile, whose
//! plugin lists are laid over the defaults in `merge` and spread over the extension points in `expand`. Whatever is
//! wrong is gathered with its field path and returned as one [`ConfigError`].
//!
//! This crate knows no plugin code and, beside the framework's types, no other crate: a [`PluginCatalogue`] tells it
//! which plugin implements which extension point, and [`Profile::build`] is given the plugins. It neither reads files nor
//! watches them.

#![warn(clippy::wildcard_enum_match_arm)]

mod running;
mod settings;

mod changes;

mod plugin_host;

mod args;
mod extender;
mod leader;
pub mod migrate;
mod profile;

mod build;

mod expand;
mod in_tree;
mod merge;
mod point;

pub mod emulation;
mod error;
pub mod feature_gates;
mod fields;
mod names;
mod useless_names;

pub use build::ProvidedPlugin;
pub use changes::Change;
pub use error::{ConfigError, Problem, Usage};
pub use expand::PluginSets;
pub use extender::{Extender, ExtenderTls, ManagedResource};
pub use in_tree::{InTree, missing_plugins, points_of_missing_plugin};
pub use leader::LeaderElection;
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
pub use useless_names::UselessName;
