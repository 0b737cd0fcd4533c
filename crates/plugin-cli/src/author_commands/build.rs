//! `berth plugin build`: builds `build/NAME.wasm` from a plugin's folder.

use std::{
    env, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use berth_config::Usage;
use berth_plugin_builder::{compiler_flags, componentize};
use clap::Args;
use serde::Deserialize;

use super::{inspect::interfaces, node_plugin, project, script};

const TARGET: &str = "wasm32-unknown-unknown";

#[derive(Args, Debug)]
pub struct Build {
    /// The plugin's folder: a folder with a build.sh, or a Rust crate
    #[arg(default_value = ".", value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(build: &Build) -> Result<()> {
    let file = component(&build.dir)?;
    let loaded = project::load(&file)?;
    let kilobytes = loaded.binary.bytes().len().div_ceil(1024);
    writeln!(io::stdout(), "{}: {}, {kilobytes} KiB", file.display(), loaded.title())?;
    loaded.warn_of_misspelt_kinds()?;
    let (_, exports) = interfaces(loaded.binary.bytes())?;
    let has =
        |interface: &str| exports.iter().any(|export| export.starts_with(&format!("berth:scheduler/{interface}@")));
    if has("cycle") && !has("sync") {
        eprintln!(
            "warning: the plugin exports cycle but not sync: without sync, labels, namespaces and resources read as \
             empty. Export sync as well, unless the plugin reads none of these"
        );
    }
    if !build.dir.join("build.sh").is_file() {
        for warning in node_plugin::uncalled(&build.dir, has) {
            eprintln!("warning: {warning}");
        }
        let unwritten = node_plugin::unwritten(&build.dir, has);
        if !unwritten.is_empty() {
            bail!("{}", unwritten.join("\n"));
        }
    }
    Ok(())
}

/// Builds the component and returns its file.
pub(super) fn component(dir: &Path) -> Result<PathBuf> {
    if !dir.is_dir() {
        return Err(Usage(format!("{}: folder not found", dir.display())).into());
    }
    if dir.join("build.sh").is_file() {
        return by_script(dir);
    }
    if dir.join("Cargo.toml").is_file() {
        return rust(dir);
    }
    let text =
        format!("{}: contains neither build.sh nor Cargo.toml; `berth plugin new` makes a project", dir.display());
    Err(Usage(text).into())
}

fn by_script(dir: &Path) -> Result<PathBuf> {
    let full = dir.canonicalize().with_context(|| format!("cannot find {}", dir.display()))?;
    let script = full.join("build.sh");
    script::run(&script, &full)?;
    newest(&dir.join("build")).with_context(|| format!("{} did not write build/NAME.wasm", script.display()))
}

/// The newest wasm file. A script may leave other files, but writes the component last.
fn newest(build: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(build).ok()?.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let is_component = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "wasm") && !path.ends_with("module.wasm")
    };
    let components = files.filter(is_component);
    components.max_by_key(|path| path.metadata().and_then(|metadata| metadata.modified()).ok())
}

/// The part of `cargo metadata --no-deps` that a build reads.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
    workspace_root: PathBuf,
}

/// A package of the workspace.
#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
}

fn rust(dir: &Path) -> Result<PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&cargo);
        command.current_dir(dir).args(arguments);
        // With line tables, a component would be fifty times as large.
        command.env("CARGO_PROFILE_RELEASE_STRIP", "true").env("CARGO_PROFILE_RELEASE_DEBUG", "false");
        command
    };
    // `--no-deps` keeps cargo from reading the packages of every platform, which an offline machine may not have.
    let metadata = run(&["metadata", "--format-version", "1", "--no-deps"]).output();
    let metadata = metadata.context("cannot run cargo; a plugin in Rust needs cargo: https://rustup.rs")?;
    let manifest = dir.join("Cargo.toml");
    if !metadata.status.success() {
        let words = String::from_utf8_lossy(&metadata.stderr);
        bail!("{}\ncargo cannot read {}", words.trim_end(), manifest.display());
    }
    let Metadata { packages, target_directory, workspace_root } = serde_json::from_slice(&metadata.stdout)?;
    let full = manifest.canonicalize().with_context(|| format!("cannot find {}", manifest.display()))?;
    let is_it = |package: &Package| package.manifest_path.canonicalize().is_ok_and(|path| path == full);
    let package = packages.into_iter().find(is_it);
    let package = package.with_context(|| format!("{} has no package", manifest.display()))?.name;
    let mut build = run(&["build", "--release", "--target", TARGET, "--package", &package]);
    build.env("CARGO_ENCODED_RUSTFLAGS", compiler_flags(&workspace_root, &target_directory));
    let status = build.status()?;
    if !status.success() {
        bail!("cargo build failed{}", advice(dir, run(&["fetch", "--offline", "--target", TARGET])));
    }
    let module = target_directory.join(TARGET).join("release").join(format!("{}.wasm", package.replace('-', "_")));
    write_named(dir, componentize(&module).with_context(|| module.display().to_string())?)
}

/// After a failed build, says what the machine lacks. cargo has already shown the errors in the sources.
fn advice(dir: &Path, mut fetch: Command) -> String {
    if !has_target(dir) {
        return format!(": the target is missing; run `rustup target add {TARGET}`");
    }
    let lacks_packages = fetch
        .output()
        .is_ok_and(|output| !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("--offline"));
    if lacks_packages {
        let command = format!("`cargo fetch --target {TARGET}`");
        return format!(": a package is not on this machine; if its name is right, run {command} once while online");
    }
    String::new()
}

/// Whether the compiler has libraries for the target; true if the compiler does not report it.
fn has_target(dir: &Path) -> bool {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let asked = Command::new(rustc).current_dir(dir).args(["--print", "target-libdir", "--target", TARGET]).output();
    let Ok(output) = asked else { return true };
    !output.status.success() || Path::new(String::from_utf8_lossy(&output.stdout).trim_end()).is_dir()
}

/// Writes the component under the name that its manifest says.
fn write_named(dir: &Path, component: Vec<u8>) -> Result<PathBuf> {
    let build = dir.join("build");
    fs::create_dir_all(&build).with_context(|| format!("cannot create {}", build.display()))?;
    let name = project::name_in_manifest(&component)?;
    let file = build.join(format!("{name}.wasm"));
    // A process that copies the file during the build gets either the whole old file or the whole new file.
    let part = build.join(format!(".{name}.part"));
    fs::write(&part, component).with_context(|| format!("cannot write {}", part.display()))?;
    fs::rename(&part, &file).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}
