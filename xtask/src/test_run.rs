//! `cargo xtask test`: all tests. A test program that fails does not keep the next programs from running, and all
//! failures are listed at the end.

use std::{
    env,
    io::{BufRead as _, BufReader, Write as _, stderr, stdout},
    process::{Command, Stdio},
    sync::Mutex,
    thread,
};

use anyhow::{Context as _, Result, bail};

use crate::{cargo, is_first_build, setup, without_own_variables};

/// Builds the tests and runs them.
pub(crate) fn test() -> Result<()> {
    setup()?;
    let build = if is_first_build() { "about 8 minutes on two cores, this first time" } else { "what has changed" };
    eprintln!("Building Berth and its tests: {build}. Then the tests run, for about 25 minutes on two cores.");
    cargo(&["test", "--locked", "--no-run"])?;

    let mut command = Command::new(env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    command.args(["test", "--locked", "--no-fail-fast"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    without_own_variables(&mut command);
    let mut child = command.spawn().context("cannot start cargo")?;
    let (out, err) = (
        child.stdout.take().context("cargo has no output")?,
        child.stderr.take().context("cargo has no standard error")?,
    );
    let failures = Mutex::new(Failures::default());
    let read = |line: &str| failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner).read(line);
    thread::scope(|scope| -> Result<()> {
        let errors = scope.spawn(|| -> Result<()> {
            for line in BufReader::new(err).split(b'\n') {
                let line = line?;
                read(&String::from_utf8_lossy(&line));
                stderr().write_all(&[&line[..], b"\n"].concat())?;
            }
            Ok(())
        });
        for line in BufReader::new(out).split(b'\n') {
            let line = line?;
            read(&String::from_utf8_lossy(&line));
            stdout().write_all(&[&line[..], b"\n"].concat())?;
        }
        errors.join().map_err(|_| anyhow::anyhow!("cannot read cargo's errors"))?
    })?;
    let status = child.wait().context("cannot wait for cargo")?;
    let failures = failures.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if status.success() {
        return Ok(());
    }
    bail!("{}", failures.summary());
}

/// The failures in the lines that cargo and the test programs print.
#[derive(Debug, Default)]
struct Failures {
    /// The test program that runs, as cargo names it.
    program: String,
    tests: Vec<String>,
}

impl Failures {
    fn read(&mut self, line: &str) {
        let line = line.trim();
        if let Some(program) = line.strip_prefix("Running ").or_else(|| line.strip_prefix("Doc-tests ")) {
            // The file name in `Running tests/it/main.rs (target/debug/deps/it-0123456789abcdef)` tells the crate.
            let file = program.rsplit_once('/').map_or(program, |(_, file)| file).trim_end_matches(')');
            self.program = file.rsplit_once('-').map_or(file, |(name, _)| name).to_owned();
        } else if let Some(name) = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED")) {
            self.tests.push(format!("{}: {name}", self.program));
        } else if line.starts_with("process didn't exit successfully") {
            self.tests.push(format!("{}: {line}", self.program));
        }
    }

    fn summary(&self) -> String {
        if self.tests.is_empty() {
            return "`cargo test` failed; its output above says why".to_owned();
        }
        format!("{} failures:\n  {}", self.tests.len(), self.tests.join("\n  "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_all_programs_are_listed() {
        let mut failures = Failures::default();
        for line in [
            "     Running unittests src/lib.rs (target/debug/deps/berth_model-56e70de9fe537c0c)",
            "test quantity::tests::sums ... ok",
            "test quantity::tests::signs ... FAILED",
            "     Running tests/it/main.rs (/cold/target/debug/deps/it-1dd9ad9c4f1a0b47)",
            "test journey::rust ... FAILED",
            "   Doc-tests berth_sdk",
            "test sdks/rust/src/lib.rs - (line 3) ... FAILED",
        ] {
            failures.read(line);
        }
        let expected = "3 failures:\n  berth_model: quantity::tests::signs\n  it: journey::rust\n  berth_sdk: \
                        sdks/rust/src/lib.rs - (line 3)";
        assert_eq!(failures.summary(), expected);
    }

    #[test]
    fn a_program_that_is_killed_is_a_failure() {
        let mut failures = Failures::default();
        failures.read("     Running unittests src/lib.rs (target/debug/deps/oracle-f225b5164095c865)");
        failures.read("  process didn't exit successfully: `target/debug/deps/oracle-f225` (signal: 9, SIGKILL: kill)");
        assert!(failures.summary().starts_with("1 failures:\n  oracle: process didn't"), "{}", failures.summary());
    }
}
