//! `berth run`: schedule the pods of a cluster.

use std::{
    io::{self, Write as _},
    num::NonZero,
    path::{Path, PathBuf},
    thread,
};

use anyhow::{Context as _, Result};
use berth_cluster::{ConnectError, ConnectOptions, connect_for_long};
use berth_config::{Overrides, Program, Usage, emulation::Emulation};
use berth_kube_flags::ServingFlags;
use berth_model::Release;
use berth_plugin_cli::block_on_runtime;
use berth_runtime::{Draft, Options, Session, release};
use berth_serving::secure_serving::SecureServing;
use berth_telemetry::chain;
use clap::Args as _;
use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

use crate::{
    options::{AllOptions, Run},
    serving,
};

/// The options of a scheduler on a cluster, as the command line gives them.
pub(crate) struct Invocation {
    pub kubeconfig: Option<PathBuf>,
    pub context: Option<String>,
    /// The API server's address, which replaces the kubeconfig's.
    pub server: Option<String>,
    pub options: Options,
    /// The Kubernetes release that decides the rules.
    pub emulation: Emulation,
    pub overrides: Overrides,
    pub output: ConfigOutput,
}

/// Whether to write the complete configuration instead of scheduling.
pub(crate) enum ConfigOutput {
    None,
    Standard,
    File(PathBuf),
}

pub(crate) fn run(arguments: Run) -> Result<()> {
    let overrides = overrides(&arguments);
    let secure_serving = secure_serving(&arguments)?;
    let Run { kubeconfig, context, scheduling, print_config, .. } = arguments;
    let output = if print_config { ConfigOutput::Standard } else { ConfigOutput::None };
    let emulation = scheduling.emulation()?;
    let options = Options { secure_serving, ..scheduling.into() };
    schedule_blocking(Invocation { kubeconfig, context, server: None, options, emulation, overrides, output })
}

/// The settings of HTTPS; `None` if HTTPS is not served. Reviews of callers go to the cluster that is scheduled, unless
/// a flag names another.
fn secure_serving(arguments: &Run) -> Result<Option<SecureServing>, Usage> {
    let ServingFlags(given) = &arguments.serving;
    let kubeconfig = arguments.kubeconfig.clone().or_else(|| kubeconfig_in(arguments.scheduling.config.as_deref()?));
    let reviews = serving::cluster(kubeconfig, arguments.context.clone());
    let serving = serving::read(given, 0, Some(reviews))?;
    match (given.first_about_serving(), serving) {
        (Some(flag), None) if flag != "secure-port" => {
            Err(Usage(format!("--{flag} needs --secure-port PORT: without it, HTTPS is not served")))
        }
        (_, serving) => {
            let flags = options_with_values(&arguments.all);
            Ok(serving.map(|serving| SecureServing { flags, ..serving }))
        }
    }
}

/// `clientConnection.kubeconfig` of a configuration file. This function ignores mistakes in the file, because the later
/// read of the whole file reports mistakes.
pub(crate) fn kubeconfig_in(file: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(file).ok()?;
    let configuration: Value = serde_saphyr::from_str(&text).ok()?;
    let kubeconfig = configuration["clientConnection"]["kubeconfig"].as_str()?;
    (!kubeconfig.is_empty()).then(|| kubeconfig.into())
}

/// All options with their values or defaults, sorted by name, as `/flagz` shows them.
fn options_with_values(all: &AllOptions) -> Vec<(String, String)> {
    let run = Run::augment_args(clap::Command::new("run"));
    let own = run.get_arguments().filter_map(|option| Some((option.get_long()?, option.get_id().as_str())));
    // The other options belong to all commands.
    let of_all = [("log", "log"), ("log-format", "log_format")];
    let mut options: Vec<(String, String)> =
        own.chain(of_all).map(|(name, id)| (name.to_owned(), all.shown(id))).collect();
    options.sort();
    options
}

/// Schedules until a signal stops the process.
///
/// # Errors
/// An option or the configuration is invalid, or scheduling cannot continue.
pub(crate) fn schedule_blocking(invocation: Invocation) -> Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(n_workers(thread::available_parallelism().map_or(1, NonZero::get)));
    block_on_runtime(&mut runtime, schedule(invocation))
}

/// The number of threads that speak with the API server on a machine with `n_processors` processors. One thread keeps
/// up with some thousand pods a second, and each further thread costs switches between threads: on two processors, a
/// second thread used a sixth more processor time per pod.
fn n_workers(n_processors: usize) -> usize {
    (n_processors / 4).clamp(1, 4)
}

