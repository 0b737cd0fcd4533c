//! Who decides which files of a plugins directory are compiled, and what lies beside a file for that decision.

use std::{fs, io::Read as _, path::Path};

use berth_wasm_host::Binary;

use super::error::NotAdmitted;

/// What lies beside a file is a signature, or a few.
const MAX_COMPANION: u64 = 1 << 20;

/// Looks at a file before anything is done with it. Called on the thread that watches the directory.
pub trait Admission: std::fmt::Debug + Send + Sync {
    /// What else belongs to `NAME.wasm`: `sig` stands for `NAME.wasm.sig`. A change of one is a change of the file.
    fn companions(&self) -> &'static [&'static str];

    /// Whether the file may be compiled and run.
    ///
    /// # Errors
    /// Says why the file may not.
    fn admit(&self, file: Candidate<'_>) -> Result<Approval, NotAdmitted>;
}

/// A file and what lies beside it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    pub binary: &'a Binary,
    /// What lies beside the file, in the order of [`Admission::companions`]; `None` for what is not there.
    pub companions: &'a [Option<Vec<u8>>],
}

/// A file was admitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approval {
    /// Who vouches for the file, if anybody does.
    pub signed_by: Vec<String>,
}

/// What lies beside a file. One that is too large is cut off, and then cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Companions(Vec<Option<Vec<u8>>>);

impl Companions {
    pub(super) fn read(dir: &Path, name: &str, companions: &[&str]) -> Self {
        let read = |companion: &&str| {
            let path = dir.join(format!("{name}.wasm.{companion}"));
            // A pipe would wait for somebody to write into it.
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
