//! `cargo xtask release --check`: checks that a downloaded release works.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::ARCHITECTURES;
use crate::{output_of, run, target_dir};

/// Runs a command as the image would: as its user, with a read-only root file system. `$1` is the root, `$2` is the
/// user, and the remaining arguments are the command.
const CONTAINED: &str = r#"
set -eu
root=$1 user=$2
shift 2
mount --bind "$root" "$root"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"
chmod 1777 "$root/tmp"
mount -o remount,bind,ro "$root"
exec env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp chroot --userspec="$user" "$root" "$@"
"#;

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
    let image = one_of(&folder, "-image.tar")?;
    run("tar", &["-C", &layout.display().to_string(), "-xf", &image.display().to_string()])?;
    let root = fs::canonicalize(&scratch)?.join("root");
    let user = unpack(&layout, &root)?;
    ensure!(output_of("id", &["-u"])? == "0", "NOT RUN: the image is run by root, who becomes its user");
    for folder in ["dev", "proc", "tmp"] {
        fs::create_dir_all(root.join(folder))?;
    }
    let start = Instant::now();
    contained(&root, &user, &["berth", "--version"])?;
    eprintln!("berth --version: {} ms", start.elapsed().as_millis());
    let start = Instant::now();
    contained(&root, &user, &["berth", "demo", "--execution", "wasm"])?;
    eprintln!("berth demo --execution wasm, as user {user} with a read-only root: {} ms", start.elapsed().as_millis());
    Ok(())
}

fn one_of(folder: &Path, ending: &str) -> Result<PathBuf> {
    let mut files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let file = files.find(|file| file.to_string_lossy().ends_with(ending));
    file.with_context(|| format!("{}: no file ends with {ending}", folder.display()))
}

/// Unpacks the layers for this machine. Returns the image's user.
fn unpack(layout: &Path, root: &Path) -> Result<String> {
    let own = ARCHITECTURES.into_iter().find(|arch| arch.machine == env::consts::ARCH);
    let own = own.context("the release has no image for this machine")?;
    let read = |descriptor: &Value| blob(layout, descriptor);
    let index: Value = serde_json::from_slice(&fs::read(layout.join("index.json"))?)?;
    let index = read(&index["manifests"][0])?;
    let manifests = index["manifests"].as_array().context("the image has no manifests")?;
    let manifest = manifests.iter().find(|it| it["platform"]["architecture"] == own.name);
    let manifest = read(manifest.with_context(|| format!("the image has none for {}", own.name))?)?;
    let config = read(&manifest["config"])?;
    fs::create_dir_all(root)?;
    for layer in manifest["layers"].as_array().into_iter().flatten() {
        let file = blob_file(layout, layer)?;
        run("tar", &["-C", &root.display().to_string(), "-xzf", &file.display().to_string()])?;
    }
    let user = config["config"]["User"].as_str().context("the image names no user")?;
    ensure!(!user.starts_with('0'), "the image runs as root");
    Ok(user.to_owned())
}

fn blob_file(layout: &Path, descriptor: &Value) -> Result<PathBuf> {
    let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
    let file = layout.join("blobs/sha256").join(digest.context("a descriptor without a digest")?);
    ensure!(
        Some(super::sha256(&file)?.as_str()) == digest,
        "{}: the SHA-256 digest differs from the descriptor's",
        file.display()
    );
    ensure!(
        Some(fs::metadata(&file)?.len()) == descriptor["size"].as_u64(),
        "{}: the size differs from the descriptor's",
        file.display()
    );
    Ok(file)
}

fn blob(layout: &Path, descriptor: &Value) -> Result<Value> {
    Ok(serde_json::from_slice(&fs::read(blob_file(layout, descriptor)?)?)?)
}

fn contained(root: &Path, user: &str, command: &[&str]) -> Result<()> {
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--mount", "--propagation", "private", "sh", "-c", CONTAINED, "sh"])
        .arg(root)
        .arg(user)
        .args(command);
    let status = unshare.stdout(Stdio::null()).status().context("cannot start unshare")?;
    ensure!(status.success(), "{} failed in the image", command.join(" "));
    Ok(())
}
