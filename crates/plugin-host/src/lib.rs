//! The plugins of a process: loaded at the start, watched over while the scheduler runs.
//!
//! Which binary serves where is decided in `berth-lifecycle`, without I/O. Here is what surrounds it: `load` makes the built-ins
//! ready, `directory` and `pulls` find what comes from elsewhere, `rules` says what the operator allows, `inventory` takes every
//! [`Finding`] in and makes profiles of all plugins, and `supervisor` is the task that tells it what happens and carries out what
//! is decided.
//!
//! Deliberately absent: the API server. What happens to plugins is told through [`berth_telemetry::notices`].

mod directory;
mod error;
mod faults;
mod finding;
mod inventory;
mod limits;
mod load;
mod message;
mod options;
mod preparing;
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
    directory::{
        Admission, Approval, Candidate, DirectoryChange, DirectoryError, DirectoryEvent, DirectoryWatch, FileError,
        NotAdmitted, PluginsDirectory,
    },
    error::PluginHostError,
    finding::Finding,
    inventory::{InstalledPlugin, PluginInventory, UnusableFile, is_own},
    limits::limits,
    load::Plugins,
    message::{Consultation, HostSettings, Message, Order, OrderRefusal, Proposal},
    options::{PluginHostOptions, Sources},
    preparing::prepare,
    report::{Complaint, Grants, Limits, Needs, PluginReport, ProbationReport, QuarantinedBinary, ServingBinary},
    rules::{Granted, NotGranted, Rules},
    settings_file::{HostFile, SettingsFileError},
    supervisor::{Surroundings, start},
};
