//! What the gate checks besides tests: formatting, lints, which crate may know which, and what lints cannot see.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::{cargo, setup};

/// A crate that only one other crate, and what stands above it, may reach.
const DIRECTIONS: &[(&str, &[&str])] = &[
    (
        "wasmtime",
        &[
            "berth-model",
            "berth-framework",
            "berth-lifecycle",
            "berth-builtins",
            "berth-queue",
            "berth-cache",
            "berth-scheduler",
            "berth-config",
            "berth-cluster",
            "berth-sandbox",
        ],
    ),
    (
        "kube",
        &[
            "berth-model",
            "berth-framework",
            "berth-lifecycle",
            "berth-builtins",
            "berth-queue",
            "berth-cache",
            "berth-scheduler",
            "berth-config",
            "berth-wasm-host",
            "berth-sandbox",
        ],
    ),
    (
        "tokio",
        &[
            "berth-model",
            "berth-framework",
            "berth-lifecycle",
            "berth-builtins",
            "berth-queue",
            "berth-cache",
            "berth-scheduler",
            "berth-config",
            "berth-wasm-host",
        ],
    ),
    ("berth-framework", &["berth-model", "berth-lifecycle", "berth-cluster", "berth-sandbox"]),
    ("berth-scheduler", &["berth-wasm-host", "berth-cluster", "berth-sandbox", "berth-queue", "berth-cache"]),
    ("berth-cache", &["berth-queue"]),
    ("berth-queue", &["berth-cache"]),
];

/// Files longer than this are split, tests apart.
const MAX_LINES: usize = 600;

pub(crate) fn all() -> Result<()> {
    setup()?;
    cargo(&["fmt", "--all", "--check"])?;
    directions()?;
    tidy()?;
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
}

/// `cargo tree -i` finds nothing where an edge is forbidden.
fn directions() -> Result<()> {
    for (forbidden, crates) in DIRECTIONS {
        for name in *crates {
            let tree = Command::new("cargo")
                .args(["tree", "--locked", "-p", name, "-e", "normal", "--prefix", "none"])
                .output();
            let tree = tree.context("running cargo tree")?;
            ensure!(tree.status.success(), "cargo tree -p {name}: {}", String::from_utf8_lossy(&tree.stderr));
            let text = String::from_utf8_lossy(&tree.stdout);
            let found = text.lines().any(|line| line.split(' ').next() == Some(*forbidden));
            ensure!(!found, "{name} must not depend on {forbidden}; see the edges in ARCHITECTURE.md");
        }
    }
    Ok(())
}

fn tidy() -> Result<()> {
    for root in ["crates", "host", "plugins", "tests", "xtask"] {
        walk(Path::new(root))?;
    }
    Ok(())
}

fn walk(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "target") {
                walk(&path)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            tidy_file(&path)?;
        }
    }
    Ok(())
}

fn tidy_file(path: &Path) -> Result<()> {
    let text = fs::read_to_string(path)?;
    ensure!(text.starts_with("//!"), "{}: open the file with `//!`, saying what lives here", path.display());
    let body = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let n_lines = body.lines().count();
    ensure!(n_lines <= MAX_LINES, "{}: {n_lines} lines; split it below {MAX_LINES}", path.display());
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    ensure!(
        !["util", "utils", "helpers", "common", "misc"].contains(&name.as_str()),
        "{}: name the file after the thing inside",
        path.display()
    );
    Ok(())
}
