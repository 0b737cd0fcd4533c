//! The options that choose a scheduler and one of its plugins.

use std::path::{Path, PathBuf};

use anyhow::Result;
use berth_cluster::{ConnectOptions, USER_AGENT};
use berth_config::Usage;
use berth_serving::admin_socket;
use clap::{
    Args, ValueHint,
    builder::{PathBufValueParser, StringValueParser},
};

use crate::{
    admin_client::AdminClient,
    option_value::{OptionValue, OptionValueParser, unless_empty},
    output::Output,
};

/// The scheduler to connect to, and the user.
#[derive(Args, Debug)]
pub struct Server {
    /// The scheduler's --admin-socket [default: the socket of this user's scheduler]
    #[arg(
        long,
        env = unless_empty("BERTH_ADMIN_SOCKET"),
        value_name = "PATH",
        value_parser = OptionValueParser(PathBufValueParser::new()),
        value_hint = ValueHint::AnyPath
    )]
    socket: Option<OptionValue<PathBuf>>,
    /// HTTPS address of a scheduler with --secure-port, to use instead of the socket
    #[arg(
        long,
        env = unless_empty("BERTH_SERVER"),
        value_name = "HOST:PORT",
        value_parser = OptionValueParser(StringValueParser::new())
    )]
    server: Option<OptionValue<String>>,
    /// With --server: a file with the bearer token of a user with the necessary rights [default: the user of
    /// --kubeconfig]
    #[arg(long, value_name = "FILE", requires_all = ["server", "certificate_authority"], conflicts_with_all = ["kubeconfig", "context"])]
    token_file: Option<PathBuf>,
    /// With --server: a file with the certificate authorities of the scheduler's certificate, or with the scheduler's
    /// certificate itself [default: the certificate authorities of the kubeconfig's cluster]
    #[arg(long, value_name = "FILE", requires = "server")]
    certificate_authority: Option<PathBuf>,
    /// With --server: kubeconfig file of a user with the necessary rights [default: $KUBECONFIG, ~/.kube/config]
    #[arg(long, value_name = "FILE", requires = "server")]
    kubeconfig: Option<PathBuf>,
    /// With --server: context of the kubeconfig file [default: its current context]
    #[arg(long, value_name = "NAME", requires = "server")]
    context: Option<String>,
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

/// The place where the scheduler listens.
#[derive(Debug, PartialEq, Eq)]
enum Target<'a> {
    /// The path of the socket; `None` for the socket of this user's scheduler.
    Socket(Option<&'a Path>),
    /// The address for HTTPS.
    Server(&'a str),
}

impl Server {
    /// Makes the client for the chosen scheduler.
    ///
    /// # Errors
    /// The options contradict each other, or the address, the file of the token or the kubeconfig cannot be used.
    pub async fn client(&self) -> Result<AdminClient> {
        let server = match self.target()? {
            Target::Socket(path) => {
                return Ok(AdminClient::on_socket(path.map_or_else(admin_socket::default_path, Path::to_path_buf)));
            }
            Target::Server(server) => server,
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

    /// Chooses between the socket and the server. Clap cannot do this: it treats a variable like an option.
    fn target(&self) -> Result<Target<'_>, Usage> {
        let Some(server) = &self.server else {
            return Ok(Target::Socket(self.socket.as_ref().map(|socket| socket.value.as_path())));
        };
        let Some(socket) = &self.socket else { return Ok(Target::Server(&server.value)) };
        match (socket.is_on_command_line, server.is_on_command_line) {
            (false, true) => Ok(Target::Server(&server.value)),
            (true, false) => match self.option_of_server() {
                Some(option) => Err(Usage(format!("{option} cannot be used with --socket"))),
                None => Ok(Target::Socket(Some(&socket.value))),
            },
            (true, true) => Err(Usage("--server cannot be used with --socket".to_owned())),
            (false, false) => Err(Usage(
                "BERTH_ADMIN_SOCKET and BERTH_SERVER are both set: unset one, or give --socket or --server".to_owned(),
            )),
        }
    }

    /// An option on the command line that is only for `--server`.
    fn option_of_server(&self) -> Option<&'static str> {
        let options = [
            ("--token-file", self.token_file.is_some()),
            ("--certificate-authority", self.certificate_authority.is_some()),
            ("--kubeconfig", self.kubeconfig.is_some()),
            ("--context", self.context.is_some()),
        ];
        options.into_iter().find_map(|(option, is_given)| is_given.then_some(option))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        server: Server,
    }

    /// A command line, with the values of the two variables.
    fn server(arguments: &[&str], socket: Option<&str>, server: Option<&str>) -> Server {
        let mut given = Cli::try_parse_from(["berth"].iter().chain(arguments)).expect("a command line").server;
        if let Some(value) = socket {
            given.socket.get_or_insert(OptionValue { value: value.into(), is_on_command_line: false });
        }
        if let Some(value) = server {
            given.server.get_or_insert(OptionValue { value: value.into(), is_on_command_line: false });
        }
        given
    }

    #[test]
    fn an_option_wins_over_the_variable_of_the_other_option() {
        let (socket, address) = (Some("/variable"), Some("variable:1"));
        let over_socket = server(&["--server", "a:1"], socket, None);
        assert_eq!(over_socket.target().expect("a target"), Target::Server("a:1"));
        let over_server = server(&["--socket", "/a"], None, address);
        assert_eq!(over_server.target().expect("a target"), Target::Socket(Some(Path::new("/a"))));
        let over_both = server(&["--server", "a:1"], socket, address);
        assert_eq!(over_both.target().expect("a target"), Target::Server("a:1"));
        let of_variable = server(&[], None, address);
        assert_eq!(of_variable.target().expect("a target"), Target::Server("variable:1"));

        let refused = |server: Server| server.target().expect_err("a contradiction").0;
        let both = "BERTH_ADMIN_SOCKET and BERTH_SERVER are both set: unset one, or give --socket or --server";
        assert_eq!(refused(server(&[], socket, address)), both);
        assert_eq!(
            refused(server(&["--server", "a:1", "--socket", "/a"], None, None)),
            "--server cannot be used with --socket"
        );
        let mut with_kubeconfig = server(&["--socket", "/a"], None, address);
        with_kubeconfig.kubeconfig = Some("config".into());
        assert_eq!(refused(with_kubeconfig), "--kubeconfig cannot be used with --socket");
    }
}
