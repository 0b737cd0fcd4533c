//! `berth plugin dev`: builds and replaces the plugin at every change of the sources, and reports the scheduler's
//! reaction.

mod opinion;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use berth_config::Usage;
use berth_serving::admin_socket;
use clap::Args;
use notify_debouncer_full::{
    DebounceEventResult, DebouncedEvent, Debouncer, RecommendedCache, new_debouncer,
    notify::{RecommendedWatcher, RecursiveMode},
};

use self::opinion::StatusWatcher;
use super::{build, project};
use crate::option_value::unless_empty;

/// Editors write a file in several steps.
const QUIET: Duration = Duration::from_millis(300);

/// The time between two questions to the scheduler about the plugin.
const ASK: Duration = Duration::from_millis(500);

/// The folders that builds write into.
const BUILT: [&str; 5] = ["build", "target", "node_modules", "__pycache__", ".git"];

/// Extensions of files that a project may contain and that no build reads: logs, cases, configurations, texts.
const NOT_BUILT_FROM: [&str; 5] = ["log", "yaml", "yml", "kubeconfig", "md"];

#[derive(Args, Debug)]
pub struct Dev {
    /// The plugin's folder
    #[arg(default_value = ".", value_name = "DIR")]
    dir: PathBuf,
    /// The plugins directory of a running scheduler: `berth sandbox --plugins-dir DIR` in another terminal
    #[arg(long, value_name = "DIR")]
    plugins_dir: PathBuf,
    /// The scheduler's --admin-socket, to show whether the scheduler accepts the plugin [default: the socket of this
    /// user's scheduler]
    #[arg(long, env = unless_empty("BERTH_ADMIN_SOCKET"), value_name = "PATH")]
    socket: Option<PathBuf>,
}

pub(crate) fn run(dev: &Dev) -> Result<()> {
    let dir = folder("", &dev.dir)?;
    let plugins_dir = folder("--plugins-dir ", &dev.plugins_dir)?;
    if plugins_dir.starts_with(&dir) {
        let (option, project) = (dev.plugins_dir.display(), dir.display());
        let text = format!(
            "--plugins-dir {option}: lies inside the plugin's folder {project}; name the --plugins-dir of the \
             scheduler, outside of this folder"
        );
        return Err(Usage(text).into());
    }
    let socket = dev.socket.clone().unwrap_or_else(admin_socket::default_path);
    let (changed, changes) = mpsc::channel();
    let _watch = watch(&dir, changed)?;
    loop {
        let watcher = match swap_in(&dir, &plugins_dir) {
            Ok(Swapped { name, digest, file }) => {
                eprintln!("{} is in place; waiting for changes of {}", file.display(), dir.display());
                Some(StatusWatcher::new(socket.clone(), name, digest)?)
            }
            Err(error) => {
                eprintln!("not swapped: {error:#}\nwaiting for changes of {}", dir.display());
                None
            }
        };
        await_change(&changes, watcher)?;
    }
}

/// The folder's full path.
fn folder(option: &str, path: &Path) -> Result<PathBuf> {
    if !path.is_dir() {
        return Err(Usage(format!("{option}{}: folder not found", path.display())).into());
    }
    path.canonicalize().with_context(|| format!("cannot find {}", path.display()))
}

/// Sends a message for every change of the sources, until the result is dropped.
fn watch(dir: &Path, changed: mpsc::Sender<()>) -> Result<Debouncer<RecommendedWatcher, RecommendedCache>> {
    let watched = dir.to_owned();
    let mut debouncer = new_debouncer(QUIET, None, move |result: DebounceEventResult| {
        let is_source = |path: &Path| {
            let inside = path.strip_prefix(&watched).unwrap_or(path);
            let is_built = inside.components().any(|part| BUILT.iter().any(|built| part.as_os_str() == *built));
            let is_read = inside.extension().is_none_or(|extension| !NOT_BUILT_FROM.iter().any(|it| extension == *it));
            !is_built && is_read
        };
        // A build reads the sources, but does not change them.
        let changed_paths = |events: Vec<DebouncedEvent>| {
            let changes = events.into_iter().filter(|event| !event.kind.is_access());
            changes.flat_map(|event| event.event.paths).any(|path| is_source(&path))
        };
        if result.is_ok_and(changed_paths) {
            // The receiver is gone when the command ends.
            let _ = changed.send(());
        }
    })?;
    debouncer.watch(dir, RecursiveMode::Recursive).with_context(|| format!("cannot watch {}", dir.display()))?;
    Ok(debouncer)
}

/// Waits for a change of the sources. During the wait, it prints the scheduler's news about the binary.
fn await_change(changes: &Receiver<()>, mut watcher: Option<StatusWatcher>) -> Result<()> {
    loop {
        match changes.recv_timeout(ASK) {
            Ok(()) => {
                while changes.try_recv().is_ok() {}
                return Ok(());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("the watch ended"),
        }
        if let Some(news) = watcher.as_mut().and_then(StatusWatcher::news) {
            eprintln!("{news}");
        }
    }
}

/// A component in the plugins directory.
struct Swapped {
    name: String,
    /// The digest, in hexadecimal digits.
    digest: String,
    file: PathBuf,
}

/// Builds the component, and moves it into the plugins directory with a rename, so that the scheduler never sees an
/// incomplete file.
fn swap_in(dir: &Path, plugins_dir: &Path) -> Result<Swapped> {
    let component = build::component(dir)?;
    let loaded = project::load(&component)?;
    let name = component.file_name().context("the component's file has no name")?;
    let (part, file) = (plugins_dir.join(".berth-plugin-dev"), plugins_dir.join(name));
    fs::write(&part, loaded.binary.bytes()).with_context(|| format!("cannot write {}", part.display()))?;
    fs::rename(&part, &file).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(Swapped { name: loaded.binary.name().to_owned(), digest: loaded.binary.digest().to_string(), file })
}
