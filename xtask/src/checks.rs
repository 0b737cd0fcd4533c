//! The checks of the gate besides tests, one file for each check.

mod builds;
mod circles;
mod dependencies;
mod directions;
mod documentation;
mod environment;
mod files;
mod guide;
mod module_tree;
mod packages;
mod threat_model;
mod workflows;

use anyhow::{Result, ensure};

use crate::{cargo, setup};

/// Runs all checks: formatting, the checks that read only the sources, lints, and documentation.
pub(crate) fn all() -> Result<()> {
    setup()?;
    cargo(&["fmt", "--all", "--check"])?;
    tidy()?;
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])?;
    documentation::check()
}

/// Runs the checks that read only the sources and the manifests.
pub(crate) fn tidy() -> Result<()> {
    let packages = packages::all()?;
    let complaints = [
        builds::check()?,
        dependencies::check(&packages)?,
        directions::check()?,
        environment::check(&packages)?,
        files::check(&packages)?,
        guide::check()?,
        circles::check(&packages)?,
        threat_model::check()?,
        workflows::check()?,
    ]
    .concat();
    ensure!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
    Ok(())
}
