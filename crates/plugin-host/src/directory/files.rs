//! The content of the plugins directory: the names, and metadata that shows whether something changed without reading
//! the files.

use std::{
    collections::BTreeMap,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, Read as _},
    os::unix::fs::{MetadataExt, OpenOptionsExt as _},
    path::Path,
};

use super::error::FileError;

/// Metadata that shows, without reading a file, whether the file may have changed.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub(super) struct Fingerprint {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// The time when the inode changed. The time reveals a file that became readable or that replaced a deleted file.
    changed: (i64, i64),
    /// The fingerprints of the files beside the plugin's file, combined into one number.
    companions: u64,
}

impl Fingerprint {
    fn of(metadata: &fs::Metadata) -> Self {
        let (device, inode) = (metadata.dev(), metadata.ino());
        if metadata.is_dir() {
            // A folder is not a plugin, regardless of its files.
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

/// The plugin files, by name without `.wasm`. Hidden files are ignored, and links are followed. An entry `NAME.wasm`
/// that is not a file is also listed, so that this entry is refused.
pub(super) fn list(dir: &Path, companions: &[&str]) -> io::Result<BTreeMap<String, Fingerprint>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".wasm"))
        else {
            continue;
        };
        // A file that has just been deleted, or a link without a target, counts as absent.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if !name.is_empty() && !name.starts_with('.') {
            let mut fingerprint = Fingerprint::of(&metadata);
            fingerprint.companions = fingerprint_of_companions(dir, name, companions);
            files.insert(name.to_owned(), fingerprint);
        }
    }
    Ok(files)
}

/// Combines the metadata of the files beside a plugin's file, without reading them.
fn fingerprint_of_companions(dir: &Path, name: &str, companions: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for companion in companions {
        let metadata = fs::metadata(dir.join(format!("{name}.wasm.{companion}"))).ok();
        metadata.as_ref().map(Fingerprint::of).hash(&mut hasher);
    }
    hasher.finish()
}

/// The device and inode of the directory of this name.
pub(super) fn identity(dir: &Path) -> Option<(u64, u64)> {
    fs::metadata(dir).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// The bytes of a regular file of at most `limit` bytes. The checks use the opened file, because a pipe or a device may
/// have taken the file's place since the directory was listed.
pub(super) fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    // Otherwise, opening a pipe would wait for a writer.
    let mut options = fs::OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(FileError::Read)?;
    let metadata = file.metadata().map_err(FileError::Read)?;
    if metadata.is_dir() {
        return Err(FileError::Folder);
    }
    if !metadata.is_file() {
        return Err(FileError::NotAFile);
    }
    // A sparse file takes no space on disk, but its full size in memory.
    let too_large = |size| FileError::TooLarge { size, limit };
    if metadata.len() > limit {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
    file.take(limit + 1).read_to_end(&mut bytes).map_err(FileError::Read)?;
    let size = bytes.len() as u64;
    if size > limit { Err(too_large(size)) } else { Ok(bytes) }
}
