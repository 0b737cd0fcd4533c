//! `berth plugin verify`: does the scheduler take this plugin, and does it keep the contract?

use std::io::{self, Write as _};

use anyhow::{Result, bail};
use berth_author::{CheckOutcome, ConformanceCheck, conformance};
use clap::Args;

use super::project::Target;
use crate::options::Output;

#[derive(Args, Debug)]
pub(crate) struct Verify {
    #[command(flatten)]
    target: Target,
    /// The plugin's arguments (`pluginConfig`) as JSON
    #[arg(long, default_value = "null", value_name = "JSON")]
    args: String,
    /// Of the random clusters
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Output for people or for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(crate) fn run(verify: &Verify) -> Result<()> {
    let loaded = verify.target.load()?;
    let checks = conformance(&loaded.factory, &verify.args, verify.seed);
    let mut out = io::stdout().lock();
    match verify.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &checks)?;
            writeln!(out)?;
        }
        Output::Table => {
            writeln!(out, "{}: contract, imports and limits are as they should be", loaded.title())?;
            checks.iter().try_for_each(|check| writeln!(out, "  {}", line(check)))?;
        }
    }
    let n_failed = checks.iter().filter(|check| matches!(check.outcome, CheckOutcome::Failed(_))).count();
    if n_failed > 0 {
        bail!("{n_failed} of {} properties do not hold", checks.len());
    }
    Ok(())
}

fn line(check: &ConformanceCheck) -> String {
    match &check.outcome {
        CheckOutcome::Passed => format!("ok      {}", check.property),
        CheckOutcome::NotApplicable => format!("-       {}", check.property),
        CheckOutcome::Failed(reason) => format!("FAILED  {}\n          {reason}", check.property),
    }
}
