//! The plugins directory: each file `NAME.wasm` in this directory is a plugin, and changes are noticed.
//!
//! A file is loaded once it has stopped changing: two passes that are [`SETTLE`] apart find the same file. The watch
//! covers the directory's entries. The watch notices files that are written, renamed, replaced, deleted or linked in
//! the directory, even if all files are links into a directory that is itself replaced. The watch does not notice a
//! change of a link's target in another directory. Bytes with the same digest as before cause no event, unless the
//! files beside the plugin's file have changed: an [`Admission`] may need signatures before a file is compiled.
//!
//! The watch's own thread examines the directory. Other threads read and compile files, several at a time. Each file is
//! loaded no more often than `load_rate` allows. Files are first tried with little effort (`attempts`), so that no file
//! waits for a file that compiles slowly.

mod admission;
mod attempts;
mod error;
mod file_load;
mod files;
mod known;
mod load_rate;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    },
    time::{Duration, Instant},
};

use berth_model::Digest;
use notify::Watcher as _;

pub(crate) use self::known::LONGEST_WAIT;
pub use self::{
    admission::{Admission, Approval, Candidate},
    error::{FileError, NotAdmitted},
};
use self::{
    attempts::Attempts,
    file_load::{FileLoad, Found, LoadEnd, Loader, Spent},
    files::{Fingerprint, identity, list},
    known::{Failures, Known},
    load_rate::LoadRates,
};
use berth_wasm_host::{ComponentFactory, Engine, LoadEffort, on_one_line};

/// The time for which a file must not change: longer than any pause of a program that writes it.
const SETTLE: Duration = Duration::from_millis(250);

/// The time between two checks that the watched directory has not been replaced.
const RECHECK: Duration = Duration::from_secs(2);

/// The size in bytes above which files are read one at a time, because each file is in memory as a whole.
const LARGE: u64 = 8 << 20;

/// A directory of plugins, and its content at the last pass.
#[derive(Debug)]
pub struct PluginsDirectory {
    loader: Loader,
    known: BTreeMap<String, Known>,
    /// The files that differed from the known files in the last pass; `None` is a deleted file.
    unsettled: BTreeMap<String, Option<Fingerprint>>,
    /// The files that are being loaded, in their state at the start of the load.
    loading: BTreeMap<String, Loading>,
    rates: LoadRates,
}

/// The function that is called for each change, on the thread that has found it.
type Sink = Arc<Mutex<dyn FnMut(DirectoryEvent) + Send>>;

/// The threads that load files, and the files that they have loaded since the last pass.
struct Loads {
    attempts: Attempts,
    sink: Sink,
    loaded: Arc<Mutex<BTreeMap<String, LoadEnd>>>,
    /// Wakes the thread that examines the directory. The other end no longer exists once the watch is dropped.
    wake: Weak<SyncSender<()>>,
}

#[derive(Debug)]
struct Loading {
    fingerprint: Fingerprint,
    /// The failures in a row before this load.
    failures: Failures,
    began: Instant,
    spent: Spent,
    /// Whether the file must be loaded once more.
    again: bool,
}

/// A change in the directory.
#[derive(Debug)]
pub struct DirectoryEvent {
    /// The file's name without `.wasm`; control characters in it are escaped.
    pub name: String,
    pub change: DirectoryChange,
}

#[derive(Debug)]
pub enum DirectoryChange {
    /// A new plugin, or a new version of a plugin, ready to be built.
    Loaded {
        factory: Arc<ComponentFactory>,
        approval: Approval,
    },
    /// A new file that is not a plugin. The previous version should continue to serve.
    Refused {
        /// The digest of the file's bytes; `None` if the file could not be read.
        digest: Option<Digest>,
        error: FileError,
    },
    Removed,
}

#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error("the plugins directory {dir} cannot be watched")]
    Watch { dir: PathBuf, source: notify::Error },
    #[error("cannot start a thread to watch the plugins directory")]
    Thread(#[source] io::Error),
}

