//! `berth doctor`: checks an operator's setup and says what to fix. `berth-doctor` has the checks.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::{Result, bail};
use berth_cluster::Impersonation;
use berth_doctor::{Cluster, Finding, RunningScheduler, Verdict, examine};
use berth_plugin_cli::{Output, block_on};
use berth_serving::admin_socket::default_path;
use clap::{Args, builder::NonEmptyStringValueParser};

use crate::{
    options::{RightsOptions, Scheduling},
    run::kubeconfig_in,
};

const EXAMPLES: &str = "\
Pass the same options as to `berth run`. The command checks

  configuration   do --config and --plugin-config parse, and does every plugin that a profile names exist?
  plugins         is each file of --plugins-dir a plugin, can the plugin read what its manifest requests, and what may it do?
  cache           does the directory for compiled plugins exist, is it writable, and is it closed to others?
  cluster         does the API server answer and how fast, is its release known, do the clocks agree, who holds the Leases, would
                  pods be scheduled twice, and may this user, or the user of --as, do all that the scheduler does?
  scheduler       with --metrics-address: is the scheduler healthy, has it listed all objects, and is every plugin in use?

`berth check` is another name for this command. The exit code is 1 if something is wrong. Warnings alone do not change the exit code.

Examples:
  berth check --pre --config scheduler.yaml --plugins-dir plugins --plugin-config plugin-host.yaml
                  before the installation
  berth check --offline --config scheduler.yaml
                  the files alone, as in a pipeline
  berth check --https --config scheduler.yaml --as system:serviceaccount:kube-system:berth
                  whether the service account of the scheduler has all rights that `berth rbac` prints
  berth doctor --kubeconfig ~/.kube/config --metrics-address 127.0.0.1:10259 -o json
                  the running scheduler as well, for programs";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Doctor {
    /// kubeconfig file [default: $KUBECONFIG, the pod's service account, ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig file [default: its current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// User to impersonate: the rights of this user are checked, such as those of
    /// system:serviceaccount:kube-system:berth
    #[arg(long = "as", value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    as_user: Option<String>,
    /// Group to impersonate with --as. Can be repeated [default: for a service account, its groups]
    #[arg(long, value_name = "GROUP", requires = "as_user", value_parser = NonEmptyStringValueParser::new())]
    as_group: Vec<String>,
    /// Check only files, and no cluster
    #[arg(long, conflicts_with_all = ["kubeconfig", "context", "as_user", "pre"])]
    offline: bool,
    /// Check before the installation: it is no problem that no scheduler holds the Lease yet
    #[arg(long)]
    pre: bool,
    /// Output for people or for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    rights: RightsOptions,
    #[command(flatten)]
    scheduling: Scheduling,
}

impl Doctor {
    /// # Errors
    /// `--emulated-version` is invalid.
    fn options(self) -> Result<berth_doctor::Options> {
        let Self { kubeconfig, context, as_user, as_group, offline, pre, rights, scheduling, output: _ } = self;
        let kubeconfig = kubeconfig.or_else(|| kubeconfig_in(scheduling.config.as_deref()?));
        let version = scheduling.emulation()?.version();
        let plugins = scheduling.plugin_host();
        let Scheduling { config, audit_log, tracing_config_file, metrics_address, admin_socket, .. } = scheduling;
        Ok(berth_doctor::Options {
            config,
            overrides: rights.overrides(),
            audit_log,
            tracing_config_file,
            plugins,
            version,
            cluster: (!offline).then_some(Cluster {
                kubeconfig,
                context,
                impersonation: as_user.map(|user| Impersonation { user, groups: as_group }),
                is_before_installation: pre,
                operation: rights.operation(),
            }),
            scheduler: metrics_address.map(|metrics_address| RunningScheduler {
                metrics_address,
                admin_socket: admin_socket.unwrap_or_else(default_path),
            }),
        })
    }
}

pub(crate) fn run(doctor: Doctor) -> Result<()> {
    let output = doctor.output;
    let options = doctor.options()?;
    let findings = block_on(async { Ok(examine(options).await) })?;
    tell(&findings, output)?;
    match findings.iter().filter(|finding| finding.result == Verdict::Problem).count() {
        0 => Ok(()),
        1 => bail!("1 problem found"),
        n => bail!("{n} problems found"),
    }
}

fn tell(findings: &[Finding], output: Output) -> Result<()> {
    let mut out = io::stdout().lock();
    match output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, findings)?;
            writeln!(out)?;
        }
        Output::Table => {
            for Finding { area, result, text, fix } in findings {
                let verdict = match result {
                    Verdict::Ok => "ok",
                    Verdict::Warning => "warning",
                    Verdict::Problem => "PROBLEM",
                };
                // Each line of a text is indented.
                let text = text.replace('\n', &format!("\n{:24}", ""));
                writeln!(out, "{verdict:8} {:14} {text}", area.as_str())?;
                if let Some(fix) = fix {
                    writeln!(out, "{:23} -> {fix}", "")?;
                }
            }
        }
    }
    Ok(())
}
