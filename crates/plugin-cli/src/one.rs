//! The options that choose a scheduler and one of its plugins.

use std::path::PathBuf;

use anyhow::Result;
use berth_cluster::{ConnectOptions, USER_AGENT};
use berth_serving::admin_socket;
use clap::Args;

use crate::{admin_client::AdminClient, output::Output};

/// The scheduler to connect to, and the user.
#[derive(Args, Debug)]
pub struct Server {
    /// The scheduler's --admin-socket [default: the socket of this user's scheduler]
    #[arg(long, env = "BERTH_ADMIN_SOCKET", value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// HTTPS address of a scheduler with --secure-port, to use instead of the socket
    #[arg(long, env = "BERTH_SERVER", value_name = "HOST:PORT", conflicts_with = "socket")]
    pub(crate) server: Option<String>,
    /// With --server: a file with the bearer token of a user with the necessary rights [default: the user of
    /// --kubeconfig]
    #[arg(long, value_name = "FILE", requires_all = ["server", "certificate_authority"], conflicts_with_all = ["kubeconfig", "context"])]
    pub(crate) token_file: Option<PathBuf>,
    /// With --server: a file with the certificate authorities of the scheduler's certificate, or with the scheduler's
    /// certificate itself [default: the certificate authorities of the kubeconfig's cluster]
    #[arg(long, value_name = "FILE", requires = "server")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// With --server: kubeconfig file of a user with the necessary rights [default: $KUBECONFIG, ~/.kube/config]
    #[arg(long, value_name = "FILE", requires = "server")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// With --server: context of the kubeconfig file
    #[arg(long, value_name = "NAME", requires = "server")]
    pub(crate) context: Option<String>,
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
    /// Makes the client for the chosen scheduler.
    ///
    /// # Errors
    /// The address, the file of the token or the kubeconfig cannot be used.
    pub async fn client(&self) -> Result<AdminClient> {
        let Some(server) = &self.server else {
            return Ok(AdminClient::on_socket(self.socket.clone().unwrap_or_else(admin_socket::default_path)));
        };
        if let (Some(token), Some(authority)) = (&self.token_file, &self.certificate_authority) {
            return AdminClient::over_https(server, token, authority);
        }
        let user = ConnectOptions {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            certificate_authority: self.certificate_authority.clone(),
            user_agent: USER_AGENT.to_owned(),
            ..ConnectOptions::default()
        };
        AdminClient::as_user(server, user).await
    }
}
