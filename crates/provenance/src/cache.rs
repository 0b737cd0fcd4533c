//! The cache of pulled artifacts on disk: blobs by their digest, and the last known target of each reference.
//!
//! The content is not trusted. A blob is hashed each time it is read, and deleted if the hash differs from its name.
//! Signatures are checked again. The target of a tag is the only part that cannot be checked, so other users have no
//! access to the directory.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use berth_model::Digest;
use serde::{Deserialize, Serialize};

use crate::{artifact::digest_of, reference::Reference, signature::Signatures};

/// Files that were not used for this long are deleted.
const UNUSED: Duration = Duration::from_secs(7 * 24 * 3600);

/// A cache in a separate directory.
#[derive(Clone, Debug)]
pub struct Cache {
    dir: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error("the cache of pulled plugins {} cannot be used", dir.display())]
    Io { dir: PathBuf, source: io::Error },
}

/// The target of a reference.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Known {
    pub reference: String,
    /// The digest of the manifest.
    pub manifest: String,
    /// The digest of the component.
    pub component: String,
    pub signatures: Signatures,
}

impl Cache {
    /// Creates a missing directory, and closes the directory to other users.
    ///
    /// # Errors
    /// The directory cannot be made, or belongs to another user.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, CacheError> {
        let cache = Self { dir: dir.into() };
        let make = || {
            for dir in [cache.dir.clone(), cache.blobs(), cache.references()] {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
                fs::set_permissions(&dir, fs::Permissions::from_mode(0o700))?;
            }
            Ok(())
        };
        make().map_err(|source| CacheError::Io { dir: cache.dir.clone(), source })?;
        Ok(cache)
    }

    fn blobs(&self) -> PathBuf {
        self.dir.join("blobs").join("sha256")
    }

    fn references(&self) -> PathBuf {
        self.dir.join("references")
    }

    fn reference_file(&self, reference: &Reference) -> PathBuf {
        self.references().join(format!("{}.json", digest_of(reference.to_string().as_bytes())))
    }

    /// The bytes with this digest, if the cache has all of them and the number of bytes is at most `limit`.
    pub(crate) fn blob(&self, digest: Digest, limit: u64) -> Option<Vec<u8>> {
        let file = self.blobs().join(digest.to_string());
        let bytes = read(&file, limit)?;
        if digest_of(&bytes) == digest {
            return Some(bytes);
        }
        tracing::warn!(file = %file.display(), "a cached blob is damaged; it is deleted and pulled again");
        let _ = fs::remove_file(&file);
        None
    }

    pub(crate) fn store_blob(&self, digest: Digest, bytes: &[u8]) -> Result<(), CacheError> {
        self.write(&self.blobs().join(digest.to_string()), bytes)
    }

    /// The target of the reference at the last pull.
    pub(crate) fn known(&self, reference: &Reference) -> Option<Known> {
        let bytes = read(&self.reference_file(reference), 64 << 20)?;
        let known: Known = serde_json::from_slice(&bytes).ok()?;
        (known.reference == reference.to_string()).then_some(known)
    }

    pub(crate) fn store_known(&self, reference: &Reference, known: &Known) -> Result<(), CacheError> {
        let text = serde_json::to_vec(known).map_err(|error| self.error(error.into()))?;
        self.write(&self.reference_file(reference), &text)
    }

    /// Deletes files that none of these references needs and that were not used for a week. Other processes may share
    /// the cache.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn prune(&self, references: &[Reference]) -> Result<(), CacheError> {
        let files: BTreeSet<PathBuf> = references.iter().map(|reference| self.reference_file(reference)).collect();
        let known = references.iter().filter_map(|reference| self.known(reference));
        let blobs: BTreeSet<PathBuf> =
            known.flat_map(|it| [it.manifest, it.component]).map(|digest| self.blobs().join(digest)).collect();
        for (dir, needed) in [(self.references(), files), (self.blobs(), blobs)] {
            for entry in fs::read_dir(&dir).map_err(|error| self.error(error))? {
                let file = entry.map_err(|error| self.error(error))?.path();
                let used = fs::metadata(&file).and_then(|metadata| metadata.modified());
                let is_old = used.is_ok_and(|used| used.elapsed().is_ok_and(|age| age > UNUSED));
                if is_old && !needed.contains(&file) {
                    // Another process may have deleted the file.
                    let _ = fs::remove_file(&file);
                }
            }
        }
        Ok(())
    }

    /// Writes the whole file or nothing, even if other processes write the same file.
    fn write(&self, file: &Path, bytes: &[u8]) -> Result<(), CacheError> {
        let temporary = file.with_extension(format!("{:016x}.part", fastrand::u64(..)));
        let write = || {
            let mut part = fs::File::create_new(&temporary)?;
            part.write_all(bytes)?;
            part.sync_all()?;
            fs::rename(&temporary, file)
        };
        write().map_err(|error| {
            let _ = fs::remove_file(&temporary);
            self.error(error)
        })
    }

    fn error(&self, source: io::Error) -> CacheError {
        CacheError::Io { dir: self.dir.clone(), source }
    }
}

fn read(file: &Path, limit: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let opened = fs::File::open(file).ok()?;
    // The file is used now. If the time cannot be stored, the file counts as unused.
    let _ = opened.set_modified(SystemTime::now());
    opened.take(limit + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= limit).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_that_was_changed_is_not_served() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path()).unwrap();
        let digest = digest_of(b"component");
        assert_eq!(cache.blob(digest, 100), None);
        cache.store_blob(digest, b"component").unwrap();
        assert_eq!(cache.blob(digest, 100).as_deref(), Some(&b"component"[..]));
        assert_eq!(cache.blob(digest, 3), None, "it is larger than it may be");
        let file = cache.blobs().join(digest.to_string());
        fs::write(&file, b"c0mponent").unwrap();
        assert_eq!(cache.blob(digest, 100), None);
        assert!(!file.exists());
    }

    #[test]
    fn what_no_reference_needs_is_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path()).unwrap();
        let store = |name: &str, text: &[u8]| {
            let reference: Reference = format!("registry.example/{name}:1").parse().unwrap();
            let digest = digest_of(text);
            cache.store_blob(digest, text).unwrap();
            let text = digest.to_string();
            let known = Known {
                reference: reference.to_string(),
                manifest: text.clone(),
                component: text,
                signatures: Signatures::default(),
            };
            cache.store_known(&reference, &known).unwrap();
            (reference, digest)
        };
        let (kept, kept_blob) = store("kept", b"a");
        let (gone, gone_blob) = store("gone", b"b");
        let shared = store("shared", b"c");
        let month_ago = SystemTime::now() - 4 * UNUSED;
        for (reference, digest) in [(&kept, kept_blob), (&gone, gone_blob)] {
            for file in [cache.reference_file(reference), cache.blobs().join(digest.to_string())] {
                fs::File::open(file).unwrap().set_modified(month_ago).unwrap();
            }
        }
        cache.prune(std::slice::from_ref(&kept)).unwrap();
        assert!(cache.known(&shared.0).is_some() && cache.blob(shared.1, 10).is_some(), "it was used recently");
        assert!(cache.known(&kept).is_some() && cache.blob(kept_blob, 10).is_some());
        assert!(cache.known(&gone).is_none() && cache.blob(gone_blob, 10).is_none());
    }
}
