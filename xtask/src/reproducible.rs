//! `cargo xtask reproducible`: the same sources, lock file and toolchain make the same component in every directory.
//!
//! The tracked files are copied to two directories, the second with another cargo home. `berth plugin build` builds a
//! built-in plugin in both directories. Embedded built-ins are compiled with the same flags.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::{cargo, setup, target_dir};

const PLUGIN: &str = "plugins/node-affinity";
const COMPONENT: &str = "plugins/node-affinity/build/NodeAffinity.wasm";

/// Builds twice and compares.
pub(crate) fn reproducible() -> Result<()> {
    setup()?;
    cargo(&["build", "--bin", "berth"])?;
    let berth = fs::canonicalize(target_dir().join("debug/berth")).context("cannot find the berth binary")?;
    let scratch = fs::canonicalize(target_dir())?.join("reproducible");
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    let home = cargo_home()?;
    let other_home = scratch.join("another-home-of-cargo");
    fs::create_dir_all(&other_home)?;
    // The other home has the same crates under another path, and the same configuration of registries.
    for shared in ["registry", "config.toml"] {
        if home.join(shared).exists() {
            symlink(home.join(shared), other_home.join(shared))?;
        }
    }
    let first = build(&berth, &scratch.join("one"), &home)?;
    let second = build(&berth, &scratch.join("another/and/much/deeper"), &other_home)?;
    ensure!(first == second, "the bytes differ: {} and {}", first.len(), second.len());
    for path in [scratch.as_path(), &home] {
        let path = path.display().to_string();
        let holds = first.windows(path.len()).any(|window| window == path.as_bytes());
        ensure!(!holds, "the component holds the path {path}");
    }
    eprintln!("NodeAffinity.wasm: {} bytes, the same in both places", first.len());
    fs::remove_dir_all(&scratch).context("cannot remove the copies")
}

fn build(berth: &Path, place: &Path, cargo_home: &Path) -> Result<Vec<u8>> {
    copy_tracked_files(place)?;
    let status = Command::new(berth)
        .args(["plugin", "build", PLUGIN])
        .current_dir(place)
        .env("CARGO_HOME", cargo_home)
        .env("CARGO_TARGET_DIR", place.join("target"))
        .status()
        .context("cannot start berth")?;
    ensure!(status.success(), "berth plugin build failed in {}", place.display());
    let file = place.join(COMPONENT);
    fs::read(&file).with_context(|| file.display().to_string())
}

fn copy_tracked_files(place: &Path) -> Result<()> {
    let listed = Command::new("git").args(["ls-files", "-z"]).output().context("cannot start git")?;
    ensure!(listed.status.success(), "git lists no files: {}", String::from_utf8_lossy(&listed.stderr));
    for name in String::from_utf8(listed.stdout)?.split('\0').filter(|name| !name.is_empty()) {
        let to = place.join(name);
        fs::create_dir_all(to.parent().context("a folder")?)?;
        fs::copy(name, &to).with_context(|| name.to_owned())?;
    }
    Ok(())
}

fn cargo_home() -> Result<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    fs::canonicalize(home.context("neither CARGO_HOME nor HOME is set")?).context("the home of cargo")
}
