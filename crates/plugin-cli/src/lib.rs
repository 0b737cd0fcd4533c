//! `berth plugin`: commands to see and control the plugins of a running scheduler, and to make new plugins.
//!
//! `list`, `describe` and `order` send requests to `/admin/plugins` through [`AdminClient`]. The commands for authors
//! are in `author_commands`. `berth_author` works on plugins; this crate has the command lines, the projects on disk
//! and the output.

mod admin_client;
mod author_commands;
mod blocking;
mod describe;
mod list;
mod one;
mod option_value;
mod order;
mod output;
mod schema;
pub mod table;

use anyhow::Result;
use clap::Subcommand;

use self::one::One;
pub use self::{
    admin_client::AdminClient,
    blocking::{block_on, block_on_runtime},
    one::Server,
    option_value::unless_empty,
    output::Output,
    schema::{SchemaName, print as print_schema},
};

const DISABLED: &str = "\
Pods that the plugin holds at Permit go on without its answer; the command prints their number. The plugin stays disabled over a
restart of the scheduler only if the scheduler has --plugin-state.";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show all plugins, each with its state, binary, signers and number of faults
    List {
        #[command(flatten)]
        server: Server,
        /// Output for people or for programs
        #[arg(short, long, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Show everything about one plugin
    Describe(One),
    /// Try the plugin's file, or the artifact in its registry, again, even if it was refused before
    Reload(One),
    /// Enable a plugin that was disabled
    Enable(One),
    /// Disable a plugin: pods are scheduled as if no profile named the plugin
    #[command(after_help = DISABLED)]
    Disable(One),
    /// Return to the previous binary; the present binary is not tried again until its file or its artifact changes
    Rollback(One),
    #[command(flatten)]
    Author(author_commands::Command),
}

/// Runs one of the commands.
///
/// # Errors
/// The error says in plain words why the command failed.
pub fn run(command: Command) -> Result<()> {
    if let Command::Author(command) = &command {
        return author_commands::run(command);
    }
    block_on(async {
        match command {
            Command::Author(_) => Ok(()),
            Command::List { server, output } => list::run(&server, output).await,
            Command::Describe(one) => describe::run(&one).await,
            Command::Reload(one) => order::run(&one, "reload").await,
            Command::Enable(one) => order::run(&one, "enable").await,
            Command::Disable(one) => order::run(&one, "disable").await,
            Command::Rollback(one) => order::run(&one, "rollback").await,
        }
    })
}
