//! Builds every plugin crate beside this one for wasm and wraps each module into a component.

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use wit_component::ComponentEncoder;

const TARGET: &str = "wasm32-unknown-unknown";

/// The examples in Rust, and the names by which profiles refer to them.
const EXAMPLES: [(&str, &str); 3] =
    [("coscheduling", "Coscheduling"), ("node-metadata-rust", "NodeMetadata"), ("qos-sort", "QOSSort")];

/// A crate to build, and what becomes of it.
struct Plugin {
    package: String,
    /// The file in the plugins directory is called the same.
    name: String,
}

fn main() -> Result<()> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let plugins_dir = here.parent().context("plugins/components has no parent folder")?;
    let folders = plugin_folders(plugins_dir)?;
    watch(plugins_dir, &folders);
    let built_in: Vec<Plugin> =
        folders.iter().map(|folder| Plugin { package: format!("berth-{folder}"), name: pascal_case(folder) }).collect();
    let examples =
        EXAMPLES.map(|(folder, name)| Plugin { package: format!("berth-example-{folder}"), name: name.to_owned() });
    // One place for all profiles of the host: the components are the same in each.
    let target_dir = out.ancestors().nth(4).context("OUT_DIR is not inside a target directory")?.join("components");
    compile(plugins_dir, built_in.iter().chain(&examples), &target_dir)?;
    let modules = target_dir.join(TARGET).join("release");
    let mut listing = String::new();
    write_list(&mut listing, "Every built-in component, sorted by name.", "COMPONENTS", &built_in, &modules, &out)?;
    write_list(&mut listing, "The example plugins written in Rust.", "EXAMPLES", &examples, &modules, &out)?;
    fs::write(out.join("components.rs"), listing)?;
    Ok(())
}

/// Adds a constant with the components of `plugins`, made from their modules and put into `out`.
fn write_list(
    listing: &mut String,
    doc: &str,
    constant: &str,
    plugins: &[Plugin],
    modules: &Path,
    out: &Path,
) -> Result<()> {
    writeln!(listing, "/// {doc}\npub const {constant}: &[EmbeddedComponent] = &[")?;
    for Plugin { package, name } in plugins {
        let module = modules.join(format!("{}.wasm", package.replace('-', "_")));
        let component = componentize(&module).with_context(|| format!("componentizing {}", module.display()))?;
        let path = out.join(format!("{name}.wasm"));
        fs::write(&path, component)?;
        writeln!(listing, "    EmbeddedComponent {{ name: {name:?}, bytes: include_bytes!({path:?}) }},")?;
    }
    listing.push_str("];\n");
    Ok(())
}

/// Folders of plugin crates, sorted.
fn plugin_folders(plugins_dir: &Path) -> Result<Vec<String>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(plugins_dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != "components" && entry.path().join("Cargo.toml").is_file() {
            folders.push(name);
        }
    }
    folders.sort();
    ensure!(!folders.is_empty(), "no plugin crates in {}", plugins_dir.display());
    Ok(folders)
}

fn watch(plugins_dir: &Path, plugins: &[String]) {
    for folder in plugins {
        println!("cargo::rerun-if-changed={}", plugins_dir.join(folder).display());
    }
    for (folder, _) in EXAMPLES {
        println!("cargo::rerun-if-changed={}", plugins_dir.join("examples").join(folder).display());
    }
    for shared in ["wit", "crates/model/src", "crates/framework/src", "crates/builtins/src", "crates/sdk/src"] {
        println!("cargo::rerun-if-changed={}", plugins_dir.join("..").join(shared).display());
    }
}

fn compile<'a>(plugins_dir: &Path, plugins: impl Iterator<Item = &'a Plugin>, target_dir: &Path) -> Result<()> {
    let mut cargo = Command::new(env::var("CARGO")?);
    cargo.current_dir(plugins_dir).args(["build", "--release", "--locked", "--target", TARGET, "--target-dir"]);
    cargo.arg(target_dir);
    for plugin in plugins {
        cargo.args(["--package", &plugin.package]);
    }
    // What the outer build was given is meant for the host, not for wasm.
    for inherited in ["RUSTFLAGS", "CARGO_TARGET_DIR", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET"]
    {
        cargo.env_remove(inherited);
    }
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-feature=+simd128");
    // Line tables would make a component fifty times as large, and every start read them.
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "false").env("CARGO_PROFILE_RELEASE_STRIP", "true");
    let output = cargo.output().context("starting cargo for the plugins")?;
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

fn componentize(module: &Path) -> Result<Vec<u8>> {
    let module = fs::read(module)?;
    ComponentEncoder::default().module(&module)?.validate(true).encode()
}

/// `node-affinity` is the folder of `NodeAffinity`.
fn pascal_case(folder: &str) -> String {
    let mut name = String::new();
    for word in folder.split('-') {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}
