//! `cargo xtask dist`: `berth` as users get it, in one file.
//!
//! A release build without line tables and names of functions: for names in backtraces and CPU profiles, use `cargo
//! build --release`. The program then compiles its own components for all processors that it supports, and appends the
//! compiled components to a copy of itself. A machine that never ran the program therefore need not compile the
//! components for `--execution wasm`.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use crate::{cargo, setup, target_dir};

/// The maximum size of the file that users download.
const MAX_BYTES: u64 = 60_000_000;

pub(crate) fn dist() -> Result<()> {
    setup()?;
    let build = ["rustc", "--release", "--locked", "--package", "berth-host", "--bin", "berth"];
    cargo(&[&build[..], &["--", "-Cstrip=symbols"]].concat())?;
    let (built, folder) = (target_dir().join("release/berth"), target_dir().join("dist"));
    fs::create_dir_all(&folder)?;
    let packed = folder.join("berth");
    eprintln!("Compiling the built-in components: about a minute.");
    let status = Command::new(&built).arg("pack").arg(&packed).status().context("cannot start berth")?;
    ensure!(status.success(), "berth pack failed");
    let size = fs::metadata(&packed)?.len();
    eprintln!("{}: {size} bytes", packed.display());
    let cache = folder.join("cache");
    if cache.exists() {
        fs::remove_dir_all(&cache)?;
    }
    eprintln!("berth --version: {} ms", time(&packed, &["--version"], &cache)?.as_millis());
    let demo = time(&packed, &["demo", "--execution", "wasm"], &cache)?;
    eprintln!("berth demo --execution wasm, with nothing compiled before: {} ms", demo.as_millis());
    ensure!(size <= MAX_BYTES, "that is more than {MAX_BYTES} bytes: `nm --size-sort` shows the largest symbols");
    Ok(())
}

/// The time that the program takes.
fn time(program: &Path, arguments: &[&str], cache: &Path) -> Result<Duration> {
    let mut command = Command::new(program);
    command.args(arguments).env("XDG_CACHE_HOME", cache).stdout(Stdio::null());
    let start = Instant::now();
    let status = command.status().with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(status.success(), "berth {} failed", arguments.join(" "));
    Ok(start.elapsed())
}
