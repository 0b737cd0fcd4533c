//! Which scheduler, and which of its plugins.

use std::path::PathBuf;

use anyhow::Result;
use berth_serving::admin_socket;
use clap::Args;

use crate::{admin_client::AdminClient, output::Output};

/// Which scheduler to speak to, and how to answer.
#[derive(Args, Debug)]
pub struct Server {
    /// The scheduler's --admin-socket [default: where a scheduler of this user has it]
    #[arg(long, env = "BERTH_ADMIN_SOCKET", value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Instead, the HTTPS address of a scheduler that runs as `kube-scheduler`
    #[arg(long, env = "BERTH_SERVER", value_name = "HOST:PORT", requires_all = ["token_file", "certificate_authority"])]
    pub(crate) server: Option<String>,
    /// With --server: a file with the bearer token of a user with the rights for it
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// With --server: a file with the certificates that vouch for the scheduler's, or its own
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate_authority: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct One {
    /// The plugin's name
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Output for people or for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
}

impl Server {
    /// Speaks to it.
    ///
    /// # Errors
    /// The address or the file of the token cannot be used.
    pub fn client(&self) -> Result<AdminClient> {
        match (&self.server, &self.token_file, &self.certificate_authority) {
            (Some(server), Some(token), Some(authority)) => AdminClient::over_https(server, token, authority),
            _ => Ok(AdminClient::on_socket(self.socket.clone().unwrap_or_else(admin_socket::default_path))),
        }
    }
}
