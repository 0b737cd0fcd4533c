//! The plugins of a process: loaded at the start, watched over while the scheduler runs.
//!
//! Which binary serves where is decided in `berth-lifecycle`, without I/O. Here is what surrounds it: `load` compiles what is
//! there at the start, `rules` says what the operator allows, `inventory` holds both, `profiles` makes profiles of them, and
//! `supervisor` is the task that tells the registry what happens and carries out what it decides.

mod announcer;
mod inventory;
mod load;
mod message;
mod profiles;
mod provenance;
mod pulls;
mod ready_binary;
mod report;
mod rules;
pub(crate) mod settings_file;
mod stand_in;
mod standing;
mod state_file;
mod supervisor;
mod totals;

pub(crate) use self::{
    announcer::Announcer,
    inventory::{PluginInventory, is_own},
    load::{Plugins, UnusableFile, artifact_cache, limits, usable_artifact_cache},
    message::{HostSettings, Message, Order, Proposal},
    report::{Grants, PluginReport, QuarantinedBinary, ServingBinary},
    rules::{Granted, Rules},
    supervisor::{Surroundings, start},
};
