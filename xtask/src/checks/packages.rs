//! The Rust packages of the repository, and the files from which cargo compiles each of them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

/// The folders that hold packages. `template` and `templates` hold text that becomes a package only when an author
/// fills it in.
const ROOTS: [&str; 7] = ["crates", "fuzz", "host", "plugins", "sdks", "tests", "xtask"];
const NOT_PACKAGES: [&str; 3] = ["target", "template", "templates"];

/// A folder with a `Cargo.toml`.
#[derive(Debug)]
pub(super) struct Package {
    /// The package's name in its manifest.
    pub(super) name: String,
    pub(super) folder: PathBuf,
    /// The files that cargo hands to the compiler: libraries, programs, tests, benches, examples, the build script.
    pub(super) roots: Vec<PathBuf>,
    /// Every Rust file of the package.
    pub(super) files: Vec<PathBuf>,
}

impl Package {
    /// The root of the library or program: `src/lib.rs`, or else `src/main.rs`.
    pub(super) fn main_root(&self) -> Option<&Path> {
        let named = |name: &str| self.roots.iter().find(|root| **root == self.folder.join("src").join(name));
        named("lib.rs").or_else(|| named("main.rs")).map(PathBuf::as_path)
    }
}

/// Every package, in the order of their folders.
pub(super) fn all() -> Result<Vec<Package>> {
    let mut packages = Vec::new();
    for root in ROOTS {
        find(Path::new(root), &mut packages)?;
    }
    Ok(packages)
}

fn find(folder: &Path, packages: &mut Vec<Package>) -> Result<()> {
    if folder.join("Cargo.toml").is_file() {
        packages.push(read(folder)?);
    }
    for entry in entries(folder)? {
        if entry.is_dir() && !is_left_out(&entry) {
            find(&entry, packages)?;
        }
    }
    Ok(())
}

fn is_left_out(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| NOT_PACKAGES.iter().any(|left_out| name == *left_out))
}

fn read(folder: &Path) -> Result<Package> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
    let value = |line: &str, key: &str| {
        let rest = line.strip_prefix(key)?.trim_start().strip_prefix('=')?;
        Some(rest.trim().trim_matches('"').to_owned())
    };
    let name = manifest.lines().find_map(|line| value(line, "name")).unwrap_or_default();
    let mut files = Vec::new();
    rust_files(folder, &mut files)?;
    let named = manifest.lines().filter_map(|line| value(line, "path"));
    let named: Vec<PathBuf> = named.filter(|path| path.ends_with(".rs")).map(|path| folder.join(path)).collect();
    let roots = files.iter().filter(|file| named.contains(file) || is_root(folder, file)).cloned().collect();
    Ok(Package { name, folder: folder.to_owned(), roots, files })
}

/// Whether cargo compiles the file without an entry in the manifest.
fn is_root(folder: &Path, file: &Path) -> bool {
    let Ok(inside) = file.strip_prefix(folder) else { return false };
    let parts: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
    let parts: Vec<&str> = parts.iter().map(AsRef::as_ref).collect();
    matches!(
        parts[..],
        ["build.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["tests" | "benches" | "examples", _]
            | ["src", "bin", _, "main.rs"]
            | ["tests" | "benches" | "examples", _, "main.rs"]
    )
}

/// The Rust files below `folder` that belong to no package further down.
fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in entries(folder)? {
        if entry.is_dir() {
            if !is_left_out(&entry) && !entry.join("Cargo.toml").is_file() {
                rust_files(&entry, files)?;
            }
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            files.push(entry);
        }
    }
    Ok(())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    paths.sort();
    Ok(paths)
}
