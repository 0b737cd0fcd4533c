//! A library for build scripts that embed components, and for `berth plugin build`. It compiles plugin crates of this
//! workspace for wasm and wraps each module into a component.
//!
//! All build scripts share one target directory, so that the common parts of plugins are compiled for wasm only once. A
//! component contains no path of the machine that built it: the same sources, lock file and toolchain give the same
//! bytes on any machine (`cargo xtask reproducible`).

use std::{
    env,
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use flate2::{Compression, write::DeflateEncoder};
use wit_component::ComponentEncoder;

const TARGET: &str = "wasm32-unknown-unknown";
/// The sources that all plugins are built from, relative to the root of the workspace. Its `Cargo.toml` contains the
/// profile.
const SHARED_SOURCES: [&str; 6] =
    ["Cargo.toml", "wit", "crates/model/src", "crates/framework/src", "crates/builtins/src", "sdks/rust/src"];

/// A plugin crate and the component that is made from it.
#[derive(Clone, Debug)]
pub struct Plugin {
    /// The folder of the crate, which cargo watches.
    pub folder: PathBuf,
    /// The crate's name.
    pub package: String,
    /// The name by which profiles refer to the plugin.
    pub name: String,
}

/// Builds the plugins and writes `OUT_DIR/components.rs`. The file contains a static with this name and doc comment: an
/// array of `EmbeddedComponent::new(name, deflated)`.
///
/// # Errors
/// A crate doesn't compile, a module is not a component, or the function is called outside a build script.
#[expect(clippy::print_stdout, reason = "that is how a build script speaks to cargo")]
pub fn embed(workspace: &Path, constant: &str, doc: &str, plugins: &[Plugin]) -> Result<()> {
    for folder in plugins.iter().map(|plugin| plugin.folder.clone()).chain(SHARED_SOURCES.map(|it| workspace.join(it)))
    {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // The workspace's `Cargo.toml` contains both profiles.
    let profile = if env::var("PROFILE")? == "release" { "component" } else { "component-dev" };
    let target_dir = out.ancestors().nth(4).context("OUT_DIR is not inside a target directory")?.join("components");
    compile(workspace, plugins, profile, &target_dir)?;
    let modules = target_dir.join(TARGET).join(profile);
    let mut listing = format!("/// {doc}\npub static {constant}: [EmbeddedComponent; {}] = [\n", plugins.len());
    for Plugin { package, name, .. } in plugins {
        let module = modules.join(format!("{}.wasm", package.replace('-', "_")));
        let component =
            componentize(&module).with_context(|| format!("cannot make a component of {}", module.display()))?;
        let path = out.join(format!("{name}.deflated"));
        fs::write(&path, deflated(&component)?)?;
        writeln!(listing, "    EmbeddedComponent::new({name:?}, include_bytes!({path:?})),")?;
    }
    listing.push_str("];\n");
    fs::write(out.join("components.rs"), listing)?;
    Ok(())
}

/// Compresses a component. Uncompressed, the built-in components would be a fifth of the program.
fn deflated(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn compile(workspace: &Path, plugins: &[Plugin], profile: &str, target_dir: &Path) -> Result<()> {
    let mut cargo = Command::new(env::var("CARGO")?);
    cargo.current_dir(workspace).args(["build", "--profile", profile, "--locked", "--target", TARGET, "--target-dir"]);
    cargo.arg(target_dir);
    for plugin in plugins {
        cargo.args(["--package", &plugin.package]);
    }
    // The variables are meant for the build of the host, not for wasm.
    for inherited in ["RUSTFLAGS", "CARGO_TARGET_DIR", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET"]
    {
        cargo.env_remove(inherited);
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", compiler_flags(workspace, target_dir));
    let output = cargo.output().context("cannot start cargo to build the plugins")?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let hint = if text.contains("can't find crate for `core`") || text.contains("can't find crate for `std`") {
            "\nThe wasm target is missing: run `rustup target add wasm32-unknown-unknown`, or any `cargo xtask` command."
        } else {
            ""
        };
        bail!("building the plugins for {TARGET} failed:\n{text}{hint}");
    }
    Ok(())
}

/// The compiler's flags for plugins, in the form of `CARGO_ENCODED_RUSTFLAGS`. SIMD makes loops over nodes smaller and
/// faster. The flags also remove paths of this machine. Messages of panics name source files: files of `workspace`, of
/// `target_dir`, where build scripts write, and of cargo's registries get paths that are equal on all machines.
#[must_use]
pub fn compiler_flags(workspace: &Path, target_dir: &Path) -> String {
    let mut flags = vec!["-Ctarget-feature=+simd128".to_owned()];
    // The last flag that matches a path counts, and the other folders may be inside the first folder.
    let mut remap = |from: &Path, to: &str| flags.push(format!("--remap-path-prefix={}={to}", from.display()));
    remap(workspace, "/workspace");
    remap(target_dir, "/target");
    for registry in registries() {
        remap(&registry, "/registry");
    }
    flags.join("\u{1f}")
}

/// The folders into which cargo unpacks crates: one folder for each registry, with a hash in its name.
fn registries() -> Vec<PathBuf> {
    // An empty variable counts as unset, as for cargo.
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = variable("CARGO_HOME").or_else(|| variable("HOME").map(|home| home.join(".cargo")));
    let sources = home.map(|home| home.join("registry/src")).and_then(|sources| fs::read_dir(sources).ok());
    let mut registries: Vec<PathBuf> = sources.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    registries.sort();
    registries
}

/// Makes a component from a core module.
///
/// # Errors
/// The file cannot be read, or is not a core module.
pub fn componentize(module: &Path) -> Result<Vec<u8>> {
    let module = fs::read(module)?;
    ComponentEncoder::default().module(&module)?.validate(true).encode()
}
