//! `berth plugin`: see and steer the plugins of a running scheduler, and make new ones (`crate::author`).
//!
//! Every subcommand is a module of `plugin_command/`; all of them speak to `/admin/plugins` through `plugin_command/client.rs`.

mod client;
mod describe;
mod list;
mod order;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

pub(crate) use self::client::AdminClient;
use crate::{author, options::Output, run::block_on};
use berth_serving::admin_socket;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show all plugins: what serves, in which state, and how it does
    List {
        #[command(flatten)]
        server: Server,
    },
    /// Show everything about one plugin
    Describe(One),
    /// Read the plugin's file again and try it, even if it was refused before
    Reload(One),
    /// Switch a plugin on again
    Enable(One),
    /// Switch a plugin off: pods are scheduled as if no profile named it
    Disable(One),
    /// Go back to the binary that served before; the present one is not tried again until its file changes
    Rollback(One),
    #[command(flatten)]
    Author(author::Command),
}

/// Which scheduler to speak to, and how to answer.
#[derive(Args, Debug)]
pub(crate) struct Server {
    /// The scheduler's --admin-socket [default: where a scheduler of this user has it]
    #[arg(long, env = "BERTH_ADMIN_SOCKET", value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Instead, the HTTPS address of a scheduler that runs as `kube-scheduler`
    #[arg(long, env = "BERTH_SERVER", value_name = "HOST:PORT", requires_all = ["token_file", "certificate_authority"])]
    server: Option<String>,
    /// With --server: a file with a bearer token of a user who may steer plugins
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// With --server: a file with the certificates that vouch for the scheduler's, or its own
    #[arg(long, value_name = "FILE")]
    certificate_authority: Option<PathBuf>,
    /// Output for people or for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Args, Debug)]
pub(crate) struct One {
    /// The plugin's name
    name: String,
    #[command(flatten)]
    server: Server,
}

impl Server {
    fn client(&self) -> Result<AdminClient> {
        match (&self.server, &self.token_file, &self.certificate_authority) {
            (Some(server), Some(token), Some(authority)) => AdminClient::over_https(server, token, authority),
            _ => Ok(AdminClient::on_socket(self.socket.clone().unwrap_or_else(admin_socket::default_path))),
        }
    }
}

pub(crate) fn run(command: Command) -> Result<()> {
    if let Command::Author(command) = &command {
        return author::run(command);
    }
    block_on(async {
        match command {
            Command::Author(_) => Ok(()),
            Command::List { server } => list::run(&server).await,
            Command::Describe(one) => describe::run(&one).await,
            Command::Reload(one) => order::run(&one, "reload").await,
            Command::Enable(one) => order::run(&one, "enable").await,
            Command::Disable(one) => order::run(&one, "disable").await,
            Command::Rollback(one) => order::run(&one, "rollback").await,
        }
    })
}
