//! `cargo xtask hostile`: the hostile suite. The option `--confined` limits each of its schedulers as its container
//! would.

use std::{env, fs, process::Command};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{cargo, cargo_with, harness_with, target_dir};

/// The variable that makes tests run their schedulers in cgroups.
const VARIABLE: &str = "BERTH_CONFINED";

/// The memory of a scheduler in a soak with outsiders.
const SOAK_MEMORY: u64 = 512 << 20;

/// The manifest with the memory limit that the hostile suite applies.
const DEPLOYMENT: &str = "deploy/kustomize/base/second-scheduler.yaml";

/// The exit code of `confined` where no cgroup can be made.
const NOT_CONFINED: i32 = 77;

pub(crate) fn hostile(arguments: &[String]) -> Result<()> {
    let suite = ["test", "--locked", "--package", "berth-host", "--test", "it", "hostile"];
    match arguments {
        [] => cargo(&suite),
        [only] if only == "--confined" => confined(&suite),
        _ => bail!("usage: cargo xtask hostile [--confined]"),
    }
}

/// Runs the soak. The scheduler is confined if `--outsiders` is given and a cgroup can be made.
pub(crate) fn soak(arguments: &[String]) -> Result<()> {
    let release = ["--release"];
    if !arguments.iter().any(|argument| argument == "--outsiders") {
        return harness_with("soak", &release, arguments, &[]);
    }
    match value(SOAK_MEMORY)? {
        Some(value) => harness_with("soak", &release, arguments, &[(VARIABLE, &value)]),
        None => {
            eprintln!("the soak is not run in a cgroup: nothing but its own figures bounds the scheduler's memory");
            harness_with("soak", &release, arguments, &[])
        }
    }
}

fn confined(suite: &[&str]) -> Result<()> {
    let memory = memory_limit(&fs::read_to_string(DEPLOYMENT).context(DEPLOYMENT)?)?;
    let Some(value) = value(memory)? else {
        eprintln!("the hostile suite was not run: it would not be confined here");
        return Ok(());
    };
    cargo_with(&[suite, &["--", "--test-threads=1"]].concat(), &[(VARIABLE, &value)])
}

/// The value of [`VARIABLE`] for this memory in bytes; `None` where no cgroup can be made.
fn value(memory: u64) -> Result<Option<String>> {
    cargo(&["build", "--locked", "--bin", "confined"])?;
    let program = env::current_dir()?.join(target_dir()).join("debug/confined");
    let status = Command::new(&program).arg(memory.to_string()).status().context("cannot start confined")?;
    if status.code() == Some(NOT_CONFINED) {
        return Ok(None);
    }
    ensure!(status.success(), "confined failed");
    eprintln!("each scheduler runs in a cgroup of {memory} bytes, on one processor");
    Ok(Some(format!("{}:{memory}", program.display())))
}

/// The bytes of `limits: {memory: …}` in the manifest.
fn memory_limit(manifest: &str) -> Result<u64> {
    let found = manifest.lines().find_map(|line| line.trim().strip_prefix("limits: {memory: ")?.strip_suffix("Gi}"));
    let gibibytes: u64 = found.with_context(|| format!("{DEPLOYMENT} has no line limits: {{memory: …Gi}}"))?.parse()?;
    Ok(gibibytes << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_that_of_the_deployment() {
        assert_eq!(memory_limit("resources:\n          limits: {memory: 2Gi}\n").expect("a limit"), 2 << 30);
        assert!(memory_limit("limits: {cpu: 1}").is_err());
    }
}
