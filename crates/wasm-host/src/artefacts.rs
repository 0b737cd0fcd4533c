//! Compiled components on disk, so that a restart takes milliseconds.
//!
//! wasmtime trusts an artefact as it trusts itself: a manipulated artefact would run as native code in the scheduler.
//! Only this user can enter the directory of the artefacts, and only files of this user are read. Each file
//! begins with a MAC (HMAC-SHA-256) over its content, the component's digest and the engine's settings. A torn, renamed
//! or stale file, or a file of another user or machine, is not loaded; its component is compiled again. The key is made
//! with the directory and stays in the directory. The directory has a size limit, and the files that were used longest
//! ago are deleted first.

mod refusals;

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Read as _, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use berth_model::Digest;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use wasmtime::component::Component;

pub(crate) use self::refusals::RefusalLimits;
use crate::binary::Binary;

const MAC_BYTES: usize = 32;

/// A block of the hash. A longer key would be hashed first.
const KEY_BYTES: usize = 64;

/// The file that contains the key of the MACs.
const KEY_FILE: &str = "key";

/// The file to which an unusable key is moved.
const UNUSABLE_KEY_FILE: &str = "key.unusable";

const EXTENSION: &str = "compiled";

/// The text with which the MACs of artefacts begin: the empty text.
const PURPOSE: &[u8] = b"";

/// The maximum number of bytes of all artefacts together. All built-ins take some 60 MB, and a plugin in Python or
/// JavaScript takes as much.
const MAX_BYTES: u64 = 2 << 30;

/// The time after which an unfinished file belongs to a process that was killed.
const UNFINISHED: Duration = Duration::from_secs(3600);

/// A directory of compiled components.
pub(crate) struct Artefacts {
    dir: PathBuf,
    /// The user of this process, who owns the directory.
    owner: u32,
    /// A hash of the version and the settings of the compiler.
    compiler: u64,
    key: [u8; KEY_BYTES],
}

/// The reason why a directory cannot be used for artefacts.
#[derive(Debug, thiserror::Error)]
pub enum ArtefactError {
    #[error("{dir}: {source}")]
    Io { dir: PathBuf, source: io::Error },
    #[error("{dir} belongs to another user")]
    Owner { dir: PathBuf },
}

/// Prepares the directory for artefacts, as an engine with this directory does.
///
/// # Errors
/// The directory cannot be used for artefacts, for this reason.
pub fn check_artefacts(dir: &Path) -> Result<(), ArtefactError> {
    let io = |source| ArtefactError::Io { dir: dir.to_owned(), source };
    match make_private(dir).map_err(io)? {
        Some(_) => Ok(()),
        None => Err(ArtefactError::Owner { dir: dir.to_owned() }),
    }
}

impl std::fmt::Debug for Artefacts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Artefacts").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Artefacts {
    /// Makes the directory, or uses an existing directory of this user, with access for this user alone.
    pub(crate) fn open(dir: PathBuf, engine: &wasmtime::Engine) -> Result<Self, ArtefactError> {
        let owner = make_private(&dir).map_err(|source| ArtefactError::Io { dir: dir.clone(), source })?;
        let Some(owner) = owner else { return Err(ArtefactError::Owner { dir }) };
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        let key = key(&dir).map_err(|source| ArtefactError::Io { dir: dir.join(KEY_FILE), source })?;
        Ok(Self { dir, owner, compiler: hasher.finish(), key })
    }

    /// The compiled component of the bytes with this digest, if the same compiler stored it and it is intact.
    pub(crate) fn load(&self, engine: &wasmtime::Engine, digest: Digest) -> Option<Component> {
        let path = self.path(digest, EXTENSION);
        let mut options = fs::OpenOptions::new();
        let mut file = options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(&path).ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.uid() != self.owner {
            return None;
        }
        let mut content = Vec::with_capacity(usize::try_from(metadata.len()).ok()?);
        file.read_to_end(&mut content).ok()?;
        let (mac, artefact) = content.split_first_chunk::<MAC_BYTES>()?;
        if self.mac(PURPOSE, digest, artefact).verify(mac.into()).is_err() {
            tracing::warn!(file = %path.display(), "a compiled plugin is damaged; compiling it again");
            return None;
        }
        // The files that were used last are kept longest. The error is ignored, because a read-only directory is usable.
        let _ = file.set_modified(SystemTime::now());
        #[expect(unsafe_code, reason = "this user wrote these bytes, as their MAC shows")]
        // SAFETY: `store` wrote the bytes of the compiler. This user owns the file. No other user can enter the
        // directory, which also holds the key of the MAC. The MAC covers the bytes that were read into memory.
        let component = unsafe { Component::deserialize(engine, artefact) };
        component.inspect_err(|error| tracing::debug!("a compiled plugin does not fit this engine: {error}")).ok()
    }

    /// Stores a compiled component. A failure only makes the next start slower.
    pub(crate) fn store(&self, binary: &Binary, artefact: &[u8]) {
        if let Err(error) = self.write(binary, artefact).and_then(|()| self.prune()) {
            tracing::warn!(plugin = binary.name(), "the compiled plugin cannot be kept: {error}");
        }
    }

    fn write(&self, binary: &Binary, artefact: &[u8]) -> io::Result<()> {
        let path = self.path(binary.digest(), EXTENSION);
        let unfinished = path.with_extension(format!("{}.tmp", process::id()));
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(&self.mac(PURPOSE, binary.digest(), artefact).finalize().into_bytes())?;
        file.write_all(artefact)?;
        fs::rename(unfinished, path)
    }

    fn prune(&self) -> io::Result<()> {
        prune(&self.dir, MAX_BYTES, refusals::MAX)
    }

    fn mac(&self, purpose: &[u8], digest: Digest, content: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new((&self.key).into());
        mac.update(purpose);
        mac.update(digest.to_string().as_bytes());
        mac.update(&self.compiler.to_le_bytes());
        mac.update(content);
        mac
    }

    fn path(&self, digest: Digest, extension: &str) -> PathBuf {
        self.dir.join(format!("{digest}-{:016x}.{extension}", self.compiler))
    }
}

