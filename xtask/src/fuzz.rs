//! `cargo xtask fuzz`: libFuzzer on the targets of `tests/fuzz`, with the pinned stable toolchain.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::{cargo, run_with};

/// The release of cargo-fuzz that is installed where there is none.
const CARGO_FUZZ: &str = "0.13.2";
const DEFAULT_SECONDS: u32 = 30;
/// One input that takes longer is a finding.
const TIMEOUT_SECONDS: u32 = 10;
const MEMORY_MEGABYTES: u32 = 2048;
const MAX_BYTES: u32 = 65_536;

/// Runs the target named, or all, for some seconds each. What crashes is left in `fuzz/artifacts`.
pub(crate) fn fuzz(arguments: &[String]) -> Result<()> {
    let (mut seconds, mut named) = (DEFAULT_SECONDS, Vec::new());
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        if argument == "--seconds" {
            let text = arguments.next().context("--seconds needs a number")?;
            seconds = text.parse().with_context(|| format!("`{text}` is no number of seconds"))?;
        } else {
            named.push(argument.clone());
        }
    }
    let all = targets()?;
    for name in &named {
        ensure!(all.contains(name), "there is no target `{name}`; targets are: {}", all.join(", "));
    }
    install()?;
    for target in if named.is_empty() { &all } else { &named } {
        run_target(target, seconds)?;
    }
    Ok(())
}

/// A folder of seeds each.
fn targets() -> Result<Vec<String>> {
    let mut targets = Vec::new();
    for entry in fs::read_dir("fuzz/seeds").context("fuzz/seeds; run this in the root of the repository")? {
        targets.push(entry?.file_name().to_string_lossy().into_owned());
    }
    targets.sort();
    Ok(targets)
}

fn install() -> Result<()> {
    let found = Command::new("cargo-fuzz").arg("--version").output();
    if found.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    cargo(&["install", "cargo-fuzz", "--version", CARGO_FUZZ, "--locked"])
}

fn run_target(target: &str, seconds: u32) -> Result<()> {
    let (corpus, seeds) = (format!("fuzz/corpus/{target}"), format!("fuzz/seeds/{target}"));
    fs::create_dir_all(Path::new(&corpus)).with_context(|| corpus.clone())?;
    let limits = [
        format!("-max_total_time={seconds}"),
        format!("-timeout={TIMEOUT_SECONDS}"),
        format!("-rss_limit_mb={MEMORY_MEGABYTES}"),
        format!("-max_len={MAX_BYTES}"),
    ];
    // Sanitizers need nightly, and safe Rust little of them; overflow checks and debug assertions are on by default.
    let mut arguments = vec!["fuzz", "run", "--sanitizer", "none", target, &corpus, &seeds, "--"];
    arguments.extend(limits.iter().map(String::as_str));
    run_with("cargo", &arguments, &[])
}
