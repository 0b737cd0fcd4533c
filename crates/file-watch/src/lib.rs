//! Files that are read again whenever they change.
//!
//! The files' directories are watched, because a file may be replaced. In a mounted ConfigMap or Secret, a file is a
//! link into a directory that Kubernetes replaces. Only the content of the files is compared, so a new time stamp is
//! not a change.

use std::{
    collections::BTreeSet,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::{Path, PathBuf},
    time::Duration,
};

use notify_debouncer_full::{
    DebounceEventResult, Debouncer, RecommendedCache, new_debouncer,
    notify::{self, RecommendedWatcher, RecursiveMode},
};

/// The time without events after which the files are read. It is longer than any pause of a program that writes a file.
const SETTLE: Duration = Duration::from_millis(250);

/// A watch of files. It ends when this value is dropped.
pub struct FileWatch {
    _debouncer: Debouncer<RecommendedWatcher, RecommendedCache>,
}

impl std::fmt::Debug for FileWatch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("FileWatch").finish_non_exhaustive()
    }
}

/// Calls `changed` on its own thread when the content of these files has changed.
///
/// # Errors
/// A directory cannot be watched.
pub fn watch(files: Vec<PathBuf>, mut changed: impl FnMut() + Send + 'static) -> Result<FileWatch, notify::Error> {
    let dirs: BTreeSet<PathBuf> = files.iter().map(|file| directory(file)).collect();
    let mut known = contents(&files);
    let on_change = move |result: DebounceEventResult| {
        // A read of a file causes an event, too. Such an event is not a change.
        if result.is_ok_and(|events| events.iter().all(|event| event.kind.is_access())) {
            return;
        }
        let new = contents(&files);
        if new != known {
            known = new;
            changed();
        }
    };
    let mut debouncer = new_debouncer(SETTLE, None, on_change)?;
    for dir in dirs {
        debouncer.watch(&dir, RecursiveMode::NonRecursive)?;
    }
    Ok(FileWatch { _debouncer: debouncer })
}

fn directory(file: &Path) -> PathBuf {
    match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir.to_owned(),
        Some(_) | None => PathBuf::from("."),
    }
}

/// The content of the files, in a form that contains no secrets.
fn contents(files: &[PathBuf]) -> Vec<Option<u64>> {
    let hash = |file: &PathBuf| {
        let mut hasher = DefaultHasher::new();
        fs::read(file).ok()?.hash(&mut hasher);
        Some(hasher.finish())
    };
    files.iter().map(hash).collect()
}
