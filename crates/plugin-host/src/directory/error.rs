//! The reasons why a file of the plugins directory is not used.

use std::io;

use berth_wasm_host::LoadError;

/// The reason why a file is not admitted. The text continues the file's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotAdmitted(pub String);

/// The reason why a file is not a plugin that may run. The text continues the file's name.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot be read")]
    Read(#[source] io::Error),
    #[error("is not a regular file")]
    NotAFile,
    #[error("is a folder, not a file")]
    Folder,
    #[error("has a name that is not valid for a plugin")]
    Name,
    #[error("has {size} bytes, more than the {limit} that a plugin may have")]
    TooLarge { size: u64, limit: u64 },
    #[error(transparent)]
    NotAdmitted(#[from] NotAdmitted),
    #[error(transparent)]
    NoPlugin(#[from] LoadError),
}

impl FileError {
    /// The name in the manifest of a plugin whose file has another name.
    pub(crate) fn own_name(&self) -> Option<&str> {
        match self {
            Self::NoPlugin(LoadError::Name { manifest }) => Some(manifest),
            Self::NoPlugin(_)
            | Self::Read(_)
            | Self::NotAFile
            | Self::Folder
            | Self::Name
            | Self::TooLarge { .. }
            | Self::NotAdmitted(_) => None,
        }
    }

    /// Whether the same file may be loaded later, when the machine has more memory or processor time to give.
    pub(crate) fn is_of_the_moment(&self) -> bool {
        matches!(self, Self::NoPlugin(error) if error.is_of_the_moment())
    }
}
