//! The languages, and how a plugin in one of them is built and loaded.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use berth_wasm_host::{Binary, ComponentFactory, Engine, EngineOptions};

/// A language with an SDK.
#[derive(Clone, Copy, Debug)]
pub struct Language {
    /// For people.
    pub name: &'static str,
    /// The folder in `sdks/`, what folders of plugins end in, and what `berth plugin new --lang` takes.
    pub folder: &'static str,
}

/// Those with a toolchain of their own. Rust's comes with the repository.
pub const LANGUAGES: [Language; 4] = [
    Language { name: "C", folder: "c" },
    Language { name: "Python", folder: "python" },
    Language { name: "JavaScript", folder: "js" },
    Language { name: "Go", folder: "go" },
];

/// A folder of the repository.
#[must_use]
pub fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

impl Language {
    /// Whether its tools are installed. Without them nothing can be tested; that fails a run in which `BERTH_LANGUAGES`
    /// names the language: `all`, or folders with commas between.
    ///
    /// # Errors
    /// When the tools are missing and must be there.
    pub fn is_present(self) -> Result<bool> {
        let script = folder("sdks").join(self.folder).join("toolchain.sh");
        let check = Command::new(script).arg("--check").status();
        let is_present = check.with_context(|| format!("starting the check of {}'s toolchain", self.name))?.success();
        ensure!(is_present || !is_required(self.folder), "{} toolchain absent; run cargo xtask languages", self.name);
        Ok(is_present)
    }
}

/// Whether `BERTH_LANGUAGES` names a language.
fn is_required(folder: &str) -> bool {
    env::var("BERTH_LANGUAGES").is_ok_and(|named| named.split(',').any(|name| name == "all" || name == folder))
}

/// Runs the build script of a plugin's folder.
///
/// # Errors
/// What the script printed, when it fails.
pub fn build(plugin: &Path, name: &str) -> Result<Vec<u8>> {
    let mut script = Command::new(plugin.join("build.sh"));
    // What the outer cargo was given is meant for the host.
    for (variable, _) in env::vars_os() {
        let is_cargos = variable.to_string_lossy().starts_with("CARGO_") && variable != "CARGO_HOME";
        if is_cargos || variable == "RUSTFLAGS" {
            script.env_remove(variable);
        }
    }
    let output = script.output().with_context(|| format!("starting {}", plugin.join("build.sh").display()))?;
    let text = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{}:\n{}", plugin.display(), String::from_utf8_lossy(&text));
    let component = plugin.join("build").join(format!("{name}.wasm"));
    fs::read(&component).with_context(|| format!("reading {}", component.display()))
}

/// Loads a component under the scheduler's own limits, at some time of day.
///
/// # Errors
/// Why the host refuses it.
pub fn load(name: &str, component: impl Into<Vec<u8>>) -> Result<ComponentFactory> {
    let engine = Engine::new(EngineOptions::default())?;
    engine.set_now(1_700_000_000_000);
    Ok(engine.load(&Binary::new(name, component.into()))?)
}
