//! `cargo xtask release --check`: checks that a downloaded release works.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{
    ARCHITECTURES,
    container::{Image, Mount},
    installed, provenance,
    signature::{self, SIGNATURES, SUMS},
};
use crate::{manifests, output_of, run, target_dir};

/// Checks the files of a release. The signature must fit the public key, if one is named. If `is_required`, a missing
/// program of this machine is an error.
pub(super) fn check(folder: &Path, public_key: Option<&str>, is_required: bool) -> Result<()> {
    let folder = fs::canonicalize(folder).with_context(|| folder.display().to_string())?;
    signature::verify(&folder, public_key)?;
    compare_checksums(&folder)?;
    let scratch = target_dir().join("release-check");
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    let layout = scratch.join("image");
    fs::create_dir_all(&layout)?;
    let scratch = fs::canonicalize(scratch)?;
    unpack(&one_of(&folder, "-image.tar")?, &layout)?;
    let provenance = one_of(&folder, ".intoto.json")?;
    ensure!(
        image_digest(&layout)? == provenance::image_digest(&provenance)?,
        "{} names another image",
        provenance.display()
    );
    try_others(&layout, &scratch)?;
    let own = Image::own_architecture()?;
    let image = Image::unpack(&layout, own, scratch.join("root"))?;
    let image = image.with_context(|| format!("the image has no program for {}", own.name))?;
    ensure!(
        output_of("id", &["-u"])? == "0",
        "the image was NOT RUN: only root can become the image's user; run this command as root"
    );
    demo(&image, &scratch)?;
    if let Some(program) = manifests::missing() {
        ensure!(!is_required, "the chart and the manifests were NOT INSTALLED: {program} is not on the PATH");
        eprintln!("the chart and the manifests were NOT INSTALLED: {program} is not on the PATH");
        return Ok(());
    }
    let deploy = scratch.join("deploy");
    fs::create_dir_all(&deploy)?;
    unpack(&one_of(&folder, "-deploy.tar.gz")?, &deploy)?;
    let base = one_of(&deploy, "-deploy")?.join("kustomize/base");
    installed::check(&image, &base, &one_of(&folder, ".tgz")?, &scratch)
}

/// Compares all files with their checksums.
///
/// # Errors
/// A file differs or is missing, or a file is there that the checksums do not list.
pub(super) fn compare_checksums(folder: &Path) -> Result<()> {
    let status = Command::new("sha256sum").args(["--check", "--quiet", SUMS]).current_dir(folder).status();
    ensure!(status.context("cannot start sha256sum")?.success(), "{}: the checksums do not fit", folder.display());
    let sums = fs::read_to_string(folder.join(SUMS)).context(SUMS)?;
    let listed: BTreeSet<&str> = sums.lines().filter_map(|line| Some(line.split_once("  ")?.1)).collect();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_known = name == SUMS || SIGNATURES.contains(&name.as_str()) || listed.contains(name.as_str());
        ensure!(is_known, "{}: {SUMS} does not list {name}", folder.display());
    }
    eprintln!("checksums: they fit");
    Ok(())
}

/// The digest of the image in a layout, as a registry shows it.
fn image_digest(layout: &Path) -> Result<String> {
    let index: Value = serde_json::from_slice(&fs::read(layout.join("index.json"))?)?;
    let digest = index["manifests"][0]["digest"].as_str().context("the layout names no image")?;
    Ok(digest.to_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_must_be_listed_and_must_not_differ() {
        let dir = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("a file");
        write("berth.tgz", "a chart");
        let digest = super::super::sha256(&dir.path().join("berth.tgz")).expect("a digest");
        write(SUMS, &format!("{digest}  berth.tgz\n"));
        compare_checksums(dir.path()).expect("all files fit");
        for signature in SIGNATURES {
            write(signature, "a signature");
        }
        compare_checksums(dir.path()).expect("signatures are not listed");
        write("other.tgz", "another chart");
        let error = compare_checksums(dir.path()).expect_err("a file more").to_string();
        assert!(error.ends_with("SHA256SUMS does not list other.tgz"), "{error}");
        fs::remove_file(dir.path().join("other.tgz")).expect("a file");
        write("berth.tgz", "another chart");
        let error = compare_checksums(dir.path()).expect_err("another file").to_string();
        assert!(error.ends_with("the checksums do not fit"), "{error}");
    }
}
