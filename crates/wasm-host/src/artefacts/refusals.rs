//! Refusals of binaries that needed a compiler or a call. The refusals are kept over restarts, beside the artefacts.
//!
//! A refusal says that these bytes, with this compiler and within these limits, are not a plugin. The bytes are tried
//! again with other limits, with another compiler, or when an operator orders it.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    process,
    time::{Duration, SystemTime},
};

use berth_model::Digest;
use hmac::Mac as _;

use super::{Artefacts, MAC_BYTES};
use crate::compiler_process::CompileLimits;

pub(super) const EXTENSION: &str = "refused";

/// The maximum number of refusals that are kept. Each is a few hundred bytes.
pub(super) const MAX: usize = 1000;

/// The maximum number of bytes of a refusal. Its reason has some kilobytes at most.
const MAX_BYTES: u64 = 64 << 10;

/// The text with which the MACs of refusals begin. This text distinguishes refusals from artefacts: a refusal with the
/// name of an artefact must not be run.
pub(super) const PURPOSE: &[u8] = b"refusal";

/// The limits within which a binary was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RefusalLimits {
    /// The limits of compiling that hold on this machine.
    pub(crate) compile: CompileLimits,
    /// The limit of `describe`.
    pub(crate) lifecycle_timeout: Duration,
}

impl RefusalLimits {
    fn as_line(self) -> String {
        let Self { compile: CompileLimits { cpu_time, memory_bytes }, lifecycle_timeout } = self;
        format!("{} {memory_bytes} {}", cpu_time.as_secs(), lifecycle_timeout.as_millis())
    }
}

impl Artefacts {
    /// The reason for which these bytes were refused within the same limits; `None` if they were not refused.
    pub(crate) fn refusal(&self, digest: Digest, limits: RefusalLimits) -> Option<String> {
        let mut options = fs::OpenOptions::new();
        let path = self.path(digest, EXTENSION);
        let file = options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.uid() != self.owner {
            return None;
        }
        let mut content = Vec::new();
        (&file).take(MAX_BYTES).read_to_end(&mut content).ok()?;
        let (mac, text) = content.split_first_chunk::<MAC_BYTES>()?;
        self.mac(PURPOSE, digest, text).verify(mac.into()).ok()?;
        let _ = file.set_modified(SystemTime::now());
        let (line, reason) = std::str::from_utf8(text).ok()?.split_once('\n')?;
        (line == limits.as_line()).then(|| reason.to_owned())
    }

    /// Stores the reason for which these bytes are refused. A failure only makes the next start slower.
    pub(crate) fn remember_refusal(&self, digest: Digest, limits: RefusalLimits, reason: &str) {
        if let Err(error) = self.write_refusal(digest, limits, reason).and_then(|()| self.prune()) {
            tracing::debug!(digest = digest.to_string(), "a refusal cannot be kept: {error}");
        }
    }

    /// Deletes the refusal of these bytes, so that the next load examines them again.
    pub(crate) fn forget_refusal(&self, digest: Digest) {
        // Usually the file does not exist.
        let _ = fs::remove_file(self.path(digest, EXTENSION));
    }

    fn write_refusal(&self, digest: Digest, limits: RefusalLimits, reason: &str) -> io::Result<()> {
        let path = self.path(digest, EXTENSION);
        let text = format!("{}\n{reason}", limits.as_line());
        let unfinished = path.with_extension(format!("{EXTENSION}.{}.tmp", process::id()));
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(&self.mac(PURPOSE, digest, text.as_bytes()).finalize().into_bytes())?;
        file.write_all(text.as_bytes())?;
        fs::rename(unfinished, path)
    }
}
