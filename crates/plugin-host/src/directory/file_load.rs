//! Loads one file of the plugins directory, from its bytes to the result.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use berth_model::Digest;
use berth_wasm_host::{Binary, ComponentFactory, Engine, LoadEffort};

use super::{
    DirectoryChange,
    admission::{Admission, Approval, Candidate, Companions},
    error::FileError,
    files::read_bounded,
};

/// Everything that is needed to load files.
#[derive(Clone, Debug)]
pub(super) struct Loader {
    pub engine: Engine,
    pub admission: Option<Arc<dyn Admission>>,
    pub dir: PathBuf,
}

/// The content of a file. A file with another content must be loaded again.
pub(super) type Content = (Option<Digest>, Companions);

/// A file that is being loaded. Each attempt has more effort, until the result is known.
#[derive(Debug)]
pub(super) struct FileLoad {
    loader: Loader,
    name: String,
    /// The content of the file when it was last loaded.
    known: Option<Content>,
    /// Whether an operator has ordered another load, even if an earlier refusal is remembered.
    is_ordered: bool,
    /// The content that an earlier attempt admitted, with the approval. The bytes are not kept in memory, because many
    /// files may wait.
    admitted: Option<(Content, Approval)>,
    spent: Spent,
}

/// The time that the attempts of a load have taken so far. The waits between attempts do not count.
#[derive(Clone, Debug, Default)]
pub(super) struct Spent(Arc<AtomicU64>);

/// The result of a load.
#[derive(Debug)]
pub(super) struct Found {
    /// `None` means that the content has not changed.
    pub change: Option<DirectoryChange>,
    pub end: LoadEnd,
}

/// The end of a load.
#[derive(Debug)]
pub(super) enum LoadEnd {
    /// The content of the file, which need not be a plugin.
    Content(Content),
    /// The load failed, but a later load may succeed.
    Failed,
}

impl Spent {
    fn add(&self, duration: Duration) {
        let milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.0.fetch_add(milliseconds, Ordering::Relaxed);
    }

    pub(super) fn total(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

impl Loader {
    pub(super) fn companions(&self) -> &'static [&'static str] {
        self.admission.as_ref().map_or(&[], |admission| admission.companions())
    }

    pub(super) fn read(&self, name: &str) -> Result<Binary, FileError> {
        // A control character would appear in logs, metrics and lists.
        if name.contains(char::is_control) {
            return Err(FileError::Name);
        }
        let path = self.dir.join(format!("{name}.wasm"));
        Ok(Binary::new(name, read_bounded(&path, self.engine.max_file_bytes())?))
    }

    fn admit(&self, binary: &Binary, companions: &Companions) -> Result<Approval, FileError> {
        self.engine.check_denied(binary.digest())?;
        match &self.admission {
            None => Ok(Approval::default()),
            Some(admission) => Ok(admission.admit(Candidate { binary, companions: companions.as_slice() })?),
        }
    }
}

impl FileLoad {
    pub(super) fn new(loader: Loader, name: String, known: Option<Content>, is_ordered: bool) -> Self {
        Self { loader, name, known, is_ordered, admitted: None, spent: Spent::default() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn spent(&self) -> Spent {
        self.spent.clone()
    }

    /// The result for the file; `None` if the attempt needs more effort.
    pub(super) fn attempt(&mut self, effort: LoadEffort) -> Option<Found> {
        let start = Instant::now();
        let found = self.look_into(effort);
        self.spent.add(start.elapsed());
        found
    }

    fn look_into(&mut self, effort: LoadEffort) -> Option<Found> {
        let companions = Companions::read(&self.loader.dir, &self.name, self.loader.companions());
        let binary = match self.loader.read(&self.name) {
            Ok(binary) => binary,
            Err(error) => {
                let change = Some(DirectoryChange::Refused { digest: None, error });
                return Some(Found { change, end: LoadEnd::Content((None, companions)) });
            }
        };
        let digest = Some(binary.digest());
        let content = (digest, companions);
        if self.known.as_ref() == Some(&content) {
            return Some(Found { change: None, end: LoadEnd::Content(content) });
        }
        Some(match self.load(&binary, &content, effort)? {
            Ok((factory, approval)) => {
                let change = DirectoryChange::Loaded { factory: Arc::new(factory), approval };
                Found { change: Some(change), end: LoadEnd::Content(content) }
            }
            Err(error) => {
                let end = if error.is_of_the_moment() { LoadEnd::Failed } else { LoadEnd::Content(content) };
                Found { change: Some(DirectoryChange::Refused { digest, error }), end }
            }
        })
    }

    fn load(
        &mut self,
        binary: &Binary,
        content: &Content,
        effort: LoadEffort,
    ) -> Option<Result<(ComponentFactory, Approval), FileError>> {
        let approval = match &self.admitted {
            Some((admitted, approval)) if admitted == content => approval.clone(),
            Some(_) | None => match self.loader.admit(binary, &content.1) {
                Ok(approval) => {
                    if self.is_ordered {
                        self.loader.engine.forget_refusal(binary.digest());
                    }
                    self.admitted = Some((content.clone(), approval.clone()));
                    approval
                }
                Err(error) => return Some(Err(error)),
            },
        };
        let loaded = self.loader.engine.try_load(binary, effort)?;
        Some(loaded.map(|factory| (factory, approval)).map_err(FileError::from))
    }
}
