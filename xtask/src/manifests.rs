//! `cargo xtask manifests`: renders, checks and applies the manifests that install Berth on a cluster.
//!
//! kubectl renders the overlays of `deploy/kustomize`. Helm's own library from PyPI renders the chart of
//! `deploy/chart`, for each file of values in `chart/ci`. Every object, and each static pod, is checked against the
//! schema of its kind. Each rendering is then applied to a sandbox and deleted again, and the sandbox must hold the same
//! objects as before. `cargo xtask release --check` also runs the Deployments, with the image of a release.
//! promtool tests the alerts of `deploy/monitoring`. A check is not run if its tool is not installed, and the output
//! says so.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

use crate::{cargo, sandbox::Sandbox, setup, target_dir};

pub(crate) fn manifests() -> Result<()> {
    if let Some(program) = missing() {
        eprintln!("the manifests were NOT RUN: {program} is not on the PATH");
        return Ok(());
    }
    setup()?;
    let out = target_dir().join("manifests");
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    kustomize(&out)?;
    let python = virtual_environment()?;
    succeeds(Command::new(python).arg("deploy/check/render.py").arg(&out), "deploy/check/render.py")?;
    monitoring()?;
    cargo(&["build", "--locked", "--bin", "berth"])?;
    let sandbox = Sandbox::start(&target_dir().join("debug/berth"), &out, 0)?;
    let n_applied = apply_all(&sandbox, &out)?;
    eprintln!("{n_applied} renderings are valid; a sandbox took each, and kept nothing of it");
    Ok(())
}

/// A program that rendering needs and that is not on the PATH.
pub(crate) fn missing() -> Option<&'static str> {
    ["kubectl", "python3"].into_iter().find(|program| !is_there(program))
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

fn succeeds(command: &mut Command, what: &str) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {what}"))?;
    ensure!(status.success(), "{what} failed");
    Ok(())
}

/// Renders the base and all overlays into files named after them. The static pods are files beside them.
fn kustomize(out: &Path) -> Result<()> {
    let mut folders = vec![PathBuf::from("deploy/kustomize/base")];
    for entry in fs::read_dir("deploy/kustomize/overlays").context("deploy/kustomize/overlays")? {
        folders.push(entry?.path());
    }
    for folder in folders {
        let name = folder.file_name().context("a folder")?.to_string_lossy().into_owned();
        render_overlay(&folder, &out.join(format!("{name}.yaml")))?;
    }
    for entry in fs::read_dir("deploy/static-pod").context("deploy/static-pod")? {
        let file = entry?;
        let name = format!("static-pod-{}", file.file_name().to_string_lossy());
        fs::copy(file.path(), out.join(name)).with_context(|| file.path().display().to_string())?;
    }
    Ok(())
}

/// Writes the objects of the base or of an overlay to a file.
pub(crate) fn render_overlay(folder: &Path, to: &Path) -> Result<()> {
    let file = File::create(to).with_context(|| to.display().to_string())?;
    succeeds(Command::new("kubectl").arg("kustomize").arg(folder).stdout(file), &folder.display().to_string())
}

/// Writes the objects of the chart, with its default values, to a file. The chart is a folder or an archive.
pub(crate) fn render_chart(chart: &Path, to: &Path) -> Result<()> {
    let python = virtual_environment()?;
    succeeds(Command::new(python).arg("deploy/check/render.py").args([chart, to]), "deploy/check/render.py")
}

/// Returns the Python of a virtual environment with the pinned packages. The environment is made once, and again when
/// the packages change.
fn virtual_environment() -> Result<PathBuf> {
    const REQUIREMENTS: &str = "deploy/check/requirements.txt";
    let folder = target_dir().join("manifests-python");
    let (python, installed) = (folder.join("bin/python"), folder.join("installed.txt"));
    let wanted = fs::read_to_string(REQUIREMENTS).context(REQUIREMENTS)?;
    if fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
        return Ok(python);
    }
    succeeds(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder), "python3 -m venv")?;
    let install =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", REQUIREMENTS];
    succeeds(Command::new(&python).args(install), "pip install")?;
    fs::write(&installed, wanted)?;
    Ok(python)
}

/// Runs the tests of the alerts with promtool, in which each alert fires.
fn monitoring() -> Result<()> {
    const FOLDER: &str = "deploy/monitoring";
    if !is_there("promtool") {
        eprintln!("the alerts were NOT RUN: promtool is not on the PATH (Debian's package prometheus has it)");
        return Ok(());
    }
    succeeds(
        Command::new("promtool").current_dir(FOLDER).args(["test", "rules", "rules.test.yaml"]),
        "promtool test rules",
    )
}

/// Applies and deletes each rendering. Returns the number of renderings.
fn apply_all(sandbox: &Sandbox, out: &Path) -> Result<usize> {
    let mut files: Vec<PathBuf> = fs::read_dir(out)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    for file in &files {
        sandbox.with_objects(file, || Ok(()))?;
    }
    Ok(files.len())
}
