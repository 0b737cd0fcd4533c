//! Debian packages of the programs, made by Debian's own `dpkg-deb`. A machine without `dpkg-deb` makes no packages,
//! and the output says so.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result};

use super::{Architecture, Release, THIRD_PARTY, files::PLACEHOLDER_HOST, write};
use crate::{output_of, run, run_with};

const MAINTAINER: &str = "The Berth maintainers <berth@registry.example>";

/// The machine-readable format of Debian (<https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/>). Debian
/// has the text of the licence in `/usr/share/common-licenses`.
const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: berth

Files: *
Copyright: The Berth authors
License: Apache-2.0
 /usr/share/common-licenses/Apache-2.0 has the text of this licence on Debian systems.
 LICENSE-THIRD-PARTY.gz has the licences of the crates and of the glibc that the program contains.
";

impl Release {
    /// Writes a package for each program. `texts` has the folders of completions and man pages.
    pub(super) fn write_debs(&self, programs: &[(Architecture, PathBuf)], texts: &Path) -> Result<()> {
        let there = Command::new("dpkg-deb").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if there.is_err() {
            eprintln!("Debian packages were NOT made: dpkg-deb is not on the PATH (Debian's package dpkg)");
            return Ok(());
        }
        for (arch, program) in programs {
            let folder = self.scratch.join("debs").join(arch.name);
            self.lay_out_deb(&folder, *arch, program, texts)?;
            let file = self.out.join(format!("berth_{}_{}.deb", self.version, arch.name));
            let [folder, file] = [&folder, &file].map(|path| path.display().to_string());
            // The time of the commit stands for the times of all files, so the same commit gives the same bytes.
            let epoch = [("SOURCE_DATE_EPOCH", self.epoch.as_str())];
            run_with("dpkg-deb", &["--root-owner-group", "-Zgzip", "--build", &folder, &file], &epoch)?;
        }
        Ok(())
    }

    /// Lays out the files of a package, as the Filesystem Hierarchy Standard and Debian Policy place them.
    fn lay_out_deb(&self, folder: &Path, arch: Architecture, program: &Path, texts: &Path) -> Result<()> {
        let usr = folder.join("usr");
        let bin = usr.join("bin");
        fs::create_dir_all(&bin)?;
        let berth = bin.join("berth");
        fs::copy(program, &berth).with_context(|| program.display().to_string())?;
        fs::set_permissions(&berth, fs::Permissions::from_mode(0o755))?;
        // No link has the name kube-scheduler: a package of Kubernetes may bring a program of this name.
        symlink("berth", bin.join("kubectl-berth"))?;
        let share = usr.join("share");
        let completions = texts.join("completions");
        for (from, to) in [
            ("berth.bash", "bash-completion/completions/berth"),
            ("_berth", "zsh/vendor-completions/_berth"),
            ("berth.fish", "fish/vendor_completions.d/berth.fish"),
        ] {
            write(&share.join(to), &fs::read(completions.join(from)).with_context(|| from.to_owned())?)?;
        }
        let manual = share.join("man/man1");
        fs::create_dir_all(&manual)?;
        for page in fs::read_dir(texts.join("man"))? {
            let page = page?;
            let packed = manual.join(format!("{}.gz", page.file_name().to_string_lossy()));
            super::compress(&page.path(), &packed)?;
        }
        symlink("berth.1.gz", manual.join("kubectl-berth.1.gz"))?;
        let doc = share.join("doc/berth");
        write(&doc.join("copyright"), COPYRIGHT.as_bytes())?;
        super::compress(&texts.join(THIRD_PARTY), &doc.join(format!("{THIRD_PARTY}.gz")))?;
        let changes = self.scratch.join("changelog");
        write(&changes, self.changes()?.as_bytes())?;
        super::compress(&changes, &doc.join("changelog.gz"))?;
        self.write_control(folder, arch)?;
        // The package would otherwise have the permissions that the user's umask gives.
        run("chmod", &["-R", "u=rwX,go=rX", &folder.display().to_string()])
    }

    /// Writes what `dpkg` reads: the description and the digests of the files.
    fn write_control(&self, folder: &Path, arch: Architecture) -> Result<()> {
        let mut files = Vec::new();
        list(&folder.join("usr"), &mut files)?;
        let mut bytes = 0;
        for file in &files {
            bytes += fs::metadata(file)?.len();
        }
        let kibibytes = bytes.div_ceil(1024);
        let control = format!(
            "Package: berth\nVersion: {}\nArchitecture: {}\nMaintainer: {MAINTAINER}\nInstalled-Size: {kibibytes}\n\
             Section: admin\nPriority: optional\nHomepage: https://{PLACEHOLDER_HOST}\n\
             Description: Kubernetes scheduler with plugins that are WebAssembly components\n \
             Makes the decisions of kube-scheduler. Plugins are sandboxed, and can be replaced\n \
             while pods are being scheduled.\n",
            deb_version(&self.version),
            arch.name
        );
        write(&folder.join("DEBIAN/control"), control.as_bytes())?;
        write(&folder.join("DEBIAN/md5sums"), md5sums(folder, files)?.as_bytes())
    }

