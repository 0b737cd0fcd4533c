//! The plugins of a process: loaded at the start, watched over while the scheduler runs.
//!
//! Which binary serves where is decided in `berth-lifecycle`, without I/O. Here is what surrounds it: `load` compiles what is
//! there at the start, `rules` says what the operator allows, `inventory` holds both, `profiles` makes profiles of them, and
//! `supervisor` is the task that tells the registry what happens and carries out what it decides.
//!
//! Deliberately absent: the API server. Events about plugins go out through an [`EventSink`].

mod announcer;
mod error;
mod inventory;
mod load;
mod message;
mod options;
mod profiles;
mod provenance;
mod pulls;
mod ready_binary;
mod report;
mod rules;
pub mod settings_file;
mod stand_in;
mod standing;
mod state_file;
mod supervisor;
mod totals;
pub mod watched_kinds;

pub use self::{
    announcer::{EventSink, PluginEvent, Severity},
    error::PluginHostError,
    inventory::{InstalledPlugin, PluginInventory, is_own},
    load::{Plugins, UnusableFile, limits},
    message::{Consultation, HostSettings, Message, Order, OrderRefusal, Proposal},
    options::{PluginHostOptions, Sources},
    report::{Grants, Limits, Needs, PluginReport, QuarantinedBinary, ServingBinary},
    rules::{Granted, NotGranted, Rules},
    settings_file::{HostFile, SettingsFileError},
    supervisor::{Surroundings, start},
};
