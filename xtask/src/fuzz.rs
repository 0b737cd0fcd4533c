//! `cargo xtask fuzz`: libFuzzer on the targets of `tests/fuzz`, with the pinned stable toolchain, and the tests that
//! generate their own input for a given time.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::{cargo, cargo_with, run_with, setup};

/// The release of cargo-fuzz that is installed if cargo-fuzz is missing.
const CARGO_FUZZ: &str = "0.13.2";
const DEFAULT_SECONDS: u32 = 30;
/// The maximum time for one input. An input that takes longer is a finding.
const TIMEOUT_SECONDS: u32 = 10;
const MEMORY_MEGABYTES: u32 = 2048;
const MAX_BYTES: u32 = 65_536;

/// Tests of generated input that need an engine, a socket or a directory, each with a short name.
const TESTS: [(&str, &str); 5] = [
    ("component", "fuzz::bytes_are_a_plugin_or_refused"),
    ("answers", "fuzz::answers_are_understood_or_a_fault"),
    ("directory", "fuzz::a_directory_is_seen_as_it_ends"),
    ("effects", "executor::fuzz::effects_are_answered_and_names_lead_nowhere_else"),
    ("admin", "admin::fuzz::requests_are_answered_and_over_plain_http_they_reach_nobody"),
];

/// The options of the command line.
struct Plan {
    /// Seconds for each target.
    seconds: u32,
    targets: Vec<String>,
}

/// Runs the named targets, or all, for some seconds each. An input that crashes a target stays in `fuzz/artifacts`; a
/// test prints the seed that repeats its failure.
pub(crate) fn fuzz(arguments: &[String]) -> Result<()> {
    let plan = Plan::read(arguments, &targets()?)?;
    let (tests, targets): (Vec<_>, Vec<_>) =
        plan.targets.iter().partition(|target| TESTS.iter().any(|(name, _)| name == *target));
    if !targets.is_empty() {
        install()?;
    }
    for target in targets {
        run_target(target, plan.seconds)?;
    }
    for name in tests {
        run_test(name, plan.seconds)?;
    }
    Ok(())
}

impl Plan {
    fn read(arguments: &[String], all: &[String]) -> Result<Self> {
        let (mut seconds, mut minutes, mut named) = (DEFAULT_SECONDS, None, Vec::new());
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut number = || -> Result<u32> {
                let text = arguments.next().with_context(|| format!("{argument} needs a number"))?;
                text.parse().with_context(|| format!("invalid {argument} `{text}`: expected a number"))
            };
            match argument.as_str() {
                "--seconds" => seconds = number()?,
                "--minutes" => minutes = Some(number()?),
                _ => named.push(argument.clone()),
            }
        }
        for name in &named {
            ensure!(all.contains(name), "unknown target `{name}`; targets are: {}", all.join(", "));
        }
        let targets = if named.is_empty() { all.to_vec() } else { named };
        if let Some(minutes) = minutes {
            let n_targets = u32::try_from(targets.len()).unwrap_or(u32::MAX).max(1);
            seconds = (minutes.saturating_mul(60) / n_targets).max(1);
        }
        Ok(Self { seconds, targets })
    }
}

/// The names of the targets, which each have a folder of seeds, and of the tests.
fn targets() -> Result<Vec<String>> {
    let mut targets = Vec::new();
    for entry in fs::read_dir("fuzz/seeds").context("cannot read fuzz/seeds; run this in the root of the repository")? {
        targets.push(entry?.file_name().to_string_lossy().into_owned());
    }
    targets.extend(TESTS.map(|(name, _)| name.to_owned()));
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
    // Sanitizers need the nightly toolchain, and find little in safe Rust. Overflow checks and debug assertions are on
    // by default.
    let mut arguments = vec!["fuzz", "run", "--sanitizer", "none", target, &corpus, &seeds, "--"];
    arguments.extend(limits.iter().map(String::as_str));
    run_with("cargo", &arguments, &[])
}

fn run_test(name: &str, seconds: u32) -> Result<()> {
    setup()?;
    let (_, test) = TESTS.iter().find(|(known, _)| *known == name).context("no test has this name")?;
    // The command names all packages for every test, so cargo builds them with the same features as the gate.
    let arguments =
        ["test", "--locked", "--workspace", "--lib", "--bins", "--test", "it", "--", "--exact", test, "--nocapture"];
    cargo_with(&arguments, &[("BERTH_FUZZ_SECONDS", &seconds.to_string())])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(arguments: &[&str]) -> Result<Plan> {
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Plan::read(&own(arguments), &own(&["answers", "config", "cycle"]))
    }

    #[test]
    fn time_is_for_each_or_shared() {
        let all = plan(&["--minutes", "2"]).unwrap();
        assert_eq!((all.seconds, all.targets.len()), (40, 3));
        let one = plan(&["cycle", "--seconds", "7"]).unwrap();
        assert_eq!((one.seconds, one.targets), (7, vec!["cycle".to_owned()]));
        for wrong in [&["--minutes"][..], &["--seconds", "soon"], &["nonsense"]] {
            assert!(plan(wrong).is_err(), "{wrong:?}");
        }
    }
}
