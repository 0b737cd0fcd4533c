//! What the gate checks besides tests, a file for each check.

mod circles;
mod directions;
mod documentation;
mod files;
mod module_tree;
mod packages;
mod threat_model;

use anyhow::{Result, ensure};

use crate::{cargo, setup};

/// Formatting, what reads the sources alone, lints, and documentation.
pub(crate) fn all() -> Result<()> {
    setup()?;
    cargo(&["fmt", "--all", "--check"])?;
    tidy()?;
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])?;
    documentation::check()
}

/// The checks that read the sources and the manifests alone.
pub(crate) fn tidy() -> Result<()> {
    let packages = packages::all()?;
    let complaints =
        [directions::check()?, files::check(&packages)?, circles::check(&packages)?, threat_model::check()?].concat();
    ensure!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
    Ok(())
}