/// A watch that lasts until this value is dropped.
#[derive(Debug)]
pub struct DirectoryWatch {
    wake: Arc<SyncSender<()>>,
    forgotten: Arc<Mutex<BTreeSet<String>>>,
    /// The thread ends when this value is dropped, because the thread has only a weak reference.
    _watcher: Arc<Mutex<notify::RecommendedWatcher>>,
}

impl DirectoryWatch {
    /// Reads and loads a file again, even without a change. A missing file causes no event.
    pub fn reload(&self, name: &str) {
        self.forgotten.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        // If a wake-up is already waiting, the thread has not started its pass yet.
        let _ = self.wake.try_send(());
    }
}

impl PluginsDirectory {
    #[must_use]
    pub fn new(engine: Engine, dir: impl Into<PathBuf>) -> Self {
        let loader = Loader { engine, admission: None, dir: dir.into() };
        let (known, unsettled, loading) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { loader, known, unsettled, loading, rates: LoadRates::default() }
    }

    /// Lets this admission decide which files are compiled.
    #[must_use]
    pub fn with_admission(self, admission: Arc<dyn Admission>) -> Self {
        Self { loader: Loader { admission: Some(admission), ..self.loader }, ..self }
    }

    /// The path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.loader.dir
    }

    /// The names of all plugins in the directory. [`Self::watch`] then loads the plugins without waiting for the files
    /// to settle.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn expect(&mut self) -> io::Result<Vec<String>> {
        let files = list(&self.loader.dir, self.loader.companions())?;
        let names = files.keys().map(|name| on_one_line(name.clone())).collect();
        self.unsettled = files.into_iter().map(|(name, file)| (name, Some(file))).collect();
        Ok(names)
    }

    /// Loads all plugins in the directory, and returns the results by name. Only callers that can wait should call
    /// this.
    ///
    /// # Errors
    /// The directory cannot be listed, or there are no threads to load files.
    pub fn scan(&mut self) -> io::Result<Vec<DirectoryEvent>> {
        let found = Arc::new(Mutex::new(Vec::new()));
        let collected = Arc::clone(&found);
        let collect = move |event| collected.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        let loads = Loads::start(Arc::new(Mutex::new(collect)), Weak::new())?;
        for (name, fingerprint) in list(&self.loader.dir, self.loader.companions())? {
            self.load(name, fingerprint, Instant::now(), &loads);
        }
        loads.attempts.wait_for_all();
        self.take_loaded(Instant::now(), &loads);
        let mut found = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
        found.sort_by(|one: &DirectoryEvent, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// Watches the directory on its own threads. The threads call `sink` for every change since [`Self::scan`], one at
    /// a time. `sink` must not block for long, because further changes wait for it.
    ///
    /// # Errors
    /// The directory does not exist, or the system offers no more watches.
    pub fn watch(self, sink: impl FnMut(DirectoryEvent) + Send + 'static) -> Result<DirectoryWatch, DirectoryError> {
        // One waiting wake-up is enough, because a pass covers the whole directory.
        let (wake, woken) = mpsc::sync_channel(1);
        let wake = Arc::new(wake);
        let watch_wake = Arc::clone(&wake);
        // Any event causes a pass. The kind of event does not matter, because events of a file that is replaced and
        // immediately deleted would cancel out.
        let on_event = move |result: notify::Result<notify::Event>| {
            // The passes open files themselves, which must not wake the next pass.
            if !result.is_ok_and(|event| event.kind.is_access()) {
                let _ = watch_wake.try_send(());
            }
        };
        let dir = self.loader.dir.clone();
        let watch = |source| DirectoryError::Watch { dir: dir.clone(), source };
        let mut watcher = notify::recommended_watcher(on_event).map_err(watch)?;
        let watched = identity(&dir);
        watcher.watch(&dir, notify::RecursiveMode::NonRecursive).map_err(watch)?;
        let watcher = Arc::new(Mutex::new(watcher));
        let post = Post { woken, watcher: Arc::downgrade(&watcher), watched };
        let forgotten = Arc::default();
        let to_forget = Arc::clone(&forgotten);
        let loads = Loads::start(Arc::new(Mutex::new(sink)), Arc::downgrade(&wake)).map_err(DirectoryError::Thread)?;
        berth_threads::spawn_background("plugins-directory", move || self.run(post, &to_forget, &loads))
            .map_err(DirectoryError::Thread)?;
        Ok(DirectoryWatch { wake, forgotten, _watcher: watcher })
    }

    fn run(mut self, mut post: Post, to_forget: &Mutex<BTreeSet<String>>, loads: &Loads) {
        loop {
            for name in std::mem::take(&mut *to_forget.lock().unwrap_or_else(PoisonError::into_inner)) {
                self.forget(&name);
            }
            self.pass(Instant::now(), loads);
            let is_settled = self.unsettled.is_empty();
            let goes_on =
                if is_settled { post.wait(&self.loader.dir, self.next_due()) } else { wait_out(&post.woken, SETTLE) };
            if !goes_on {
                return;
            }
        }
    }

    /// The earliest time at which a file that could not be loaded is tried again.
    fn next_due(&self) -> Option<Instant> {
        let waiting = self.known.iter().filter(|(name, _)| !self.loading.contains_key(*name));
        waiting.filter_map(|(_, known)| known.due()).min()
    }

    /// Marks a file to be loaded again, whether it is known or still being loaded.
    fn forget(&mut self, name: &str) {
        if let Some(loading) = self.loading.get_mut(name) {
            loading.again = true;
        }
        if let Some(known) = self.known.get_mut(name) {
            *known = Known::Forgotten;
        }
    }

    fn pass(&mut self, now: Instant, loads: &Loads) {
        self.take_loaded(now, loads);
        let files = match list(&self.loader.dir, self.loader.companions()) {
            Ok(files) => files,
            Err(error) => {
                tracing::warn!(dir = %self.loader.dir.display(), "failed to list the plugins directory: {error}");
                return;
            }
        };
        let seen = files.keys().chain(self.known.keys()).chain(self.unsettled.keys()).chain(self.loading.keys());
        let names: BTreeSet<String> = seen.cloned().collect();
        for name in names {
            let file = files.get(&name).copied();
            self.look_at(name, file, now, loads);
        }
    }

    /// Records the files that have been loaded.
    fn take_loaded(&mut self, now: Instant, loads: &Loads) {
        for (name, end) in loads.take() {
            let Some(loading) = self.loading.remove(&name) else { continue };
            let Loading { fingerprint, failures, began, spent, again } = loading;
            self.rates.loaded(&name, began, spent.total());
            let known = if again { Known::Forgotten } else { Known::after(end, fingerprint, failures, now) };
            self.known.insert(name, known);
        }
    }

    /// Handles a file with the current state `file`.
    fn look_at(&mut self, name: String, file: Option<Fingerprint>, now: Instant, loads: &Loads) {
        let before = self.unsettled.remove(&name);
        let is_known = match (file, self.loading.get(&name), self.known.get(&name)) {
            (file, Some(loading), _) => Some(loading.fingerprint) == file && !loading.again,
            (Some(file), None, Some(known)) => known.is_current(file, now),
            (file, None, known) => file.is_none() && known.is_none(),
        };
        if is_known {
            return;
        }
        let must_wait = file.is_some() && !self.rates.may_load(&name, now);
        // The file waits while a thread works on an earlier version of it.
        if before != Some(file) || must_wait || !loads.attempts.withdraw(&name) || loads.has_loaded(&name) {
            self.unsettled.insert(name, file);
            return;
        }
        if let Some(Loading { began, spent, again, .. }) = self.loading.remove(&name) {
            self.rates.loaded(&name, began, spent.total());
            if again {
                self.known.insert(name.clone(), Known::Forgotten);
            }
        }
        if let Some(fingerprint) = file {
            self.load(name, fingerprint, now, loads);
        } else {
            self.known.remove(&name);
            loads.tell(DirectoryEvent { name: on_one_line(name), change: DirectoryChange::Removed });
        }
    }

    /// Starts to load a file.
    fn load(&mut self, name: String, fingerprint: Fingerprint, now: Instant, loads: &Loads) {
        let known = self.known.get(&name);
        let failures = known.map_or_else(Failures::default, |known| known.failures(fingerprint));
        let is_ordered = matches!(known, Some(Known::Forgotten));
        let content = match known {
            Some(Known::Content { content, .. }) => Some(content.clone()),
            Some(Known::Failed { .. } | Known::Forgotten) | None => None,
        };
        let load = FileLoad::new(self.loader.clone(), name.clone(), content, is_ordered);
        self.loading.insert(name, Loading { fingerprint, failures, began: now, spent: load.spent(), again: false });
        loads.start_load(load, fingerprint.size());
    }
}

impl Loads {
    fn start(sink: Sink, wake: Weak<SyncSender<()>>) -> io::Result<Self> {
        let attempts = Attempts::start(LoadEffort::small_at_a_time())?;
        Ok(Self { attempts, sink, loaded: Arc::default(), wake })
    }

    fn start_load(&self, mut load: FileLoad, size: u64) {
        let (sink, loaded, wake) = (Arc::clone(&self.sink), Arc::clone(&self.loaded), Weak::clone(&self.wake));
        let name = load.name().to_owned();
        let work = move |effort| {
            let Some(Found { change, end }) = load.attempt(effort) else { return ControlFlow::Continue(()) };
            if let Some(change) = change {
                let name = on_one_line(load.name().to_owned());
                tell(&sink, DirectoryEvent { name, change });
            }
            loaded.lock().unwrap_or_else(PoisonError::into_inner).insert(load.name().to_owned(), end);
            if let Some(wake) = wake.upgrade() {
                let _ = wake.try_send(());
            }
            ControlFlow::Break(())
        };
        self.attempts.add(name, size > LARGE, Box::new(work));
    }

    fn tell(&self, event: DirectoryEvent) {
        tell(&self.sink, event);
    }

    fn take(&self) -> BTreeMap<String, LoadEnd> {
        std::mem::take(&mut *self.loaded.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the file has been loaded since the last [`Self::take`].
    fn has_loaded(&self, name: &str) -> bool {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).contains_key(name)
    }
}

fn tell(sink: &Sink, event: DirectoryEvent) {
    sink.lock().unwrap_or_else(PoisonError::into_inner)(event);
}

/// Wakes the thread that examines the directory.
struct Post {
    woken: Receiver<()>,
    watcher: Weak<Mutex<notify::RecommendedWatcher>>,
    /// The directory that the watcher watches; `None` while no directory has the name.
    watched: Option<(u64, u64)>,
}

impl Post {
    /// Waits until something may have changed, or until a file is due; false once the watch is dropped. A watch does
    /// not follow the directory's name: if another directory gets the name, this other directory is watched instead.
    fn wait(&mut self, dir: &Path, due: Option<Instant>) -> bool {
        loop {
            let until_due = due.map_or(RECHECK, |due| due.saturating_duration_since(Instant::now()));
            match self.woken.recv_timeout(RECHECK.min(until_due)) {
                Ok(()) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if due.is_some_and(|due| due <= Instant::now()) {
                return true;
            }
            let found = identity(dir);
            if found == self.watched {
                continue;
            }
            let Some(watcher) = self.watcher.upgrade() else { return false };
            let mut watcher = watcher.lock().unwrap_or_else(PoisonError::into_inner);
            // The old directory and its watch may have been removed.
            let _ = watcher.unwatch(dir);
            self.watched = found.filter(|_| watcher.watch(dir, notify::RecursiveMode::NonRecursive).is_ok());
            return true;
        }
    }
}

/// Waits for the whole `duration`; false once the watch is dropped.
fn wait_out(woken: &Receiver<()>, duration: Duration) -> bool {
    let end = Instant::now() + duration;
    loop {
        match woken.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

#[cfg(test)]
mod tests;
