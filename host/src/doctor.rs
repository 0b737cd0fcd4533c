//! `berth doctor`: checks an operator's setup and says what to fix.
//!
//! The command takes the options of `berth run` and changes only what `berth run` would change. Each area is a module
//! of `doctor/` that adds its findings. An area that cannot be checked is a finding too, and the other areas are still
//! checked.

mod cluster;
mod endpoints;
mod files;

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::{Result, bail};
use berth_plugin_cli::{Output, block_on};
use berth_serving::admin_socket::default_path;
use clap::Args;
use serde::Serialize;

use crate::options::Scheduling;

const EXAMPLES: &str = "\
Give it the options that `berth run` gets. It looks at

  configuration   do --config and --plugin-config parse, and is every plugin that a profile names there?
  plugins         is each file of --plugins-dir a plugin, does it get what it wants to see, and what may it do?
  cache           is the directory for compiled plugins there, writable, and closed to others?
  cluster         does the API server answer and how fast, is its release known, do the clocks agree, who holds the Leases, would
                  pods be scheduled twice, and may this user do all that the scheduler does?
  scheduler       with --metrics-address: is it well, has it all lists, and does every plugin serve?

`berth check` is another name for it. Exit code 1 when something is wrong; warnings alone are fine.

Examples:
  berth check --pre --config scheduler.yaml --plugins-dir plugins --plugin-config plugin-host.yaml
  berth doctor --kubeconfig ~/.kube/config --metrics-address 127.0.0.1:10259 -o json";

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Doctor {
    /// kubeconfig file [default: $KUBECONFIG, the pod's service account, ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig file
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Look at files only, not at a cluster
    #[arg(long, conflicts_with_all = ["kubeconfig", "context", "pre"])]
    offline: bool,
    /// Check before the installation: the Lease does not need a holder yet
    #[arg(long)]
    pre: bool,
    /// Output for people or for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    scheduling: Scheduling,
}

/// The advice about a plugin that no profile uses.
const IN_NO_PROFILE: &str = "enable it in a profile of --config (`plugins.multiPoint.enabled`), or remove its file";

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    area: Area,
    result: Verdict,
    /// The thing that was checked, and its condition.
    text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Area {
    Configuration,
    Plugins,
    Cache,
    Cluster,
    Scheduler,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warning,
    Problem,
}

/// All findings so far.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, area: Area, text: impl Into<String>) {
        self.0.push(Finding { area, result: Verdict::Ok, text: text.into(), fix: None });
    }

    fn warning(&mut self, area: Area, text: impl Into<String>, fix: impl Into<String>) {
        self.0.push(Finding { area, result: Verdict::Warning, text: text.into(), fix: Some(fix.into()) });
    }

    fn problem(&mut self, area: Area, text: impl Into<String>, fix: impl Into<String>) {
        self.0.push(Finding { area, result: Verdict::Problem, text: text.into(), fix: Some(fix.into()) });
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.0.iter().filter(|finding| finding.result == verdict).count()
    }
}

impl Area {
    fn as_str(self) -> &'static str {
        match self {
            Area::Configuration => "configuration",
            Area::Plugins => "plugins",
            Area::Cache => "cache",
            Area::Cluster => "cluster",
            Area::Scheduler => "scheduler",
        }
    }
}

pub(crate) fn run(doctor: Doctor) -> Result<()> {
    let mut findings = Findings::default();
    let setup = files::look(&doctor.scheduling, &mut findings);
    block_on(async {
        if !doctor.offline {
            cluster::look(&doctor, setup.as_ref(), &mut findings).await;
        }
        if let Some(address) = doctor.scheduling.metrics_address {
            let socket = doctor.scheduling.admin_socket.clone().unwrap_or_else(default_path);
            endpoints::look(address, socket, &mut findings).await;
        }
        Ok(())
    })?;
    tell(&findings, doctor.output)?;
    match findings.count(Verdict::Problem) {
        0 => Ok(()),
        1 => bail!("1 problem found"),
        n => bail!("{n} problems found"),
    }
}

fn tell(findings: &Findings, output: Output) -> Result<()> {
    let mut out = io::stdout().lock();
    match output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &findings.0)?;
            writeln!(out)?;
        }
        Output::Table => {
            for Finding { area, result, text, fix } in &findings.0 {
                let verdict = match result {
                    Verdict::Ok => "ok",
                    Verdict::Warning => "warning",
                    Verdict::Problem => "PROBLEM",
                };
                // A YAML error spans several lines and shows the place in the file; each line is indented.
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
