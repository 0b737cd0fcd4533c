//! The languages, and the way to build and load a plugin in each of them.

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
    /// The name for people.
    pub name: &'static str,
    /// The folder in `sdks/`, which is also the ending of plugins' folders and the value of `berth plugin new --lang`.
    pub folder: &'static str,
}

/// The languages with a separate toolchain. Rust's toolchain is part of the repository.
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
    /// Whether the language's tools are installed. Without them, nothing can be tested. The run then fails if
    /// `BERTH_LANGUAGES` names the language: the variable is `all`, or folders with commas between them.
    ///
    /// # Errors
    /// The tools are missing, but are required.
    pub fn is_present(self) -> Result<bool> {
        let script = folder("sdks").join(self.folder).join("toolchain.sh");
        let check = Command::new(script).arg("--check").status();
        let is_present =
            check.with_context(|| format!("cannot start the check of {}'s toolchain", self.name))?.success();
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
/// The script fails. The error contains its output.
pub fn build(plugin: &Path, name: &str) -> Result<Vec<u8>> {
    let mut script = Command::new(plugin.join("build.sh"));
    // The variables of the outer cargo are meant for the host.
    for (variable, _) in env::vars_os() {
        let is_cargos = variable.to_string_lossy().starts_with("CARGO_") && variable != "CARGO_HOME";
        if is_cargos || variable == "RUSTFLAGS" {
            script.env_remove(variable);
        }
    }
    let output = script.output().with_context(|| format!("cannot start {}", plugin.join("build.sh").display()))?;
    let text = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{}:\n{}", plugin.display(), String::from_utf8_lossy(&text));
    let component = plugin.join("build").join(format!("{name}.wasm"));
    fs::read(&component).with_context(|| format!("cannot read {}", component.display()))
}

/// Loads a component with the scheduler's own limits, at some time of day.
///
/// # Errors
/// The reason why the host refuses the component.
pub fn load(name: &str, component: impl Into<Vec<u8>>) -> Result<ComponentFactory> {
    let engine = Engine::new(EngineOptions::default())?;
    engine.set_now(1_700_000_000_000);
    Ok(engine.load(&Binary::new(name, component.into()))?)
}
