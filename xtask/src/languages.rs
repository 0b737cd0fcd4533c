//! Plugins in other languages: installing their tools, and testing what they build.

use std::{env, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::{run_with, setup};

/// The SDKs, by their folders in `sdks/`.
const SDKS: [&str; 4] = ["c", "python", "js", "go"];

/// Installs what is missing for the languages named, or for all, and runs their tests.
pub(crate) fn languages(named: &[String]) -> Result<()> {
    setup()?;
    let known: Vec<&str> =
        SDKS.into_iter().filter(|sdk| named.is_empty() || named.iter().any(|name| name == sdk)).collect();
    ensure!(named.len() <= known.len(), "languages are: {}", SDKS.join(", "));
    for sdk in &known {
        let script = Path::new("sdks").join(sdk).join("toolchain.sh");
        eprintln!("{}", script.display());
        let status = Command::new(&script).status().with_context(|| format!("starting {}", script.display()))?;
        ensure!(status.success(), "{} failed", script.display());
    }
    // The usual selection of packages: another one builds wasmtime once more.
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let filters: Vec<String> = known.iter().map(|sdk| format!("::{sdk}")).collect();
    let mut arguments = vec!["test", "--locked", "--test", "languages", "--"];
    if !named.is_empty() {
        arguments.extend(filters.iter().map(String::as_str));
    }
    let required = if named.is_empty() { "all" } else { "present" };
    run_with(&cargo, &arguments, &[("BERTH_LANGUAGES", required)])
}
