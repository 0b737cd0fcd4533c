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

fn main() -> Result<()> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let plugins_dir = here.parent().context("plugins/components has no parent folder")?;
    let plugins = plugin_folders(plugins_dir)?;
    watch(plugins_dir, &plugins);
    // One place for all profiles of the host: the components are the same in each.
    let target_dir = out.ancestors().nth(4).context("OUT_DIR is not inside a target directory")?.join("components");
    compile(plugins_dir, &plugins, &target_dir)?;
    let mut listing = String::from(
        "/// Every built-in component, sorted by name.\npub const COMPONENTS: &[EmbeddedComponent] = &[\n",
    );
    for folder in &plugins {
        let module = target_dir.join(TARGET).join("release").join(format!("berth_{}.wasm", folder.replace('-', "_")));
        let name = pascal_case(folder);
        let component = componentize(&module).with_context(|| format!("componentizing {}", module.display()))?;
        let path = out.join(format!("{name}.wasm"));
        fs::write(&path, component)?;
        writeln!(listing, "    EmbeddedComponent {{ name: {name:?}, bytes: include_bytes!({path:?}) }},")?;
    }
    listing.push_str("];\n");
    fs::write(out.join("components.rs"), listing)?;
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
    for shared in ["wit", "crates/model/src", "crates/framework/src", "crates/builtins/src", "crates/sdk/src"] {
        println!("cargo::rerun-if-changed={}", plugins_dir.join("..").join(shared).display());
    }
}

fn compile(plugins_dir: &Path, plugins: &[String], target_dir: &Path) -> Result<()> {
    let mut cargo = Command::new(env::var("CARGO")?);
    cargo.current_dir(plugins_dir).args(["build", "--release", "--locked", "--target", TARGET, "--target-dir"]);
    cargo.arg(target_dir);
    for folder in plugins {
        cargo.args(["--package", &format!("berth-{folder}")]);
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