/// The directory's key. A key is made if the directory has no key, or if the present key is unusable; artefacts of an
/// unusable key are compiled again.
fn key(dir: &Path) -> io::Result<[u8; KEY_BYTES]> {
    let path = dir.join(KEY_FILE);
    match read_key(&path) {
        Ok(key) => return Ok(key),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(
                file = %path.display(),
                "the key of the compiled plugins cannot be used; plugins are compiled again, with a new key: {error}"
            );
            fs::rename(&path, dir.join(UNUSABLE_KEY_FILE))?;
        }
    }
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    // The key is written in one step and only if none exists, so that two processes that start at the same time use the
    // same key.
    let unfinished = dir.join(format!("{KEY_FILE}.{}.tmp", process::id()));
    fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?.write_all(&key)?;
    match fs::hard_link(&unfinished, &path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    fs::remove_file(unfinished)?;
    read_key(&path)
}

/// Reads the key. A key that a power cut left behind may be all zeros.
fn read_key(path: &Path) -> io::Result<[u8; KEY_BYTES]> {
    // Opening a pipe would block until a writer comes.
    let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let mut found = Vec::new();
    file.take(KEY_BYTES as u64 + 1).read_to_end(&mut found)?;
    let key = found.try_into().ok().filter(|key| *key != [0; KEY_BYTES]);
    key.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it holds no key"))
}

/// Deletes artefacts until all together take at most `max_bytes`, beginning with the artefact that was used longest
/// ago. Also deletes refusals beyond `max_refusals`, and files that a process left unfinished.
fn prune(dir: &Path, max_bytes: u64, max_refusals: usize) -> io::Result<()> {
    let (mut artefacts, mut refusals) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        // Another process may delete files at the same time.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        let used = metadata.modified()?;
        match path.extension().and_then(|extension| extension.to_str()) {
            Some(EXTENSION) => artefacts.push((used, metadata.len(), path)),
            Some(refusals::EXTENSION) => refusals.push((used, path)),
            Some("tmp" | "probe") if used.elapsed().is_ok_and(|age| age > UNFINISHED) => {
                let _ = fs::remove_file(path);
            }
            _ => {}
        }
    }
    artefacts.sort_unstable_by(|left, right| right.cmp(left));
    let mut total = 0;
    for (_, size, path) in artefacts {
        total += size;
        if total > max_bytes {
            let _ = fs::remove_file(path);
        }
    }
    refusals.sort_unstable_by(|left, right| right.cmp(left));
    for (_, path) in refusals.into_iter().skip(max_refusals) {
        let _ = fs::remove_file(path);
    }
    Ok(())
}

