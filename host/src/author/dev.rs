//! `berth plugin dev`: build and swap in at every change of the sources.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::mpsc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use clap::Args;
use notify_debouncer_full::{DebounceEventResult, DebouncedEvent, new_debouncer, notify::RecursiveMode};

use super::build;

/// Editors write a file in several steps.
const QUIET: Duration = Duration::from_millis(300);

/// Folders that builds write into.
const BUILT: [&str; 5] = ["build", "target", "node_modules", "__pycache__", ".git"];

#[derive(Args, Debug)]
pub(crate) struct Dev {
    /// The plugin's folder
    #[arg(default_value = ".", value_name = "DIR")]
    dir: PathBuf,
    /// The plugins directory of a running scheduler: `berth sandbox --plugins-dir DIR` in another terminal
    #[arg(long, value_name = "DIR")]
    plugins_dir: PathBuf,
}

pub(crate) fn run(dev: &Dev) -> Result<()> {
    fs::create_dir_all(&dev.plugins_dir).with_context(|| format!("making {}", dev.plugins_dir.display()))?;
    let dir = dev.dir.canonicalize().with_context(|| format!("finding {}", dev.dir.display()))?;
    let (changed, changes) = mpsc::channel();
    let watched = dir.clone();
    // It may lie inside the plugin's folder; what is put there is no change of the sources.
    let own_output = dev.plugins_dir.canonicalize()?;
    let mut debouncer = new_debouncer(QUIET, None, move |result: DebounceEventResult| {
        let is_source = |path: &Path| {
            if path.starts_with(&own_output) {
                return false;
            }
            let inside = path.strip_prefix(&watched).unwrap_or(path);
            !inside.components().any(|part| BUILT.iter().any(|built| part.as_os_str() == *built))
        };
        // A build reads the sources, which is no change of them.
        let changed_paths = |events: Vec<DebouncedEvent>| {
            let changes = events.into_iter().filter(|event| !event.kind.is_access());
            changes.flat_map(|event| event.event.paths).any(|path| is_source(&path))
        };
        if result.is_ok_and(changed_paths) {
            // The receiver is gone when the command ends.
            let _ = changed.send(());
        }
    })?;
    debouncer.watch(&dir, RecursiveMode::Recursive).with_context(|| format!("watching {}", dir.display()))?;
    loop {
        match swap_in(&dir, &dev.plugins_dir) {
            Ok(file) => eprintln!("{} is in place; waiting for changes of {}", file.display(), dir.display()),
            Err(error) => eprintln!("not swapped: {error:#}\nwaiting for changes of {}", dir.display()),
        }
        changes.recv().context("the watch ended")?;
        while changes.try_recv().is_ok() {}
    }
}

/// Builds, and renames the component into the plugins directory, so that the scheduler never sees half of it.
fn swap_in(dir: &Path, plugins_dir: &Path) -> Result<PathBuf> {
    let component = build::component(dir)?;
    super::project::load(&component)?;
    let name = component.file_name().context("a component without a name")?;
    let (part, file) = (plugins_dir.join(".berth-plugin-dev"), plugins_dir.join(name));
    fs::copy(&component, &part).with_context(|| format!("writing {}", part.display()))?;
    fs::rename(&part, &file).with_context(|| format!("writing {}", file.display()))?;
    Ok(file)
}
