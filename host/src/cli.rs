//! The command line: all commands. `options` and the modules of the commands define their options.

use std::path::PathBuf;

use berth_plugin_cli::SchemaName;
use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::{
    bench_command::Bench,
    bundle::Bundle,
    compiler::CompileComponent,
    config_command::ConfigCommand,
    doctor::Doctor,
    explain::Explain,
    logging::LogFormat,
    options::{Demo, Run, Sandbox},
    pack::Pack,
    page::Page,
    rbac::Rbac,
    simulate::Simulate,
    snapshot::Snapshot,
    top::Top,
};

const EXAMPLES: &str = "\
Examples:
  berth demo                               schedule the pods of a small cluster in a sandbox, and say why each pod got its node
  berth sandbox --nodes 50                 a Kubernetes API with 50 nodes and Berth as its scheduler, for kubectl
  berth simulate -f cluster/ -f pods.yaml  say where pods would go on a cluster that files describe
  berth run --kubeconfig ~/.kube/config    schedule the pods of a cluster that name `berth` as their scheduler
  berth run --config scheduler.yaml        schedule the pods of the profiles in a KubeSchedulerConfiguration
  berth explain pod default/web            why is it pending, or why is it on its node?
  berth top                                see the scheduler of this machine at work
  berth bench SchedulingBasic              measure how much processor time a pod costs";

const COMPLETIONS: &str = "\
Each shell looks for scripts in another place:
  bash        berth completions bash > ~/.local/share/bash-completion/completions/berth
  zsh         berth completions zsh > ~/.zfunc/_berth      with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  fish        berth completions fish > ~/.config/fish/completions/berth.fish
  powershell  berth completions powershell >> $PROFILE
A new shell then completes the commands and options of berth.";

const SCHEMAS: &str = "\
Examples:
  berth schema cases > cases.schema.json
  berth schema plugin-host-configuration > plugin-host-configuration.schema.json";

/// A Kubernetes scheduler whose plugins are WebAssembly components.
#[derive(Debug, Parser)]
#[command(name = "berth", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Log filter, such as `info` or `berth_cluster=debug,warn` [default: info; warn for bench, bundle, config, demo,
    /// doctor, explain, page, rbac, simulate, snapshot and top]
    #[arg(long, global = true, env = "BERTH_LOG", value_name = "FILTER")]
    pub log: Option<String>,
    /// Format of the log lines
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Schedule the pods of a cluster
    Run(Run),
    /// Serve a Kubernetes API in memory, with or without the scheduler
    Sandbox(Sandbox),
    /// Schedule the pods of manifests in a sandbox and show where each pod goes
    Demo(Demo),
    /// Say where the pods of manifests would go, without a cluster
    Simulate(Simulate),
    /// Write a cluster to a file, for `berth simulate` and for bug reports
    Snapshot(Snapshot),
    /// Check configuration, plugins, cluster and scheduler, and say what to fix
    #[command(visible_alias = "check")]
    Doctor(Doctor),
    /// Print exactly the roles that a configuration and its plugins need
    Rbac(Rbac),
    /// Convert configuration files of earlier Kubernetes releases
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Say why a pod of a running scheduler is on its node, or why the pod waits
    Explain(Explain),
    /// See a running scheduler at work, in the terminal
    Top(Top),
    /// Show the page of the scheduler on this machine in a browser
    Page(Page),
    /// Write the state of a running scheduler to one file, for a support request or a bug report
    Bundle(Bundle),
    /// Run as kube-scheduler, with the flags of kube-scheduler. The program `kube-scheduler` does the same
    #[command(disable_help_flag = true)]
    KubeScheduler {
        /// kube-scheduler's flags; --help lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
        arguments: Vec<String>,
    },
    /// Show and control the plugins of a running scheduler
    #[command(subcommand)]
    Plugin(berth_plugin_cli::Command),
    /// Measure the cost of scheduling, with scheduler_perf's workloads
    Bench(Bench),
    /// Compile a component from standard input to standard output, for a scheduler
    #[command(hide = true)]
    CompileComponent(CompileComponent),
    /// Write this program to a file, with its built-in components compiled
    #[command(hide = true)]
    Pack(Pack),
    /// Print a JSON schema, for editors that complete and check YAML
    #[command(after_help = SCHEMAS)]
    Schema {
        /// The type that the schema describes
        name: SchemaName,
    },
    /// Print all commands with their options in Markdown, or write man pages of all commands
    Reference {
        /// Write man pages to this folder, and print nothing
        #[arg(long, value_name = "DIR")]
        man: Option<PathBuf>,
    },
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS)]
    Completions {
        /// The shell to complete for
        shell: Shell,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The guide installs the scripts by the commands of the help.
    #[test]
    fn each_shell_has_a_script_and_the_guide_installs_it() {
        let guide = include_str!("../../docs/src/running.md");
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let named = format!("berth completions {shell} > ");
            let place = COMPLETIONS.lines().find_map(|line| line.split_once(&named)?.1.split(' ').next());
            let command = format!("{named}{}", place.expect("the help names a place"));
            assert!(guide.contains(&command), "{command}");
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "berth", &mut script);
            let script = String::from_utf8(script).expect("text");
            assert!(script.contains("rollback") && script.contains("plugins-dir"), "{shell}");
        }
    }
}
