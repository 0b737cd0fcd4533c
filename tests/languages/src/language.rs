//! The languages, and how a plugin in one of them is built.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

/// A language with an SDK in `sdks/`.
#[derive(Clone, Copy, Debug)]
pub struct Language {
    /// For people.
    pub name: &'static str,
    /// The folder in `sdks/`, and what folders of plugins end in.
    pub folder: &'static str,
}

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
    #[must_use]
    pub fn sdk(self) -> PathBuf {
        folder("sdks").join(self.folder)
    }

    /// Whether its tools are installed. Without them nothing can be tested; that fails a run that is to test all.
    ///
    /// # Errors
    /// When the tools are missing and `BERTH_LANGUAGES` is `all`.
    pub fn is_present(self) -> Result<bool> {
        let check = Command::new(self.sdk().join("toolchain.sh")).arg("--check").status();
        let is_present = check.with_context(|| format!("starting the check of {}'s toolchain", self.name))?.success();
        let must = env::var("BERTH_LANGUAGES").is_ok_and(|value| value == "all");
        ensure!(is_present || !must, "{} toolchain absent; run cargo xtask languages", self.name);
        Ok(is_present)
    }

    /// Makes a plugin from the language's template, as `berth plugin new` does: the template with its placeholders
    /// filled in, and in `berth/` the SDK and the contract.
    ///
    /// # Errors
    /// When a file can't be read or written.
    pub fn instantiate(self, name: &str, plugin: &Path) -> Result<()> {
        copy(&self.sdk().join("template"), plugin, &|text| text.replace("{{name}}", name))?;
        let berth = plugin.join("berth");
        fs::create_dir_all(&berth)?;
        for entry in fs::read_dir(self.sdk())? {
            let entry = entry?;
            if entry.file_name() != "template" {
                copy(&entry.path(), &berth.join(entry.file_name()), &|text| text)?;
            }
        }
        copy(&folder("wit"), &berth.join("wit"), &|text| text)
    }
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

/// Copies a file or a folder, leaving out what builds leave behind.
fn copy(from: &Path, to: &Path, edit: &dyn Fn(String) -> String) -> Result<()> {
    const LEFT_BEHIND: [&str; 4] = ["build", "node_modules", "__pycache__", "target"];
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            if !LEFT_BEHIND.iter().any(|left| name == *left) {
                copy(&from.join(&name), &to.join(&name), edit)?;
            }
        }
        return Ok(());
    }
    fs::copy(from, to)?;
    let text = fs::read_to_string(from).with_context(|| format!("reading {}", from.display()))?;
    let edited = edit(text.clone());
    if edited != text {
        fs::write(to, edited)?;
    }
    Ok(())
}
