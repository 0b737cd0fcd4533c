//! The plugins directory: each `NAME.wasm` in it is a plugin, and changes are noticed.
//!
//! A file counts once it has stopped changing: it looks the same in two passes that are [`SETTLE`] apart. What is
//! watched are the directory's entries, so files that are written, renamed, replaced, deleted or linked there are
//! noticed, also when all are links into a directory that is itself swapped. A change *behind* a link, in another
//! directory, is not. Bytes with the digest of the version before are no event, unless what lies beside the file changed:
//! a [`Gate`] may want to see signatures before a file is compiled.
//!
//! Reading and compiling happen on the watch's own thread, no more often than `load_rate` allows.

mod gate;
mod load_rate;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    },
    time::{Duration, Instant},
};

use berth_model::Digest;
use notify::Watcher as _;

pub use self::gate::{Approval, Candidate, Gate};
use self::{gate::Companions, load_rate::LoadRates};
use crate::{Binary, ComponentFactory, Engine, LoadError, convert::on_one_line};

/// How long a file must stay the same: longer than any pause of a program that writes it.
const SETTLE: Duration = Duration::from_millis(250);

/// How often it is looked whether the directory is still the one that is watched.
const RECHECK: Duration = Duration::from_secs(2);

/// A directory of plugins, and what was last seen in it.
#[derive(Debug)]
pub struct PluginsDirectory {
    engine: Engine,
    gate: Option<Arc<dyn Gate>>,
    dir: PathBuf,
    known: BTreeMap<String, Known>,
    /// What the last pass saw of files that differ from what is known; `None` is a file that is gone.
    unsettled: BTreeMap<String, Option<Fingerprint>>,
    rates: LoadRates,
}

/// Something changed in the directory.
#[derive(Debug)]
pub struct DirectoryEvent {
    /// The file's name without `.wasm`; control characters in it are escaped.
    pub name: String,
    pub change: DirectoryChange,
}

#[derive(Debug)]
pub enum DirectoryChange {
    /// A new plugin, or a new version of one, ready to be built.
    Loaded {
        factory: Arc<ComponentFactory>,
        approval: Approval,
    },
    /// A new file that is no plugin; what served before should go on.
    Refused {
        /// The digest of the file's bytes; `None` when they could not be read.
        digest: Option<Digest>,
        error: LoadError,
    },
    Removed,
}

#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error("the plugins directory {dir} cannot be watched")]
    Watch { dir: PathBuf, source: notify::Error },
    #[error("no thread to watch the plugins directory")]
    Thread(#[source] io::Error),
}

/// Watches until it is dropped.
#[derive(Debug)]
pub struct DirectoryWatch {
    wake: SyncSender<()>,
    forgotten: Arc<Mutex<BTreeSet<String>>>,
    /// With its end ends the thread, which holds it weakly.
    _watcher: Arc<Mutex<notify::RecommendedWatcher>>,
}

impl DirectoryWatch {
    /// Has a file read and loaded again although it did not change. A file that is not there is no event.
    pub fn reload(&self, name: &str) {
        self.forgotten.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        // A wake-up that waits already comes after this.
        let _ = self.wake.try_send(());
    }
}

#[derive(Debug)]
struct Known {
    /// None if the file is to be read again whatever it looks like.
    fingerprint: Option<Fingerprint>,
    /// None if it is to be loaded whatever it holds.
    content: Option<Content>,
}

/// Tells whether there is anything to do about a file.
type Content = (Option<Digest>, Companions);

/// Tells without reading whether a file may have changed.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct Fingerprint {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// When the inode changed: it tells a file that became readable, or took a deleted file's place.
    changed: (i64, i64),
    /// The same of what lies beside the file, in one number.
    companions: u64,
}

impl PluginsDirectory {
    #[must_use]
    pub fn new(engine: Engine, dir: impl Into<PathBuf>) -> Self {
        let (known, unsettled, rates) = (BTreeMap::new(), BTreeMap::new(), LoadRates::default());
        Self { engine, gate: None, dir: dir.into(), known, unsettled, rates }
    }

    /// Has this gate decide which files are compiled.
    #[must_use]
    pub fn with_gate(self, gate: Arc<dyn Gate>) -> Self {
        Self { gate: Some(gate), ..self }
    }

