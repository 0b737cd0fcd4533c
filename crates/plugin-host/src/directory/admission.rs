//! The decision whether a file of a plugins directory is compiled, and the files beside it that the decision needs.

use std::{fs, io::Read as _, path::Path};

use berth_wasm_host::Binary;

use super::error::NotAdmitted;

/// The largest size of a file beside a plugin's file. The file contains a few signatures at most.
const MAX_COMPANION: u64 = 1 << 20;

/// Examines a file before the file is used. Threads that load files call the methods.
pub trait Admission: std::fmt::Debug + Send + Sync {
    /// The extensions of the files that belong to `NAME.wasm`: `sig` stands for `NAME.wasm.sig`. A change of such a
    /// file counts as a change of the plugin's file.
    fn companions(&self) -> &'static [&'static str];

    /// Whether the file may be compiled and run.
    ///
    /// # Errors
    /// The error says why the file may not be compiled.
    fn admit(&self, file: Candidate<'_>) -> Result<Approval, NotAdmitted>;
}

/// A file and the files beside it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub binary: &'a Binary,
    /// The files beside the plugin's file, in the order of [`Admission::companions`]; `None` for a file that does not
    /// exist.
    pub companions: &'a [Option<Vec<u8>>],
}

/// The result for a file that was admitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approval {
    /// The signers that vouch for the file, if there are any.
    pub signed_by: Vec<String>,
}

/// The files beside a plugin's file. A file that is too large is cut off, so parsing fails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Companions(Vec<Option<Vec<u8>>>);

impl Companions {
    pub(super) fn read(dir: &Path, name: &str, companions: &[&str]) -> Self {
        let read = |companion: &&str| {
            let path = dir.join(format!("{name}.wasm.{companion}"));
            // A read from a pipe would wait for a writer.
            let file = fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()).then(|| fs::File::open(&path));
            let mut bytes = Vec::new();
            file?.ok()?.take(MAX_COMPANION).read_to_end(&mut bytes).ok()?;
            Some(bytes)
        };
        Self(companions.iter().map(read).collect())
    }

    pub(super) fn as_slice(&self) -> &[Option<Vec<u8>>] {
        &self.0
    }
}
