//! Compiled components on disk, so that a restart takes milliseconds.
//!
//! wasmtime trusts an artefact as it trusts itself: one that was tampered with runs as native code in the scheduler. So
//! artefacts live in a directory that only this user can enter, only files of this user are read, and each begins with
//! a hash over its content, the component's digest and the engine's settings, so that a torn, renamed or stale file is
//! compiled anew instead of loaded. The hash guards against accidents, the directory's permissions against people.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process,
    time::{SystemTime, UNIX_EPOCH},
};

use sha2::{Digest, Sha256};
use wasmtime::component::Component;

use crate::binary::Binary;

const HASH_BYTES: usize = 32;

/// A directory of compiled components.
#[derive(Debug)]
pub(crate) struct Artefacts {
    dir: PathBuf,
    /// Who made the directory: this user.
    owner: u32,
    /// Tells apart versions and settings of the compiler.
    compiler: u64,
}

/// Why a directory is not fit for artefacts.
#[derive(Debug, thiserror::Error)]
pub enum ArtefactError {
    #[error("{dir}: {source}")]
    Io { dir: PathBuf, source: io::Error },
    #[error("{dir} belongs to another user")]
    Owner { dir: PathBuf },
}

/// Makes the directory fit for artefacts, as an engine that is given it would.
///
/// # Errors
/// Why it is not.
pub fn check_artefacts(dir: &Path) -> Result<(), ArtefactError> {
    let io = |source| ArtefactError::Io { dir: dir.to_owned(), source };
    match make_private(dir).map_err(io)? {
        Some(_) => Ok(()),
        None => Err(ArtefactError::Owner { dir: dir.to_owned() }),
    }
}

impl Artefacts {
    /// Makes the directory, or takes an existing one of this user over, with access for this user alone.
    pub(crate) fn open(dir: PathBuf, engine: &wasmtime::Engine) -> Result<Self, ArtefactError> {
        let owner = make_private(&dir).map_err(|source| ArtefactError::Io { dir: dir.clone(), source })?;
        let Some(owner) = owner else { return Err(ArtefactError::Owner { dir }) };
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        Ok(Self { dir, owner, compiler: hasher.finish() })
    }

    /// The compiled component of the same bytes, if it was stored by the same compiler and is intact.
    pub(crate) fn load(&self, engine: &wasmtime::Engine, binary: &Binary) -> Option<Component> {
        let path = self.path(binary);
        let metadata = fs::symlink_metadata(&path).ok()?;
        if !metadata.is_file() || metadata.uid() != self.owner {
            return None;
        }
        let content = fs::read(&path).ok()?;
        let (hash, artefact) = content.split_first_chunk::<HASH_BYTES>()?;
        if *hash != self.hash(binary, artefact) {
            tracing::warn!(file = %path.display(), "a compiled plugin is damaged; compiling it anew");
            return None;
        }
        #[expect(unsafe_code, reason = "this user wrote these bytes, and they hash to what it wrote")]
        // SAFETY: the bytes came from `Component::serialize` in `store`: the file is ours, in a directory that nobody
        // else can enter, and its hash covers the content as it is in memory here.
        let component = unsafe { Component::deserialize(engine, artefact) };
        component.inspect_err(|error| tracing::debug!("a compiled plugin does not fit this engine: {error}")).ok()
    }

    /// Keeps a compiled component; a failure costs only the next start some time.
    pub(crate) fn store(&self, binary: &Binary, component: &Component) {
        let written =
            component.serialize().map_err(io::Error::other).and_then(|artefact| self.write(binary, &artefact));
        if let Err(error) = written {
            tracing::warn!(plugin = binary.name(), "the compiled plugin cannot be kept: {error}");
        }
    }

    fn write(&self, binary: &Binary, artefact: &[u8]) -> io::Result<()> {
        let path = self.path(binary);
        let unfinished = path.with_extension(format!("{}.tmp", process::id()));
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(&self.hash(binary, artefact))?;
        file.write_all(artefact)?;
        fs::rename(unfinished, path)
    }

    fn hash(&self, binary: &Binary, artefact: &[u8]) -> [u8; HASH_BYTES] {
        let mut hash = Sha256::new();
        hash.update(binary.digest().to_string());
        hash.update(self.compiler.to_le_bytes());
        hash.update(artefact);
        hash.finalize().into()
    }

    fn path(&self, binary: &Binary) -> PathBuf {
        self.dir.join(format!("{}-{:016x}.compiled", binary.digest(), self.compiler))
    }
}

/// The directory's owner, if that is the user this process runs as.
fn make_private(dir: &Path) -> io::Result<Option<u32>> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let owner = fs::metadata(dir)?.uid();
    // Containers that share the directory may have the same process id, and one that was killed leaves its probe.
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let probe = dir.join(format!("{}-{}.probe", process::id(), since_epoch.as_nanos()));
    // A new file belongs to the user of the process: the standard library has no other way to ask.
    let user = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&probe)?.metadata()?.uid();
    fs::remove_file(probe)?;
    if user != owner {
        return Ok(None);
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    Ok(Some(owner))
}
