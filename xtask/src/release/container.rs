//! The image of a release, unpacked, and commands that run in it as a container runtime would run them. `unshare` and
//! `chroot` replace the runtime. System calls, networks and memory are not confined.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{ARCHITECTURES, Architecture};
use crate::run;

/// Runs a command with a read-only root file system and without a way to gain rights. `$1` is the root. Then three
/// words follow for each mount, up to `--`: a folder of this machine, its place below the root, and `ro` or `rw`. The
/// rest is what `env` gets.
const CONTAINED: &str = r#"
set -eu
root=$1
shift
mount --bind "$root" "$root"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
while [ "$1" != -- ]; do
    mount --bind "$1" "$root$2"
    if [ "$3" = ro ]; then mount -o remount,bind,ro "$root$2"; fi
    shift 3
done
shift
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
"#;

/// The image for one architecture, unpacked.
#[derive(Debug)]
pub(super) struct Image {
    root: PathBuf,
    /// The user and the group, as in `65532:65532`.
    pub(super) user: String,
}

/// A folder of this machine that a container sees.
#[derive(Clone, Debug)]
pub(super) struct Mount {
    pub(super) folder: PathBuf,
    /// The absolute path in the container.
    pub(super) at: String,
    pub(super) is_read_only: bool,
}

impl Image {
    /// Unpacks the layers for an architecture into a new folder. `None` if the image has no layers for this
    /// architecture.
    pub(super) fn unpack(layout: &Path, arch: Architecture, root: PathBuf) -> Result<Option<Self>> {
        let read = |descriptor: &Value| blob(layout, descriptor);
        let index: Value = serde_json::from_slice(&fs::read(layout.join("index.json"))?)?;
        let index = read(&index["manifests"][0])?;
        let manifests = index["manifests"].as_array().context("the image has no manifests")?;
        let manifest = manifests.iter().find(|it| it["platform"]["architecture"] == arch.name);
        let Some(manifest) = manifest else { return Ok(None) };
        let manifest = read(manifest)?;
        let config = read(&manifest["config"])?;
        fs::create_dir_all(&root)?;
        for layer in manifest["layers"].as_array().into_iter().flatten() {
            let file = blob_file(layout, layer)?;
            run("tar", &["-C", &root.display().to_string(), "-xzf", &file.display().to_string()])?;
        }
        for folder in ["dev", "proc"] {
            fs::create_dir_all(root.join(folder))?;
        }
        let user = config["config"]["User"].as_str().context("the image names no user")?;
        ensure!(!user.starts_with('0'), "the image runs as root");
        Ok(Some(Self { root, user: user.to_owned() }))
    }

    /// The architecture of this machine.
    pub(super) fn own_architecture() -> Result<Architecture> {
        let own = ARCHITECTURES.into_iter().find(|arch| arch.machine == env::consts::ARCH);
        own.with_context(|| format!("there are no releases for {}", env::consts::ARCH))
    }

    /// The program. The program is static, so it also runs outside of the image.
    pub(super) fn program(&self) -> PathBuf {
        self.root.join("usr/local/bin/berth")
    }

    /// A command in the image. The command gets only the variables `NAME=VALUE` and `PATH`.
    pub(super) fn command(&self, mounts: &[Mount], variables: &[String], command: &[String]) -> Result<Command> {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--propagation", "private", "sh", "-c", CONTAINED, "sh"]).arg(&self.root);
        for Mount { folder, at, is_read_only } in mounts {
            let inside = at.strip_prefix('/').with_context(|| format!("{at} is not an absolute path"))?;
            fs::create_dir_all(self.root.join(inside))?;
            unshare.arg(folder).arg(at).arg(if *is_read_only { "ro" } else { "rw" });
        }
        unshare.arg("--").args(variables);
        unshare.args(["chroot", &format!("--userspec={}", self.user)]).arg(&self.root).args(command);
        Ok(unshare)
    }
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