    /// The names of all that lies in the directory, which [`Self::watch`] loads without waiting for the files to settle.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn expect(&mut self) -> io::Result<Vec<String>> {
        let files = list(&self.dir, self.companions())?;
        let names = files.keys().map(|name| on_one_line(name.clone())).collect();
        self.unsettled = files.into_iter().map(|(name, file)| (name, Some(file))).collect();
        Ok(names)
    }

    /// Loads all that lies in the directory, by name. For those who can wait.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn scan(&mut self) -> io::Result<Vec<DirectoryEvent>> {
        let mut found = Vec::new();
        for (name, fingerprint) in list(&self.dir, self.companions())? {
            if let Some(change) = self.load(&name, fingerprint) {
                found.push(DirectoryEvent { name: on_one_line(name), change });
            }
        }
        Ok(found)
    }

    /// Watches on a thread of its own, which calls `sink` for every change since [`Self::scan`]. `sink` must not block
    /// for long: changes wait for it.
    ///
    /// # Errors
    /// The directory does not exist, or the system offers no more watches.
    pub fn watch(self, sink: impl FnMut(DirectoryEvent) + Send + 'static) -> Result<DirectoryWatch, DirectoryError> {
        // One wake-up in waiting is enough, as a pass looks at everything.
        let (wake, woken) = mpsc::sync_channel(1);
        let watch_wake = wake.clone();
        // Any event is a reason to look. What exactly happened is not asked: a file that is replaced and deleted at once
        // would cancel out.
        let on_event = move |result: notify::Result<notify::Event>| {
            // The passes open files themselves, which must not wake the next pass.
            if !result.is_ok_and(|event| event.kind.is_access()) {
                let _ = watch_wake.try_send(());
            }
        };
        let watch = |source| DirectoryError::Watch { dir: self.dir.clone(), source };
        let mut watcher = notify::recommended_watcher(on_event).map_err(watch)?;
        let watched = identity(&self.dir);
        watcher.watch(&self.dir, notify::RecursiveMode::NonRecursive).map_err(watch)?;
        let watcher = Arc::new(Mutex::new(watcher));
        let post = Post { woken, watcher: Arc::downgrade(&watcher), watched };
        let forgotten = Arc::default();
        let to_forget = Arc::clone(&forgotten);
        berth_threads::spawn_background("plugins-directory", move || self.run(post, &to_forget, sink))
            .map_err(DirectoryError::Thread)?;
        Ok(DirectoryWatch { wake, forgotten, _watcher: watcher })
    }

    fn run(mut self, mut post: Post, to_forget: &Mutex<BTreeSet<String>>, mut sink: impl FnMut(DirectoryEvent)) {
        loop {
            for name in std::mem::take(&mut *to_forget.lock().unwrap_or_else(PoisonError::into_inner)) {
                if let Some(known) = self.known.get_mut(&name) {
                    *known = Known { fingerprint: None, content: None };
                }
            }
            self.pass(Instant::now(), &mut sink);
            let is_settled = self.unsettled.is_empty();
            let goes_on = if is_settled { post.wait(&self.dir) } else { wait_out(&post.woken, SETTLE) };
            if !goes_on {
                return;
            }
        }
    }

    fn pass(&mut self, now: Instant, sink: &mut impl FnMut(DirectoryEvent)) {
        let files = match list(&self.dir, self.companions()) {
            Ok(files) => files,
            Err(error) => {
                tracing::warn!(dir = %self.dir.display(), "the plugins directory cannot be listed: {error}");
                return;
            }
        };
        let names: BTreeSet<String> =
            self.known.keys().chain(files.keys()).chain(self.unsettled.keys()).cloned().collect();
        for name in names {
            let file = files.get(&name).copied();
            if let Some(change) = self.look_at(&name, file, now) {
                sink(DirectoryEvent { name: on_one_line(name), change });
            }
        }
    }

    /// What to tell about a file that now looks like `file`.
    fn look_at(&mut self, name: &str, file: Option<Fingerprint>, now: Instant) -> Option<DirectoryChange> {
        let before = self.unsettled.remove(name);
        let is_known = match (file, self.known.get(name)) {
            (Some(_), Some(known)) => known.fingerprint == file,
            (file, known) => file.is_none() && known.is_none(),
        };
        if is_known {
            return None;
        }
        let must_wait = file.is_some() && !self.rates.may_load(name, now);
        if before != Some(file) || must_wait {
            self.unsettled.insert(name.to_owned(), file);
            return None;
        }
        let Some(fingerprint) = file else {
            self.known.remove(name);
            return Some(DirectoryChange::Removed);
        };
        let start = Instant::now();
        let change = self.load(name, fingerprint);
        self.rates.loaded(name, now, start.elapsed());
        change
    }

    /// The plugin in a file, unless its bytes, and what lies beside it, are those that were there before.
    fn load(&mut self, name: &str, fingerprint: Fingerprint) -> Option<DirectoryChange> {
        let binary = self.read(name);
        let digest = binary.as_ref().ok().map(Binary::digest);
        let companions = Companions::read(&self.dir, name, self.companions());
        let content = Some((digest, companions.clone()));
        let known = Known { fingerprint: Some(fingerprint), content: content.clone() };
        let old = self.known.insert(name.to_owned(), known);
        let binary = match binary {
            Ok(binary) => binary,
            Err(error) => return Some(DirectoryChange::Refused { digest, error }),
        };
        if old.is_some_and(|old| old.content == content) {
            return None;
        }
        Some(match self.admit_and_compile(&binary, &companions) {
            Ok((factory, approval)) => DirectoryChange::Loaded { factory: Arc::new(factory), approval },
            Err(error) => DirectoryChange::Refused { digest, error },
        })
    }

    fn admit_and_compile(
        &self,
        binary: &Binary,
        companions: &Companions,
    ) -> Result<(ComponentFactory, Approval), LoadError> {
        if self.engine.shared().is_denied(binary.digest()) {
            return Err(LoadError::Denied(binary.digest()));
        }
        let approval = match &self.gate {
            None => Approval::default(),
            Some(gate) => gate.admit(Candidate { binary, companions: companions.as_slice() })?,
        };
        Ok((self.engine.load(binary)?, approval))
    }

    fn companions(&self) -> &'static [&'static str] {
        self.gate.as_ref().map_or(&[], |gate| gate.companions())
    }

    fn read(&self, name: &str) -> Result<Binary, LoadError> {
        // It would go on to logs, metrics and lists.
        if name.contains(char::is_control) {
            return Err(LoadError::FileName);
        }
        let path = self.dir.join(format!("{name}.wasm"));
        Ok(Binary::new(name, read_bounded(&path, self.engine.shared().file_limits().max_bytes)?))
    }
}

