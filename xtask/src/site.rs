//! `cargo xtask site`: the guide as a website, with a folder for each version.
//!
//! mdBook makes the pages and the search. The folders of other versions do not change, so a site grows release by
//! release: fetch the published site, run the command, publish the result. `versions.json` lists the folders. A script
//! in each page (`docs/versions.js`) reads the list and offers the other versions. Every link inside the new folder is
//! checked.

mod links;

use std::{
    fs, iter,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::{cargo, run_with, target_dir};

const MDBOOK: &str = "0.5.4";

/// The version of a guide that belongs to no release.
const UNRELEASED: &str = "main";

const USAGE: &str = "usage: cargo xtask site --out DIR [--version NAME]\n\n\
    DIR gets a folder for the version, by default the tag of the checked-out commit, or `main`. Other versions in DIR stay.";

struct Options {
    out: PathBuf,
    version: String,
}

pub(crate) fn site(arguments: &[String]) -> Result<()> {
    let Options { out, version } = options(arguments)?;
    let mdbook = mdbook()?;
    fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    // mdBook treats a relative folder as a folder below the book.
    let out = out.canonicalize().with_context(|| out.display().to_string())?;
    let folder = out.join(&version);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    let program = mdbook.to_str().context("the path of mdbook is not UTF-8")?;
    let destination = folder.to_str().context("--out is not UTF-8")?;
    run_with(program, &["build", "docs", "--dest-dir", destination], &[])?;
    let n_links = links::check(&folder)?;
    let versions = versions(&out)?;
    let latest = latest(&versions).context("the site has no version")?;
    let list = json!({"latest": latest, "versions": versions});
    fs::write(out.join("versions.json"), format!("{list:#}\n"))?;
    fs::write(out.join("index.html"), entrance(latest))?;
    eprintln!(
        "{}: {n_links} links lead somewhere; versions: {}; {latest} opens first",
        folder.display(),
        versions.join(", ")
    );
    Ok(())
}

fn options(arguments: &[String]) -> Result<Options> {
    let (mut out, mut version) = (None, None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let value = rest.next().with_context(|| format!("{argument} needs a value\n{USAGE}"));
        match argument.as_str() {
            "--out" => out = Some(PathBuf::from(value?)),
            "--version" => version = Some(value?.clone()),
            _ => bail!("unknown option `{argument}`\n{USAGE}"),
        }
    }
    let version = version.unwrap_or_else(|| {
        let tag = Command::new("git").args(["describe", "--exact-match", "--tags"]).stderr(Stdio::null()).output();
        let tag = tag.ok().filter(|output| output.status.success());
        tag.map_or_else(|| UNRELEASED.to_owned(), |tag| String::from_utf8_lossy(&tag.stdout).trim().to_owned())
    });
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    ensure!(
        !version.starts_with('.') && !version.is_empty() && version.chars().all(is_plain),
        "--version {version:?}: use letters, digits, `.`, `-` and `_`; the version is the name of a folder"
    );
    Ok(Options { out: out.context(USAGE)?, version })
}

/// The path of mdBook: an installed program of this version, or the program of an earlier run, or a program that is
/// installed now.
fn mdbook() -> Result<PathBuf> {
    let folder = target_dir().join("tools").join(format!("mdbook-{MDBOOK}"));
    let own = folder.join("bin/mdbook");
    for candidate in [Path::new("mdbook"), &own] {
        let found = Command::new(candidate).arg("--version").stderr(Stdio::null()).output();
        if found.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(MDBOOK)) {
            return Ok(candidate.to_owned());
        }
    }
    eprintln!("installing mdbook {MDBOOK}: some minutes, this first time");
    let root = folder.to_str().context("the path of the target folder is not UTF-8")?;
    cargo(&[
        "install",
        "mdbook",
        "--version",
        MDBOOK,
        "--locked",
        "--no-default-features",
        "--features",
        "search",
        "--root",
        root,
    ])?;
    Ok(own)
}

/// The folders of versions, the newest release first, and the guide that belongs to no release last.
fn versions(site: &Path) -> Result<Vec<String>> {
    let mut versions = Vec::new();
    for entry in fs::read_dir(site)? {
        let entry = entry?;
        if entry.path().join("index.html").is_file() {
            versions.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    versions.sort_by_cached_key(|version| std::cmp::Reverse(age(version)));
    Ok(versions)
}

/// The key by which versions are ordered: releases before all other versions, by their numbers, a release after its
/// pre-releases.
fn age(version: &str) -> (bool, Vec<u64>, bool, String) {
    let digits = version.strip_prefix('v').unwrap_or(version);
    let (numbers, pre_release) = digits.split_once('-').map_or((digits, None), |(it, rest)| (it, Some(rest)));
    let numbers: Result<Vec<u64>, _> = numbers.split('.').map(str::parse).collect();
    let text = pre_release.unwrap_or_default().to_owned();
    numbers.map_or_else(
        |_| (false, Vec::new(), false, version.to_owned()),
        |numbers| (true, numbers, pre_release.is_none(), text),
    )
}

/// The version that the site's entrance opens: the newest release, or the newest of all if nothing was released.
fn latest(versions: &[String]) -> Option<&String> {
    let is_release = |version: &&String| {
        let (has_numbers, _, is_final, _) = age(version);
        has_numbers && is_final
    };
    versions.iter().find(is_release).or_else(|| versions.first())
}

fn entrance(latest: &str) -> String {
    let lines = [
        "<!doctype html>",
        "<html lang=\"en\">",
        "<meta charset=\"utf-8\">",
        "<title>Berth</title>",
        &format!("<meta http-equiv=\"refresh\" content=\"0; url={latest}/\">"),
        &format!("<p>The guide of Berth is at <a href=\"{latest}/\">{latest}</a>.</p>"),
        "</html>",
    ];
    lines.into_iter().chain(iter::once("")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_release_is_first_and_opens() -> Result<()> {
        let site = tempfile::tempdir()?;
        for version in ["main", "v0.9.0", "v0.10.0", "v0.11.0-rc.1", "v0.10.0-rc.2"] {
            fs::create_dir(site.path().join(version))?;
            fs::write(site.path().join(version).join("index.html"), "")?;
        }
        fs::create_dir(site.path().join("no-guide"))?;
        let versions = versions(site.path())?;
        assert_eq!(versions, ["v0.11.0-rc.1", "v0.10.0", "v0.10.0-rc.2", "v0.9.0", "main"]);
        assert_eq!(latest(&versions).map(String::as_str), Some("v0.10.0"));
        assert_eq!(latest(&["main".to_owned()]).map(String::as_str), Some("main"));
        Ok(())
    }

    #[test]
    fn a_version_is_the_name_of_a_folder() {
        let read = |arguments: &[&str]| options(&arguments.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
        assert!(read(&["--out", "a", "--version", "v1.0.0"]).is_ok_and(|it| it.version == "v1.0.0"));
        for wrong in ["../up", "", "a/b", ".hidden"] {
            assert!(read(&["--out", "a", "--version", wrong]).is_err(), "{wrong}");
        }
        assert!(read(&["--version", "v1"]).is_err() && read(&["--out"]).is_err() && read(&["--in", "a"]).is_err());
    }
}
