//! `berth plugin test`: compares a plugin's answers with the answers that its author expects.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use berth_author::CaseResult;
use berth_config::Usage;
use clap::Args;

use super::{
    cases::Cases,
    project::{Loaded, Target},
};
use crate::output::Output;

#[derive(Args, Debug)]
pub struct Test {
    #[command(flatten)]
    target: Target,
    /// Files of cases [default: *.cases.yaml and cases.yaml in the plugin's folder]
    cases: Vec<PathBuf>,
    /// Write the plugin's answers into the files as the expected answers. The rest of a file does not change, unless
    /// answers are added or removed. The whole file is then written again, and only the comments at the top are kept
    #[arg(long)]
    update: bool,
    /// Output for people or for programs
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(crate) fn run(test: &Test) -> Result<()> {
    test.target.file()?;
    let files = if test.cases.is_empty() { test.target.cases()? } else { test.cases.clone() };
    if files.is_empty() {
        let folder = test.target.folder();
        return Err(Usage(format!("{}: has no cases.yaml; name the files of cases", folder.display())).into());
    }
    let loaded = test.target.load()?;
    let mut results = Vec::new();
    for file in &files {
        let cases = Cases::read(file, &loaded)?;
        if test.update {
            update(file, &cases, &loaded)?;
        } else {
            let factory = cases.limited(&loaded.factory);
            results.push((file.as_path(), cases.file.run(&factory, &cases.host(&factory))));
        }
    }
    if test.update {
        return loaded.warn_of_undeclared_reads();
    }
    print(&loaded, &results, test.output)?;
    loaded.warn_of_undeclared_reads()?;
    let all: Vec<&CaseResult> = results.iter().flat_map(|(_, results)| results).collect();
    let n_failed = all.iter().filter(|result| !result.differences.is_empty()).count();
    if n_failed > 0 {
        bail!("{n_failed} of {} cases differ", all.len());
    }
    Ok(())
}

/// Updates a file of cases. Unchanged parts keep their text. If the text cannot be kept, only the comments at its top
/// stay.
fn update(file: &Path, cases: &Cases, loaded: &Loaded) -> Result<()> {
    let old = fs::read_to_string(file)?;
    let factory = cases.limited(&loaded.factory);
    let updated = cases.file.updated(&factory, &cases.host(&factory));
    let updated = updated.map_err(|reason| anyhow::anyhow!("{}: {reason}; nothing was written", file.display()))?;
    let (text, told) = match cases.file.text_with(&updated, &old) {
        Some(text) if text == old => {
            eprintln!("{}: all answers are the same", file.display());
            return Ok(());
        }
        Some(text) => (text, "read the changes before you keep them"),
        None => {
            let head = old.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n"));
            let text = head.collect::<String>() + &serde_saphyr::to_string(&updated)?;
            let lost = "answers were added or removed, so the file keeps only the comments at its top; read the changes before you \
                        keep them";
            (text, lost)
        }
    };
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    let mut n_changed = 0;
    for (old, new) in cases.file.cases.iter().zip(&updated.cases) {
        n_changed += usize::from(serde_saphyr::to_string(old)? != serde_saphyr::to_string(new)?);
    }
    eprintln!("{}: {n_changed} of {} cases changed; {told}", file.display(), updated.cases.len());
    Ok(())
}

/// Prints the results of each file. A single file is not named.
fn print(loaded: &Loaded, files: &[(&Path, Vec<CaseResult>)], output: Output) -> Result<()> {
    let mut out = io::stdout().lock();
    match output {
        Output::Json => {
            let results: Vec<&CaseResult> = files.iter().flat_map(|(_, results)| results).collect();
            serde_json::to_writer_pretty(&mut out, &results)?;
            writeln!(out)?;
        }
        Output::Table => {
            writeln!(out, "{}", loaded.title())?;
            for (file, results) in files {
                if files.len() > 1 {
                    writeln!(out, "{}:", file.display())?;
                }
                for result in results {
                    let verdict = if result.differences.is_empty() { "ok" } else { "DIFFERS" };
                    writeln!(out, "  {verdict:8}{}", result.name)?;
                    for line in &result.differences {
                        writeln!(out, "          {line}")?;
                    }
                }
            }
        }
    }
    Ok(())
}
