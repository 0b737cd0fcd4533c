//! `cargo xtask reproducible`: the same sources, lock file and toolchain make the same bytes in every directory.
//!
//! The command builds twice, in two directories and with two homes of cargo. By default it builds one component: it
//! copies the tracked files, and `berth plugin build` builds a built-in plugin. Embedded built-ins are compiled with
//! the same flags. With `--release` it makes a whole release from two clones of HEAD, and compares all files. This
//! option takes as long as two releases. If they are equal, it keeps the first release and deletes the second.

use std::{
    collections::BTreeSet,
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{cargo, cargo_home, run, setup, target_dir, without_own_variables};

const USAGE: &str = "usage: cargo xtask reproducible [--release [OPTION OF cargo xtask release ...]]";

const PLUGIN: &str = "plugins/node-affinity";
const COMPONENT: &str = "plugins/node-affinity/build/NodeAffinity.wasm";

/// The two directories. Their paths have different lengths.
const PLACES: [&str; 2] = ["one", "another/and/much/deeper"];

/// The folders of the two releases, beside the directories.
const RELEASES: [&str; 2] = ["release-1", "release-2"];

/// Builds twice and compares.
pub(crate) fn reproducible(arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        None => component(),
        Some((first, rest)) if first == "--release" => release(rest),
        Some((unknown, _)) => bail!("unknown option {unknown}\n{USAGE}"),
    }
}

fn component() -> Result<()> {
    setup()?;
    cargo(&["build", "--bin", "berth"])?;
    let berth = fs::canonicalize(target_dir().join("debug/berth")).context("cannot find the berth binary")?;
    let scratch = scratch("reproducible")?;
    let homes = homes(&scratch)?;
    let first = build(&berth, &scratch.join(PLACES[0]), &homes[0])?;
    let second = build(&berth, &scratch.join(PLACES[1]), &homes[1])?;
    ensure!(first == second, "the bytes differ: {} and {}", first.len(), second.len());
    for path in [&scratch, &homes[0]] {
        let path = path.display().to_string();
        let holds = first.windows(path.len()).any(|window| window == path.as_bytes());
        ensure!(!holds, "the component holds the path {path}");
    }
    eprintln!("NodeAffinity.wasm: {} bytes, the same in both places", first.len());
    fs::remove_dir_all(&scratch).context("cannot remove the copies")
}

/// Makes a release twice. `arguments` are options of `cargo xtask release`, without `--out`.
fn release(arguments: &[String]) -> Result<()> {
    let scratch = scratch("reproducible-release")?;
    let homes = homes(&scratch)?;
    let mut sums = Vec::new();
    for ((place, release), home) in PLACES.iter().zip(RELEASES).zip(&homes) {
        let (clone, out) = (scratch.join(place), scratch.join(release));
        run("git", &["clone", "--quiet", "--no-hardlinks", ".", &clone.display().to_string()])?;
        let mut command = Command::new(env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
        command.args(["xtask", "release", "--out"]).arg(&out).args(arguments).current_dir(&clone);
        command.env("CARGO_HOME", home).env("CARGO_TARGET_DIR", clone.join("target"));
        without_own_variables(&mut command);
        let status = command.status().context("cannot start cargo")?;
        ensure!(status.success(), "cargo xtask release failed in {}", clone.display());
        let file = out.join("SHA256SUMS");
        sums.push(fs::read_to_string(&file).with_context(|| file.display().to_string())?);
        // Two target folders may need more room than the disk has.
        fs::remove_dir_all(&clone).context("cannot remove the clone")?;
    }
    let differing = differing(&sums[0], &sums[1]);
    let [first, second] = RELEASES.map(|release| scratch.join(release));
    ensure!(
        differing.is_empty(),
        "these files differ in {} and {}: {}",
        first.display(),
        second.display(),
        differing.into_iter().collect::<Vec<_>>().join(", ")
    );
    eprintln!("{} files of a release: the same digests in both places\n{}", sums[0].lines().count(), sums[0]);
    keep(&scratch, &first)?;
    eprintln!("{}: the first release. The next run of this command deletes it", first.display());
    Ok(())
}

/// Deletes everything in the folder but one folder in it.
fn keep(scratch: &Path, kept: &Path) -> Result<()> {
    for entry in fs::read_dir(scratch).with_context(|| scratch.display().to_string())? {
        let path = entry?.path();
        if path != kept {
            fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// The names of the files that only one list of checksums has, or that have different digests.
fn differing<'a>(first: &'a str, second: &'a str) -> BTreeSet<&'a str> {
    let (first, second): (BTreeSet<&str>, BTreeSet<&str>) = (first.lines().collect(), second.lines().collect());
    first.symmetric_difference(&second).map(|line| line.split_once("  ").map_or(*line, |(_, name)| name)).collect()
}

/// An empty folder in the target directory.
fn scratch(name: &str) -> Result<PathBuf> {
    fs::create_dir_all(target_dir()).context("cannot create the target folder")?;
    let scratch = fs::canonicalize(target_dir())?.join(name);
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    fs::create_dir_all(&scratch)?;
    Ok(scratch)
}

/// The home of cargo, and another home. The other home has the same crates under another path, and the same
/// configuration of registries.
fn homes(scratch: &Path) -> Result<[PathBuf; 2]> {
    let home = fs::canonicalize(cargo_home()?).context("the home of cargo")?;
    let other = scratch.join("another-home-of-cargo");
    fs::create_dir_all(&other)?;
    for shared in ["registry", "config.toml"] {
        if home.join(shared).exists() {
            symlink(home.join(shared), other.join(shared))?;
        }
    }
    Ok([home, other])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_differ_or_are_missing_are_named() {
        let first = "aa  berth.tgz\nbb  berth.deb\ncc  notes.md\n";
        assert_eq!(differing(first, first), BTreeSet::new());
        let second = "aa  berth.tgz\nbc  berth.deb\n";
        assert_eq!(differing(first, second), BTreeSet::from(["berth.deb", "notes.md"]));
    }

    #[test]
    fn only_the_first_release_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        for folder in [RELEASES[0], RELEASES[1], PLACES[1], "another-home-of-cargo"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
            fs::write(dir.path().join(folder).join("SHA256SUMS"), "").unwrap();
        }
        let first = dir.path().join(RELEASES[0]);
        keep(dir.path(), &first).unwrap();
        let left: Vec<PathBuf> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, std::slice::from_ref(&first));
        assert!(first.join("SHA256SUMS").exists());
    }

    #[test]
    fn an_unknown_option_is_named() {
        let error = reproducible(&["--relase".to_owned()]).unwrap_err().to_string();
        assert_eq!(error, format!("unknown option --relase\n{USAGE}"));
    }
}