/// What wakes the thread that looks at the directory.
struct Post {
    woken: Receiver<()>,
    watcher: Weak<Mutex<notify::RecommendedWatcher>>,
    /// The directory that the watcher is at; none while there is none of its name.
    watched: Option<(u64, u64)>,
}

impl Post {
    /// Waits until something may have changed; false once the watch is dropped. A watch does not follow the directory's
    /// name: when another one is there, it is watched again.
    fn wait(&mut self, dir: &Path) -> bool {
        loop {
            match self.woken.recv_timeout(RECHECK) {
                Ok(()) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let found = identity(dir);
            if found == self.watched {
                continue;
            }
            let Some(watcher) = self.watcher.upgrade() else { return false };
            let mut watcher = watcher.lock().unwrap_or_else(PoisonError::into_inner);
            // The old one may be gone, and the watch with it.
            let _ = watcher.unwatch(dir);
            self.watched = found.filter(|_| watcher.watch(dir, notify::RecursiveMode::NonRecursive).is_ok());
            return true;
        }
    }
}

/// Device and inode of the directory of this name.
fn identity(dir: &Path) -> Option<(u64, u64)> {
    fs::metadata(dir).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// The plugin files, by name without `.wasm`. Hidden files are none, links are what they lead to.
fn list(dir: &Path, companions: &[&str]) -> io::Result<BTreeMap<String, Fingerprint>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".wasm"))
        else {
            continue;
        };
        // A file that vanished since, or a link to nowhere, is as good as absent.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if metadata.is_file() && !name.is_empty() && !name.starts_with('.') {
            let mut fingerprint = Fingerprint::of(&metadata);
            fingerprint.companions = fingerprint_of_companions(dir, name, companions);
            files.insert(name.to_owned(), fingerprint);
        }
    }
    Ok(files)
}

/// Tells without reading whether what lies beside a file may have changed.
fn fingerprint_of_companions(dir: &Path, name: &str, companions: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for companion in companions {
        let metadata = fs::metadata(dir.join(format!("{name}.wasm.{companion}"))).ok();
        metadata.as_ref().map(Fingerprint::of).hash(&mut hasher);
    }
    hasher.finish()
}

impl Fingerprint {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            companions: 0,
        }
    }
}

