//! `berth plugin verify`: would the host take this plugin, does it keep the contract, and who signed it?

use std::{
    fs,
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::{Context as _, Result, bail};
use berth_author::{CheckOutcome, ConformanceCheck, conformance};
use berth_provenance::Source;
use berth_wasm_host::Binary;
use clap::Args;

use super::{
    project::{self, Loaded},
    registry::{RegistryAccess, name_of},
    signing::{Subject, signatures_of, signers},
};
use crate::{options::Output, run::block_on};

const SIGNATURES: &str = "\
With --key, the plugin must be signed by the holder of one of the keys: a file by PLUGIN.wasm.sig or
PLUGIN.wasm.sigstore.json beside it, a reference by what the registry has for its manifest. Without --key, signatures are
not looked at.

Examples:
  berth plugin verify build/Zone.wasm
  berth plugin verify registry.example/team/zone:1.2 --key release.pub";

#[derive(Args, Debug)]
#[command(after_help = SIGNATURES)]
pub(crate) struct Verify {
    /// A component file, a plugin's folder, whose build/*.wasm is taken, or a reference: registry.example/team/zone:1.2
    #[arg(default_value = ".", value_name = "PLUGIN")]
    plugin: String,
    /// A public key, PEM: the plugin must be signed with it, or with one of several
    #[arg(long = "key", value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// The plugin's arguments (`pluginConfig`) as JSON
    #[arg(long, default_value = "null", value_name = "JSON")]
    args: String,
    /// Of the random clusters
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Output for people or for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    access: RegistryAccess,
}

pub(crate) fn run(verify: &Verify) -> Result<()> {
    let (loaded, signed_by) = look_at(verify)?;
    let checks = conformance(&loaded.factory, &verify.args, verify.seed);
    let mut out = io::stdout().lock();
    match verify.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &checks)?;
            writeln!(out)?;
        }
        Output::Table => {
            writeln!(out, "{}: contract, imports and limits are as they should be", loaded.title())?;
            if !signed_by.is_empty() {
                writeln!(out, "  ok      signed with {}", signed_by.join(", "))?;
            }
            checks.iter().try_for_each(|check| writeln!(out, "  {}", line(check)))?;
        }
    }
    let n_failed = checks.iter().filter(|check| matches!(check.outcome, CheckOutcome::Failed(_))).count();
    if n_failed > 0 {
        bail!("{n_failed} of {} properties do not hold", checks.len());
    }
    Ok(())
}

/// Signatures come first: what somebody else made is not run before.
fn look_at(verify: &Verify) -> Result<(Loaded, Vec<String>)> {
    match Subject::of(&verify.plugin)? {
        Subject::File(file) => {
            let mut signed_by = Vec::new();
            if !verify.keys.is_empty() {
                let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
                signed_by = signers(&verify.keys, &Source::Directory, Some(&bytes), &signatures_of(&file)?)
                    .with_context(|| file.display().to_string())?;
            }
            Ok((project::load(&file)?, signed_by))
        }
        Subject::Reference(reference) => {
            let pulled = block_on(verify.access.pull(&reference))?;
            let mut signed_by = Vec::new();
            if !verify.keys.is_empty() {
                let source = Source::Registry { reference: reference.clone(), manifest: pulled.manifest };
                signed_by =
                    signers(&verify.keys, &source, None, &pulled.signatures).with_context(|| reference.to_string())?;
            }
            let name = name_of(&pulled.component, &reference)?;
            let loaded = project::load_binary(Binary::new(name, pulled.component), &reference.to_string())?;
            Ok((loaded, signed_by))
        }
    }
}

fn line(check: &ConformanceCheck) -> String {
    match &check.outcome {
        CheckOutcome::Passed => format!("ok      {}", check.property),
        CheckOutcome::NotApplicable => format!("-       {}", check.property),
        CheckOutcome::Failed(reason) => format!("FAILED  {}\n          {reason}", check.property),
    }
}