    /// The changelog of the package (<https://www.debian.org/doc/debian-policy/ch-source.html#debian-changelog-debian-changelog>).
    fn changes(&self) -> Result<String> {
        let date = output_of("date", &["-u", "-R", "-d", &format!("@{}", self.epoch)])?;
        Ok(format!(
            "berth ({}) stable; urgency=medium\n\n  * The release notes list the changes.\n\n -- {MAINTAINER}  {date}\n",
            deb_version(&self.version)
        ))
    }
}

/// The version of the package. For `dpkg`, 0.2.0~rc.1 is older than 0.2.0, and 0.2.0-rc.1 would be newer
/// (<https://www.debian.org/doc/debian-policy/ch-controlfields.html#version>).
fn deb_version(version: &str) -> String {
    version.replace('-', "~")
}

/// The digests by which `dpkg --verify` finds changed files.
fn md5sums(folder: &Path, mut files: Vec<PathBuf>) -> Result<String> {
    files.sort_unstable();
    let mut sums = String::new();
    for file in files {
        let line = output_of("md5sum", &["--", &file.display().to_string()])?;
        let digest = line.split_whitespace().next().unwrap_or_default();
        sums.push_str(&format!("{digest}  {}\n", file.strip_prefix(folder)?.display()));
    }
    Ok(sums)
}

/// Adds all files below a folder, without links.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            list(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::release::ARCHITECTURES;

    #[test]
    fn a_pre_release_is_older_than_its_release() {
        assert_eq!((deb_version("0.2.0-rc.1"), deb_version("0.2.0")), ("0.2.0~rc.1".to_owned(), "0.2.0".to_owned()));
        let order = ["--compare-versions", "0.2.0~rc.1", "lt", "0.2.0"];
        // Some machines have no dpkg.
        if let Ok(status) = Command::new("dpkg").args(order).status() {
            assert!(status.success());
        }
    }

    #[test]
    fn a_package_has_the_program_its_texts_and_the_same_bytes_each_time() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = |name: &str| dir.path().join(name);
        for file in [
            "texts/completions/berth.bash",
            "texts/completions/_berth",
            "texts/completions/berth.fish",
            "texts/LICENSE-THIRD-PARTY",
            "program",
        ] {
            write(&path(file), b"text").expect("a file");
        }
        write(&path("texts/man/berth-run.1"), b"manual").expect("a file");
        let package = |name: &str| {
            let release = Release {
                version: "0.1.0".to_owned(),
                commit: String::new(),
                epoch: "1700000000".to_owned(),
                out: path(name),
                scratch: path(&format!("{name}-scratch")),
                c_toolchains: BTreeMap::new(),
            };
            fs::create_dir_all(&release.out).expect("a folder");
            // The test runs in the crate's folder, and a release in the workspace's.
            std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).expect("the workspace");
            release.write_debs(&[(ARCHITECTURES[1], path("program"))], &path("texts")).expect("a package");
            release.out.join("berth_0.1.0_arm64.deb")
        };
        let (first, second) = (package("first"), package("second"));
        if !first.exists() {
            return;
        }
        assert_eq!(fs::read(&first).expect("a file"), fs::read(second).expect("a file"));
        let contents = output_of("dpkg-deb", &["--contents", &first.display().to_string()]).expect("a list");
        for file in [
            "./usr/bin/berth\n",
            "./usr/bin/kubectl-berth -> berth",
            "./usr/share/man/man1/berth-run.1.gz",
            "./usr/share/bash-completion/completions/berth",
            "./usr/share/man/man1/kubectl-berth.1.gz -> berth.1.gz",
            "./usr/share/doc/berth/copyright",
            "./usr/share/doc/berth/changelog.gz",
            "./usr/share/doc/berth/LICENSE-THIRD-PARTY.gz",
            "-rwxr-xr-x root/root",
        ] {
            assert!(contents.contains(file), "{file}: {contents}");
        }
        assert!(!contents.contains("kube-scheduler"), "{contents}");
        let with_more = contents.lines().find(|line| !line.starts_with('l') && line.chars().nth(5) == Some('w'));
        assert_eq!(with_more, None, "the group may write");
        let sums = output_of("dpkg-deb", &["--info", &first.display().to_string(), "md5sums"]).expect("digests");
        // The digest of `text`.
        assert!(sums.contains("1cb251ec0d568de6a929b520c4aed8d1  usr/bin/berth\n"), "{sums}");
        let field =
            |name: &str| output_of("dpkg-deb", &["--field", &first.display().to_string(), name]).expect("a field");
        assert_eq!((field("Architecture"), field("Version")), ("arm64".to_owned(), "0.1.0".to_owned()));
    }
}