/// The bytes of a regular file that is no larger than `limit`. What is opened is what is looked at: between the listing
/// of the directory and here, a pipe or a device may have taken the file's place.
fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, LoadError> {
    // Otherwise opening a pipe would wait for somebody to write into it.
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(LoadError::Read)?;
    let metadata = file.metadata().map_err(LoadError::Read)?;
    if !metadata.is_file() {
        return Err(LoadError::NotAFile);
    }
    // A sparse file takes no space on disk, but all of its size in memory.
    let too_large = |size| LoadError::TooLarge { size, limit };
    if metadata.len() > limit {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    file.take(limit + 1).read_to_end(&mut bytes).map_err(LoadError::Read)?;
    let size = bytes.len() as u64;
    if size > limit { Err(too_large(size)) } else { Ok(bytes) }
}

/// Lets `duration` pass whatever happens; false once the watch is dropped.
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
mod tests {
    use std::process::Command;

    use super::*;
    use crate::EngineOptions;

    fn directory(dir: &Path, options: EngineOptions) -> PluginsDirectory {
        PluginsDirectory::new(Engine::new(options).expect("an engine"), dir)
    }

    /// What becomes of the one file in a directory.
    fn refusal(directory: &mut PluginsDirectory) -> String {
        let mut events = directory.scan().expect("a folder");
        match (events.pop(), events.is_empty()) {
            (Some(DirectoryEvent { change: DirectoryChange::Refused { error, .. }, .. }), true) => error.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_that_is_too_large_is_not_read() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = fs::File::create(dir.path().join("Sparse.wasm")).expect("a file");
        file.set_len(6 << 30).expect("a sparse file");
        let mut directory = directory(dir.path(), EngineOptions::default());
        assert_eq!(refusal(&mut directory), "has 6442450944 bytes, more than the 134217728 that a plugin may have");
    }

    #[test]
    fn a_file_that_is_rewritten_all_the_time_is_loaded_now_and_then_and_in_the_end() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("Mine.wasm");
        let mut directory = directory(dir.path(), EngineOptions::default());
        let (mut now, mut loaded) = (Instant::now(), Vec::new());
        let mut sink = |DirectoryEvent { change, .. }| match change {
            DirectoryChange::Refused { digest: Some(digest), .. } => loaded.push(digest),
            other => panic!("{other:?}"),
        };
        let mut last = None;
        for version in 0..200_u32 {
            fs::write(&file, format!("version {version}")).expect("a file");
            last = Some(Binary::new("Mine", format!("version {version}").into_bytes()).digest());
            // The second pass sees what the first saw: the file has settled.
            for _ in 0..2 {
                now += Duration::from_millis(5);
                directory.pass(now, &mut sink);
            }
        }
        now += Duration::from_secs(1);
        directory.pass(now, &mut sink);
        assert_eq!(loaded.len(), 7, "2 s and a burst of 5");
        assert_eq!(loaded.last().copied(), last);
    }

    #[test]
    fn a_denied_file_is_refused_before_it_is_looked_into() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("Bad.wasm"), "of whatever kind").expect("a file");
        let digest = Binary::new("Bad", *b"of whatever kind").digest();
        let denied = [digest].into_iter().collect();
        let mut directory = directory(dir.path(), EngineOptions { denied, ..EngineOptions::default() });
        assert_eq!(
            refusal(&mut directory),
            format!("has a denied digest: {digest} is among deniedDigests in --plugin-config")
        );
        directory.engine.set_denied(BTreeSet::new());
        directory.known.clear();
        assert_eq!(refusal(&mut directory), "is not a WebAssembly file");
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_is_refused_at_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let made = Command::new("mkfifo").arg(dir.path().join("Pipe.wasm")).status().expect("mkfifo");
        assert!(made.success());
        let directory = directory(dir.path(), EngineOptions::default());
        let error = directory.read("Pipe").expect_err("no file");
        assert_eq!(error.to_string(), "is no regular file");
    }

    #[test]
    fn a_name_steers_no_terminal() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("Red\u{1b}[31m.wasm"), berth_test_guests::by_priority().expect("a component"))
            .expect("a file");
        let events = directory(dir.path(), EngineOptions::default()).scan().expect("a folder");
        let [DirectoryEvent { name, change: DirectoryChange::Refused { error: LoadError::FileName, .. } }] =
            &events[..]
        else {
            panic!("{events:?}")
        };
        assert_eq!(name, "Red\\u{1b}[31m");
    }

    #[test]
    fn a_file_is_read_once_two_looks_agree() {
        let dir = tempfile::tempdir().expect("a folder");
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let mut directory = PluginsDirectory::new(engine, dir.path());
        let bytes = berth_test_guests::by_priority().expect("a component");
        let mut events = Vec::new();
        for length in [10, bytes.len() / 2, bytes.len()] {
            fs::write(dir.path().join("ByPriority.wasm"), &bytes[..length]).expect("a file");
            directory.pass(Instant::now(), &mut |event| events.push(event));
            assert!(events.is_empty(), "it may go on changing");
        }
        directory.pass(Instant::now(), &mut |event| events.push(event));
        assert!(
            matches!(events.as_slice(), [DirectoryEvent { change: DirectoryChange::Loaded { .. }, .. }]),
            "{events:?}"
        );
        directory.pass(Instant::now(), &mut |event| events.push(event));
        assert_eq!(events.len(), 1);
    }
}
