//! `berth config`: what can be done with configuration files without a scheduler.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::{Result, anyhow};
use berth_config::{
    InTree, Settings, Usage,
    migrate::{Migration, migrate},
};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  berth config migrate old.yaml > scheduler.yaml
  berth config migrate policy.json -o json";

#[derive(Subcommand, Debug)]
pub(crate) enum ConfigCommand {
    /// Print a file of an earlier Kubernetes release as a current KubeSchedulerConfiguration
    ///
    /// Reads KubeSchedulerConfigurations from v1alpha1 on, with names of removed plugins, and Policy files. Standard
    /// error lists what changed and what has no successor. The file itself is not changed.
    Migrate(Migrate),
}

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Migrate {
    /// KubeSchedulerConfiguration or Policy, YAML or JSON
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print YAML with notes on standard error, or one JSON document with `configuration` and `notes`
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Yaml,
    Json,
}

pub(crate) fn run(command: ConfigCommand) -> Result<()> {
    let ConfigCommand::Migrate(Migrate { file, output }) = command;
    let file_name = file.display();
    let text =
        std::fs::read_to_string(&file).map_err(|error| Usage(format!("{file_name}: cannot be read: {error}")))?;
    let Migration { configuration, notes } = migrate(&text).map_err(|error| {
        Usage(format!("{file_name}: {error}; only these can be migrated: KubeSchedulerConfiguration and Policy"))
    })?;
    let in_tree = InTree::new(&berth_builtins::factories());
    let invalid = Settings::from_text(&file_name.to_string(), &configuration.to_string(), &in_tree).err();
    let mut stdout = io::stdout().lock();
    match output {
        Format::Yaml => {
            stdout.write_all(serde_saphyr::to_string(&configuration)?.as_bytes())?;
            let mut told = io::stderr().lock();
            notes.iter().try_for_each(|note| writeln!(told, "{note}"))?;
        }
        Format::Json => {
            let answer = json!({"configuration": configuration, "notes": notes});
            writeln!(stdout, "{}", serde_json::to_string_pretty(&answer)?)?;
        }
    }
    // Mistakes in the file itself stay in the output.
    invalid.map_or(Ok(()), |error| Err(anyhow!("correct this by hand: {error}")))
}
