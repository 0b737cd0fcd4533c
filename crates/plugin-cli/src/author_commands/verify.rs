//! `berth plugin verify`: checks whether the host would accept this plugin, whether the plugin follows the contract,
//! and which keys signed the plugin.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use berth_author::{CheckOutcome, ConformanceCheck, Situation, conformance};
use berth_framework::PluginFactory;
use berth_provenance::Source;
use berth_wasm_host::Binary;
use clap::Args;
use serde::Serialize;

use super::{
    arguments::{self, Source as ArgumentSource},
    cases::Cases,
    inspect,
    project::{self, Loaded, Target},
    registry::{RegistryAccess, name_of},
    signing::{SigningTarget, signatures_of, signers},
};
use crate::{blocking::block_on, output::Output};

const SIGNATURES: &str = "\
With --key, the holder of one of the keys must have signed the plugin. The signature of a file is in PLUGIN.wasm.sig or
PLUGIN.wasm.sigstore.json beside it, and the signature of a reference is in the registry. Without --key, signatures are
not checked.

Examples:
  berth plugin verify build/Zone.wasm
  berth plugin verify registry.example/team/zone:1.2 --key release.pub";

#[derive(Args, Debug)]
#[command(after_help = SIGNATURES)]
pub struct Verify {
    /// A component file, a plugin's folder (its build/*.wasm is used), or a reference such as registry.example/team/zone:1.2
    #[arg(default_value = ".", value_name = "PLUGIN")]
    plugin: String,
    /// File of a public key in PEM. With several --key, one of the keys must have signed the plugin
    #[arg(long = "key", value_name = "FILE")]
    keys: Vec<PathBuf>,
    /// The plugin's arguments (`pluginConfig`) as JSON
    #[arg(long, value_name = "JSON")]
    args: Option<String>,
    /// A file of cases: repeat each check for every case, with the arguments, objects and pods of the case and the
    /// limits in the file [default: *.cases.yaml and cases.yaml in the plugin's folder, unless --args is given]
    #[arg(long, value_name = "FILE", conflicts_with = "args")]
    cases: Vec<PathBuf>,
    /// Seed of the random clusters
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Output for people or for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    access: RegistryAccess,
}

/// A check, and the case in which it was made.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    case: Option<String>,
    #[serde(flatten)]
    check: ConformanceCheck,
}

pub(crate) fn run(verify: &Verify) -> Result<()> {
    let (loaded, signed_by) = look_at(verify)?;
    let checked = checked(verify, &loaded);
    loaded.warn_of_undeclared_reads()?;
    let rows = checked?;
    let mut out = io::stdout().lock();
    match verify.output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &rows)?;
            writeln!(out)?;
        }
        Output::Table => {
            writeln!(out, "{}: the scheduler accepts the component", loaded.title())?;
            if !signed_by.is_empty() {
                writeln!(out, "  ok      signed with {}", signed_by.join(", "))?;
            }
            let mut case = None;
            for row in &rows {
                if row.case != case {
                    case.clone_from(&row.case);
                    writeln!(out, "{}:", case.as_deref().unwrap_or_default())?;
                }
                writeln!(out, "  {}", line(&row.check))?;
            }
        }
    }
    let n_failed = rows.iter().filter(|row| matches!(row.check.outcome, CheckOutcome::Failed(_))).count();
    if n_failed > 0 {
        if verify.output == Output::Table && exports_reuse(&loaded.binary)? {
            writeln!(out, "The plugin exports reuse: check that its answers about `reach` are true for these pods.")?;
        }
        bail!("{n_failed} of {} properties do not hold", rows.len());
    }
    Ok(())
}

fn exports_reuse(binary: &Binary) -> Result<bool> {
    let (_, exports) = inspect::interfaces(binary.bytes())?;
    Ok(exports.iter().any(|export| export.starts_with("berth:scheduler/reuse@")))
}

fn checked(verify: &Verify, loaded: &Loaded) -> Result<Vec<Row>> {
    let files = case_files(verify)?;
    if files.is_empty() {
        let (args, source) = match &verify.args {
            Some(args) => (arguments::checked(args)?, ArgumentSource::Option),
            None => ("null", ArgumentSource::None),
        };
        return rows(&loaded.factory, &Situation::of_args(args), verify.seed, &source);
    }
    let mut checked = Vec::new();
    for path in &files {
        let cases = Cases::read(path, loaded)?;
        let factory = cases.limited(&loaded.factory);
        for situation in Situation::of_cases(&cases.file) {
            factory.set_now(situation.now().unwrap_or_default());
            let source = ArgumentSource::case(path, &situation);
            checked.extend(rows(&factory, &situation, verify.seed, &source)?);
        }
    }
    Ok(checked)
}

/// Arguments that the plugin refuses end the command, because no property can then be checked.
fn rows(factory: &dyn PluginFactory, situation: &Situation, seed: u64, source: &ArgumentSource) -> Result<Vec<Row>> {
    let checks = conformance(factory, situation, seed).map_err(|error| source.explain(error))?;
    Ok(checks.into_iter().map(|check| Row { case: situation.name().map(str::to_owned), check }).collect())
}

/// The files on the command line, or the files beside the plugin. An artifact of a registry has no files beside it.
fn case_files(verify: &Verify) -> Result<Vec<PathBuf>> {
    if !verify.cases.is_empty() {
        return Ok(verify.cases.clone());
    }
    match SigningTarget::of(&verify.plugin)? {
        SigningTarget::File(_) if verify.args.is_none() => Target::of(Path::new(&verify.plugin)).cases(),
        SigningTarget::File(_) | SigningTarget::Reference(_) => Ok(Vec::new()),
    }
}

/// Checks the signatures first: a component without the expected signature is not run.
fn look_at(verify: &Verify) -> Result<(Loaded, Vec<String>)> {
    match SigningTarget::of(&verify.plugin)? {
        SigningTarget::File(file) => {
            let mut signed_by = Vec::new();
            if !verify.keys.is_empty() {
                let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
                signed_by = signers(&verify.keys, &Source::Directory, Some(&bytes), &signatures_of(&file)?)
                    .with_context(|| file.display().to_string())?;
            }
            Ok((project::load(&file)?, signed_by))
        }
        SigningTarget::Reference(reference) => {
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
        CheckOutcome::Unchecked => format!("?       {}: not checked, because of the fault above", check.property),
        CheckOutcome::Failed(reason) => format!("FAILED  {}\n          {reason}", check.property),
    }
}
