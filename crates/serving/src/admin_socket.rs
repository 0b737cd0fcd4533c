//! The Unix socket through which an operator on the machine controls plugins.
//!
//! The file system controls access: only the user that runs the scheduler can use the socket and the folder that Berth
//! creates for it. Root can also use the socket and the folder. A loopback address would admit every process in the
//! machine's network namespace.

use std::{
    fs, io,
    os::unix::{
        fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
        net::UnixStream as StdStream,
    },
    path::{Path, PathBuf},
};

use tokio::net::{UnixListener, UnixStream};
use tracing::warn;

use crate::connections::Listener;

/// Only the owner can connect.
const SOCKET_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("another scheduler listens on {}: name another socket with --admin-socket PATH", .0.display())]
    InUse(PathBuf),
    #[error("{} is open to other users, or belongs to another user: give --admin-socket PATH in a folder of your own", .0.display())]
    SharedFolder(PathBuf),
    #[error("{}: {source}", path.display())]
    Unusable { path: PathBuf, source: io::Error },
}

/// A socket for its owner and root. The socket's file is removed when this value is dropped.
#[derive(Debug)]
pub struct OwnersSocket {
    listener: UnixListener,
    path: PathBuf,
    owner: u32,
}

/// The default path of the socket. A scheduler and `berth plugin` of one user have the same default path.
pub fn default_path() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let folder = match (runtime, own_uid()) {
        (Some(runtime), _) => runtime.join("berth"),
        (None, Some(0) | None) => PathBuf::from("/run/berth"),
        (None, Some(uid)) => std::env::temp_dir().join(format!("berth-{uid}")),
    };
    folder.join("admin.sock")
}

/// The user that runs this process.
fn own_uid() -> Option<u32> {
    fs::metadata("/proc/self").ok().map(|it| it.uid())
}

impl OwnersSocket {
    /// Listens at `path`. Replaces a socket without a listener, and creates missing folders.
    ///
    /// # Errors
    /// Another process listens there, other users could replace the socket, or the file system refuses.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let unusable = |source| SocketError::Unusable { path: path.to_owned(), source };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder).map_err(unusable)?;
            let metadata = fs::metadata(folder).map_err(unusable)?;
            const OTHERS_WRITE: u32 = 0o022;
            if metadata.mode() & OTHERS_WRITE != 0 || own_uid().is_some_and(|uid| uid != metadata.uid()) {
                return Err(SocketError::SharedFolder(folder.to_owned()));
            }
        }
        match StdStream::connect(path) {
            Ok(_) => return Err(SocketError::InUse(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(unusable)?
            }
            // The file does not exist, or `bind` would refuse to replace it.
            Err(_) => {}
        }
        let listener = UnixListener::bind(path).map_err(unusable)?;
        fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE)).map_err(unusable)?;
        let owner = fs::metadata(path).map_err(unusable)?.uid();
        Ok(Self { listener, path: path.to_owned(), owner })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn is_welcome(&self, stream: &UnixStream) -> bool {
        // The mode of the socket also keeps other users out, but it is set a moment after the socket is created.
        stream.peer_cred().is_ok_and(|peer| peer.uid() == self.owner || peer.uid() == 0)
    }
}

impl Listener for OwnersSocket {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            if self.is_welcome(&stream) {
                return Ok(stream);
            }
            warn!(path = %self.path.display(), "rejected another user's connection to the admin socket");
        }
    }
}

impl Drop for OwnersSocket {
    fn drop(&mut self) {
        // After a failure, the next scheduler replaces the socket.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use super::*;

    #[tokio::test]
    async fn a_socket_is_its_owners_alone_and_takes_the_place_of_a_dead_one() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("berth/admin.sock");
        let socket = OwnersSocket::bind(&path).expect("it listens");
        assert_eq!(fs::metadata(&path).expect("a socket").mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(dir.path().join("berth")).expect("a folder").mode() & 0o777, 0o700);
        assert!(matches!(OwnersSocket::bind(&path), Err(SocketError::InUse(_))));
        // A scheduler that was killed leaves its file.
        let left = dir.path().join("left.sock");
        fs::rename(&path, &left).expect("a new name");
        drop(socket);
        OwnersSocket::bind(&left).expect("nobody listens there any more");
        assert!(!left.exists(), "the file goes with the socket");
    }

    #[tokio::test]
    async fn a_folder_of_others_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).expect("ours");
        let error = OwnersSocket::bind(&dir.path().join("admin.sock")).expect_err("refused");
        assert!(matches!(error, SocketError::SharedFolder(_)), "{error}");
        // A folder of another user is needed. For every user but root, this is the root folder. Root changes the owner
        // of a folder, if it may.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).expect("ours");
        let folder = match own_uid() {
            Some(0) if chown(dir.path(), Some(1), None).is_err() => return,
            Some(0) => dir.path(),
            _ => Path::new("/"),
        };
        let error = OwnersSocket::bind(&folder.join("admin.sock")).expect_err("refused");
        assert!(matches!(error, SocketError::SharedFolder(_)), "{error}");
    }
}
