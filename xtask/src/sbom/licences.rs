//! The licences of the code of others that a program contains: crates, Rust's standard library, and glibc in a static
//! program. Most of these licences ask for a copy of their text beside the program.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result};
use serde_json::Value;

/// Beginnings of the names of files with licences, in capital letters.
const FILES: [&str; 5] = ["LICEN", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// The licence of glibc (<https://www.gnu.org/licenses/old-licenses/lgpl-2.1.txt>).
const LGPL: &str = include_str!("lgpl-2.1.txt");

const INTRODUCTION: &str = "\
Berth contains the crates that this file lists, Rust's standard library, and the GNU C library.

The GNU C library (glibc, https://www.gnu.org/software/libc/) is covered by the GNU Lesser General Public License, version 2.1 or
later, whose text is at the end of this file. The sources of Berth are public, so you can link Berth with a changed glibc.

Rust's standard library (https://www.rust-lang.org/) may be used under the MIT licence or the Apache licence, version 2.0.

";

const WITHOUT_TEXT: &str = "The packages of these crates name their licence, but do not contain its text:\n\n";

/// The text of all licences. `packages` are packages of cargo's metadata.
pub(super) fn text<'a>(packages: impl Iterator<Item = &'a Value>) -> Result<String> {
    let mut crates_by_text: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut without_text = String::new();
    for package in packages {
        let field = |name: &str| package[name].as_str().unwrap_or_default();
        let name = format!("{} {} ({})", field("name"), field("version"), field("license"));
        let texts = texts(Path::new(field("manifest_path"))).with_context(|| name.clone())?;
        if texts.is_empty() {
            without_text.push_str(&format!("    {name}, {}\n", field("repository")));
        }
        for text in texts {
            crates_by_text.entry(text).or_default().insert(name.clone());
        }
    }
    let mut all: Vec<(BTreeSet<String>, String)> = crates_by_text.into_iter().map(|(text, of)| (of, text)).collect();
    all.sort_unstable();
    let mut written = INTRODUCTION.to_owned();
    for (crates, text) in all {
        let crates: Vec<String> = crates.into_iter().collect();
        written.push_str(&section(&crates.join(", "), &text));
    }
    if !without_text.is_empty() {
        written.push_str(&section("Without a text", &format!("{WITHOUT_TEXT}{without_text}")));
    }
    written.push_str(&section("glibc (LGPL-2.1-or-later)", LGPL));
    Ok(written)
}

fn section(title: &str, text: &str) -> String {
    format!("{}\n{title}\n\n{}\n\n", "=".repeat(80), text.trim_end())
}

/// The licences beside a manifest, each once.
fn texts(manifest: &Path) -> Result<BTreeSet<String>> {
    let folder = manifest.parent().context("the manifest is in no folder")?;
    let mut texts = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if entry.path().is_file() && FILES.iter().any(|beginning| name.starts_with(beginning)) {
            texts.insert(String::from_utf8_lossy(&fs::read(entry.path())?).into_owned());
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_text_stands_once_with_its_crates() {
        let dir = tempfile::tempdir().expect("a folder");
        let package = |name: &str, file: Option<&str>| {
            let folder = dir.path().join(name);
            fs::create_dir(&folder).expect("a folder");
            if let Some(file) = file {
                fs::write(folder.join(file), "You may.\n").expect("a file");
            }
            json!({"name": name, "version": "1.0.0", "license": "MIT", "repository": "https://a.example",
                "manifest_path": folder.join("Cargo.toml")})
        };
        let packages = [package("b", Some("LICENSE-MIT")), package("a", Some("license.txt")), package("c", None)];
        let text = text(packages.iter()).expect("a text");
        assert!(text.contains("\na 1.0.0 (MIT), b 1.0.0 (MIT)\n\nYou may.\n"), "{text}");
        assert_eq!(text.matches("You may.").count(), 1);
        assert!(text.contains("    c 1.0.0 (MIT), https://a.example\n"), "{text}");
        assert!(text.starts_with(INTRODUCTION) && text.contains("GNU LESSER GENERAL PUBLIC LICENSE"));
    }
}
