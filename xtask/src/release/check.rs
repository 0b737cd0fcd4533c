//! `cargo xtask release --check`: checks that a downloaded release works.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::{
    ARCHITECTURES,
    container::{Image, Mount},
    installed,
};
use crate::{output_of, run, target_dir};

pub(super) fn check(folder: &Path) -> Result<()> {
    let folder = fs::canonicalize(folder).with_context(|| folder.display().to_string())?;
    let status = Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&folder).status();
    ensure!(status.context("cannot start sha256sum")?.success(), "{}: the checksums do not fit", folder.display());
    eprintln!("checksums: they fit");
    let scratch = target_dir().join("release-check");
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    let layout = scratch.join("image");
    fs::create_dir_all(&layout)?;
    let scratch = fs::canonicalize(scratch)?;
    unpack(&one_of(&folder, "-image.tar")?, &layout)?;
    try_others(&layout, &scratch)?;
    let own = Image::own_architecture()?;
    let image = Image::unpack(&layout, own, scratch.join("root"))?;
    let image = image.with_context(|| format!("the image has no program for {}", own.name))?;
    ensure!(
        output_of("id", &["-u"])? == "0",
        "the image was NOT RUN: only root can become the image's user; run this command as root"
    );
    demo(&image, &scratch)?;
    let deploy = scratch.join("deploy");
    fs::create_dir_all(&deploy)?;
    unpack(&one_of(&folder, "-deploy.tar.gz")?, &deploy)?;
    let base = one_of(&deploy, "-deploy")?.join("kustomize/base");
    installed::check(&image, &base, &one_of(&folder, ".tgz")?, &scratch)
}

/// The file or folder whose name ends so.
fn one_of(folder: &Path, ending: &str) -> Result<PathBuf> {
    let mut files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let file = files.find(|file| file.to_string_lossy().ends_with(ending));
    file.with_context(|| format!("{}: no file ends with {ending}", folder.display()))
}

fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    run("tar", &["-C", &folder.display().to_string(), "-xf", &archive.display().to_string()])
}

/// Starts the programs for other machines, if this machine has their emulators.
fn try_others(layout: &Path, scratch: &Path) -> Result<()> {
    let own = Image::own_architecture()?;
    for arch in ARCHITECTURES.into_iter().filter(|arch| *arch != own) {
        let Some(image) = Image::unpack(layout, arch, scratch.join(format!("root-{}", arch.name)))? else { continue };
        match arch.emulator() {
            Ok(Some(emulator)) => {
                let version =
                    output_of(&emulator.display().to_string(), &[&image.program().display().to_string(), "--version"])?;
                eprintln!("{}: {version}, under an emulator and outside of the image", arch.name);
            }
            Ok(None) | Err(_) => {
                eprintln!("{}: NOT RUN: the emulator is missing (package qemu-user-static of Debian)", arch.name);
            }
        }
    }
    Ok(())
}

/// Schedules the pods of the demo, with the components and a writable `/tmp`.
fn demo(image: &Image, scratch: &Path) -> Result<()> {
    let folder = scratch.join("tmp");
    fs::create_dir_all(&folder)?;
    run("chown", &[&image.user, &folder.display().to_string()])?;
    let mounts = [Mount { folder, at: "/tmp".to_owned(), is_read_only: false }];
    let command = ["berth", "demo", "--execution", "wasm"].map(str::to_owned);
    let status = image.command(&mounts, &["HOME=/tmp".to_owned()], &command)?.stdout(Stdio::null()).status();
    ensure!(status.context("cannot start unshare")?.success(), "{} failed in the image", command.join(" "));
    eprintln!(
        "berth demo --execution wasm: all pods went where they should, as user {}, on a read-only root",
        image.user
    );
    Ok(())
}