/// The directory's owner, if it is the user of this process.
fn make_private(dir: &Path) -> io::Result<Option<u32>> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let owner = fs::metadata(dir)?.uid();
    // Containers that share the directory may have the same process id, and a process that was killed leaves its probe.
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let probe = dir.join(format!("{}-{}.probe", process::id(), since_epoch.as_nanos()));
    // A new file belongs to the user of the process. The standard library has no other way to find the user.
    let user = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&probe)?.metadata()?.uid();
    fs::remove_file(probe)?;
    if user != owner {
        return Ok(None);
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    Ok(Some(owner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler_process::CompileLimits;

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let dir = tempfile::tempdir().expect("a folder");
        let now = SystemTime::now();
        let file = |name: &str, age: u64| {
            let file = fs::File::create(dir.path().join(name)).expect("a file");
            file.set_len(10).expect("a size");
            file.set_modified(now - Duration::from_secs(age)).expect("a time");
        };
        file("old.compiled", 30);
        file("new.compiled", 10);
        file("middle.compiled", 20);
        file(KEY_FILE, 10_000);
        file("being-written.tmp", 5);
        file("left-behind.tmp", 10_000);
        file("old.refused", 30);
        file("new.refused", 10);
        prune(dir.path(), 20, 1).expect("a folder");
        let left = fs::read_dir(dir.path()).expect("a folder").map(|entry| entry.expect("an entry").file_name());
        let mut left: Vec<_> = left.map(|name| name.into_string().expect("text")).collect();
        left.sort_unstable();
        assert_eq!(left, ["being-written.tmp", "key", "middle.compiled", "new.compiled", "new.refused"]);
    }

    #[test]
    fn a_directory_keeps_its_key() {
        let dir = tempfile::tempdir().expect("a folder");
        let first = key(dir.path()).expect("a key");
        assert_eq!(key(dir.path()).expect("a key"), first);
        assert_eq!(fs::metadata(dir.path().join(KEY_FILE)).expect("a file").permissions().mode() & 0o777, 0o600);
        assert_ne!(key(tempfile::tempdir().expect("a folder").path()).expect("a key"), first);
    }

    #[test]
    fn a_key_that_is_no_key_is_replaced_and_kept_aside() {
        let (empty, short, zeros) = (Vec::new(), vec![1; KEY_BYTES - 1], vec![0; KEY_BYTES]);
        for bad in [empty, short, zeros, vec![1; KEY_BYTES + 1]] {
            let dir = tempfile::tempdir().expect("a folder");
            fs::write(dir.path().join(KEY_FILE), &bad).expect("a file");
            let made = key(dir.path()).expect("a new key");
            assert_eq!(key(dir.path()).expect("a key"), made, "it stays");
            assert_eq!(fs::read(dir.path().join(UNUSABLE_KEY_FILE)).expect("kept"), bad);
        }
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir(dir.path().join(KEY_FILE)).expect("a folder");
        key(dir.path()).expect("a new key in the place of a folder");
    }

    fn refused(memory_bytes: u64) -> RefusalLimits {
        let compile = CompileLimits { cpu_time: Duration::from_secs(7), memory_bytes };
        RefusalLimits { compile, lifecycle_timeout: Duration::from_secs(1) }
    }

    fn artefacts(dir: &Path) -> Artefacts {
        let engine = wasmtime::Engine::new(&crate::settings::config()).expect("this machine");
        Artefacts::open(dir.to_owned(), &engine).expect("a folder of one's own")
    }

    #[test]
    fn a_refusal_holds_within_the_same_limits_until_it_is_forgotten() {
        let dir = tempfile::tempdir().expect("a folder");
        let digest = Digest::new([7; 32]);
        artefacts(dir.path()).remember_refusal(digest, refused(1), "takes long\nand says so");
        let again = artefacts(dir.path());
        assert_eq!(again.refusal(digest, refused(1)).as_deref(), Some("takes long\nand says so"));
        assert_eq!(again.refusal(digest, refused(2)), None);
        assert_eq!(again.refusal(Digest::new([8; 32]), refused(1)), None);
        again.forget_refusal(digest);
        assert_eq!(again.refusal(digest, refused(1)), None);
    }

    #[test]
    fn a_refusal_that_somebody_changed_or_renamed_is_none() {
        let dir = tempfile::tempdir().expect("a folder");
        let (one, other) = (Digest::new([7; 32]), Digest::new([8; 32]));
        let artefacts = artefacts(dir.path());
        artefacts.remember_refusal(one, refused(1), "takes long");
        let file = artefacts.path(one, refusals::EXTENSION);
        fs::copy(&file, artefacts.path(other, refusals::EXTENSION)).expect("a copy");
        assert_eq!(artefacts.refusal(other, refused(1)), None);
        let mut content = fs::read(&file).expect("a file");
        content.extend_from_slice(b" indeed");
        fs::write(&file, content).expect("a file");
        assert_eq!(artefacts.refusal(one, refused(1)), None);
    }
}
