//! Builds every plugin crate beside this crate for wasm, and embeds the components.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use berth_plugin_builder::{Plugin, embed};

fn main() -> Result<()> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let plugins_dir = here.parent().context("plugins/components has no parent folder")?;
    let workspace = plugins_dir.parent().context("plugins has no parent folder")?;
    embed(workspace, "COMPONENTS", "Every built-in component, sorted by name.", &plugins(plugins_dir)?)
}

/// The plugin crates, sorted.
fn plugins(plugins_dir: &Path) -> Result<Vec<Plugin>> {
    let mut plugins = Vec::new();
    for entry in fs::read_dir(plugins_dir)? {
        let entry = entry?;
        let crate_name = entry.file_name().to_string_lossy().into_owned();
        if crate_name != "components" && entry.path().join("Cargo.toml").is_file() {
            let (package, name) = (format!("berth-{crate_name}"), pascal_case(&crate_name));
            plugins.push(Plugin { folder: entry.path(), package, name });
        }
    }
    plugins.sort_by(|one, other| one.package.cmp(&other.package));
    ensure!(!plugins.is_empty(), "no plugin crates in {}", plugins_dir.display());
    Ok(plugins)
}

/// The name of a plugin from its folder: `node-affinity` is the folder of `NodeAffinity`.
fn pascal_case(folder: &str) -> String {
    let mut name = String::new();
    for word in folder.split('-') {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}