async fn schedule(invocation: Invocation) -> Result<()> {
    let Invocation { kubeconfig, context, server, mut options, emulation, overrides, output } = invocation;
    if !matches!(output, ConfigOutput::None) {
        return write_config(options, &emulation, overrides, output).await;
    }
    let mut draft = Draft::new(&options, overrides).await?;
    let settings = draft.settings_of_any_release()?;
    let kubeconfig = kubeconfig.or_else(|| {
        let named = &settings.client_connection.kubeconfig;
        (!named.is_empty()).then(|| named.into())
    });
    let server = ConnectOptions { server, ..serving::cluster(kubeconfig, context) };
    let (connection, renewal) = connect_for_long(&server).await.map_err(|error| match error {
        ConnectError::NoCluster => Usage(format!("{error} with --kubeconfig FILE")),
        error => Usage(chain(&error)),
    })?;
    info!(server = connection.server, origin = %connection.origin, "connecting");
    options.decide_as(release::of_cluster(&connection, &emulation).await?.gates);
    let plan = draft.plan(&options)?;
    let mut session = Session::start(connection, plan, &options, None).await?;
    session.renew_credentials(renewal)?;
    session.run_until(until_told_to_stop()).await
}

/// Writes the complete configuration without asking an API server. The configuration is for the release of
/// `--emulated-version`, or else for the oldest release.
async fn write_config(
    mut options: Options,
    emulation: &Emulation,
    overrides: Overrides,
    output: ConfigOutput,
) -> Result<()> {
    let version = emulation.version().unwrap_or_else(|| Release::default().into());
    options.decide_as(emulation.resolve(version).map_err(|error| Usage(error.to_string()))?.gates);
    let text = berth_runtime::settings(&options, overrides).await?.to_yaml()?;
    match output {
        ConfigOutput::None => Ok(()),
        ConfigOutput::Standard => Ok(write!(io::stdout().lock(), "{text}")?),
        ConfigOutput::File(file) => {
            let written = std::fs::write(&file, text);
            written.with_context(|| format!("--write-config-to {}: cannot be written", file.display()))
        }
    }
}

/// The settings that options add to the configuration file.
fn overrides(arguments: &Run) -> Overrides {
    let mut fields = Map::new();
    if let Some(leader_elect) = arguments.leader_elect {
        fields.insert("leaderElection".to_owned(), json!({ "leaderElect": leader_elect }));
    }
    Overrides { program: Program::Berth, scheduler_name: arguments.scheduler_name.clone(), fields }
}

/// Waits for SIGTERM or SIGINT. A second signal ends the process immediately.
pub(crate) async fn until_told_to_stop() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    info!("stopping");
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        std::process::exit(1);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn serving(options: &[&str]) -> Result<Option<SecureServing>, Usage> {
        let cli = Cli::try_parse_from(["berth", "run"].iter().chain(options)).expect("known options");
        let Command::Run(arguments) = cli.command else { panic!("it is another command") };
        secure_serving(&arguments)
    }

    #[test]
    fn https_is_served_where_a_port_is_named() {
        assert_eq!(serving(&[]).expect("fine").map(|serving| serving.address), None);
        let options = ["--secure-port=10259", "--bind-address=127.0.0.1", "--kubeconfig=/etc/k", "--context=here"];
        let read = serving(&options).expect("fine").expect("it serves");
        assert_eq!(read.address.to_string(), "127.0.0.1:10259");
        let asked = [read.authentication, read.authorization].map(|asked| asked.expect("the cluster is asked"));
        for asked in &asked {
            assert_eq!(asked.kubeconfig.as_deref(), Some(Path::new("/etc/k")));
            assert_eq!(asked.context.as_deref(), Some("here"));
        }
        let other = serving(&[&options[..], &["--authorization-kubeconfig=/etc/other"]].concat());
        let asked = other.expect("fine").expect("it serves").authorization.expect("the cluster is asked");
        assert_eq!((asked.kubeconfig.as_deref(), asked.context), (Some(Path::new("/etc/other")), None));
    }

    #[test]
    fn flags_about_https_need_a_port() {
        let error = serving(&["--tls-cert-file=a", "--tls-private-key-file=b"]).expect_err("refused").to_string();
        assert!(error.contains("needs --secure-port PORT"), "{error}");
    }

    #[test]
    fn all_options_are_shown_with_their_values() {
        let options = ["--secure-port=10259", "--scheduler-name", "a", "--kubeconfig", "k", "--leader-elect"];
        let flags = serving(&options).expect("fine").expect("it serves").flags;
        let value = |name: &str| flags.iter().find(|(flag, _)| flag == name).map(|(_, value)| value.as_str());
        for (name, expected) in [
            ("secure-port", "10259"),
            ("scheduler-name", "a"),
            ("kubeconfig", "k"),
            ("leader-elect", "true"),
            ("print-config", "false"),
            ("tls-cert-file", ""),
            ("log-format", "text"),
        ] {
            assert_eq!(value(name), Some(expected), "{name}");
        }
    }
}
