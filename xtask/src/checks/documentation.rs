//! The share of public items with documentation, in the crates that other crates or authors use.

use std::{env, path::Path, process::Command};

use anyhow::{Context, Result, bail, ensure};

use crate::without_own_variables;

const CRATES: [&str; 7] =
    ["berth-model", "berth-framework", "berth-lifecycle", "berth-queue", "berth-cache", "berth-scheduler", "berth-sdk"];
/// The least share of documented items of each crate.
const PER_CENT: f64 = 95.0;

pub(super) fn check() -> Result<()> {
    let mut complaints = Vec::new();
    for name in CRATES {
        let found = per_cent(&coverage(name)?).with_context(|| format!("the coverage of {name}"))?;
        if found < PER_CENT {
            complaints
                .push(format!("{name}: {found} % of the public items have documentation; {PER_CENT} % is the least"));
        }
    }
    if !complaints.is_empty() {
        bail!("{}", complaints.join("\n"));
    }
    Ok(())
}

/// The table that rustdoc prints for one crate.
///
/// Only rustdoc gets the permission to use unstable options. If the variable were set for all of cargo, build scripts
/// would examine the compiler again, and cargo would compile everything again.
fn coverage(name: &str) -> Result<String> {
    let rustdoc = env::current_dir()?.join(Path::new("xtask/rustdoc-unstable.sh"));
    let mut cargo = Command::new("cargo");
    cargo.args(["rustdoc", "--quiet", "--locked", "--package", name, "--lib", "--"]);
    cargo.args(["-Z", "unstable-options", "--show-coverage"]).env("RUSTDOC", rustdoc);
    without_own_variables(&mut cargo);
    let output = cargo.output().context("cannot run cargo rustdoc")?;
    ensure!(output.status.success(), "cargo rustdoc: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Reads the share from the row `| Total | 120 | 97.6% | 0 | 0.0% |`.
fn per_cent(table: &str) -> Option<f64> {
    let total = table.lines().find(|line| line.starts_with("| Total"))?;
    total.split('|').nth(3)?.trim().trim_end_matches('%').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::per_cent;

    #[test]
    fn the_total_is_read_from_the_table() {
        let table =
            "| File | Documented | Percentage |\n| src/lib.rs | 3 | 30.0% |\n| Total | 12 | 92.3% | 0 | 0.0% |\n";
        assert_eq!(per_cent(table), Some(92.3));
        assert_eq!(per_cent("nothing"), None);
    }
}
