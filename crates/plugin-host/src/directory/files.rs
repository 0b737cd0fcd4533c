//! What lies in the plugins directory: names, and what tells without reading whether something changed.

use std::{
    collections::BTreeMap,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt, OpenOptionsExt as _},
    path::Path,
};

use super::error::FileError;

/// Tells without reading whether a file may have changed.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub(super) struct Fingerprint {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// When the inode changed: it tells a file that became readable, or took a deleted file's place.
    changed: (i64, i64),
    /// The fingerprints of what lies beside the file, in one number.
    companions: u64,
}

impl Fingerprint {
    fn of(metadata: &fs::Metadata) -> Self {
        let (device, inode) = (metadata.dev(), metadata.ino());
        if metadata.is_dir() {
            // What is put into a folder does not make it a plugin.
            return Self { device, inode, ..Self::default() };
        }
        Self {
            device,
            inode,
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            companions: 0,
        }
    }

    /// The size in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }
}

/// The plugin files, by name without `.wasm`. Hidden files are none, links are what they lead to. What has such a name and is
/// no file is listed as well, for it to be refused.
pub(super) fn list(dir: &Path, companions: &[&str]) -> io::Result<BTreeMap<String, Fingerprint>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".wasm"))
        else {
            continue;
        };
        // A file that vanished since, or a link to nowhere, is as good as absent.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if !name.is_empty() && !name.starts_with('.') {
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

/// Device and inode of the directory of this name.
pub(super) fn identity(dir: &Path) -> Option<(u64, u64)> {
    fs::metadata(dir).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// The bytes of a regular file that is no larger than `limit`. What is opened is what is looked at: between the listing
/// of the directory and here, a pipe or a device may have taken the file's place.
pub(super) fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    // Otherwise opening a pipe would wait for a writer.
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(FileError::Read)?;
    let metadata = file.metadata().map_err(FileError::Read)?;
    if metadata.is_dir() {
        return Err(FileError::Folder);
    }
    if !metadata.is_file() {
        return Err(FileError::NotAFile);
    }
    // A sparse file takes no space on disk, but all of its size in memory.
    let too_large = |size| FileError::TooLarge { size, limit };
    if metadata.len() > limit {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    file.take(limit + 1).read_to_end(&mut bytes).map_err(FileError::Read)?;
    let size = bytes.len() as u64;
    if size > limit { Err(too_large(size)) } else { Ok(bytes) }
}
