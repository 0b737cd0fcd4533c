//! The plugins of a process. Plugins are loaded at the start and supervised while the scheduler runs.
//!
//! `berth-lifecycle` decides, without I/O, which binary serves where. This crate does the work around it. `load`
//! prepares the built-ins, and `directory` and `pulls` find the other binaries. `rules` contains the operator's
//! settings. `inventory` takes every [`Finding`] and makes profiles of all plugins. `supervisor` is the task that
//! informs the registry and carries out its decisions.
//!
//! The API server is deliberately absent from this crate. Events of plugins are reported through
//! [`berth_telemetry::notices`].

mod directory;
mod error;
mod faults;
mod finding;
mod inventory;
mod limits;
mod load;
mod message;
mod options;
mod placeholder;
mod preparing;
mod provenance;
mod pulls;
mod ready_binary;
mod report;
mod rules;
mod sent_swaps;
pub mod settings_file;
mod standing;
mod state_file;
mod supervisor;
mod totals;
pub mod watched_kinds;
mod whole_pods;

pub use self::{
    directory::{
        Admission, Approval, Candidate, DirectoryChange, DirectoryError, DirectoryEvent, DirectoryWatch, FileError,
        NotAdmitted, PluginsDirectory,
    },
    error::PluginHostError,
    finding::Finding,
    inventory::{InstalledPlugin, PluginInventory, UnusableFile},
    limits::limits,
    load::Plugins,
    message::{Consultation, HostSettings, Message, Order, OrderRefusal, Proposal},
    options::{PluginHostOptions, Sources},
    preparing::prepare,
    ready_binary::is_own,
    report::{
        Complaint, GrantsReport, LimitsReport, NeedsReport, OrderReport, PluginReport, ProbationReport,
        QuarantinedBinary, ServingBinary,
    },
    rules::{Granted, GrantsHint, NotGranted, Rules},
    settings_file::{HostFile, SettingsFileError},
    supervisor::{Surroundings, start},
    whole_pods::WholePods,
};
