//! The file of `--plugin-state`: the plugins' states that survive the process, as JSON.
//!
//! Times in the file come from the wall clock. The file is written to a temporary name, synced and renamed, so that a
//! complete file always exists. A file that cannot be read is set aside, and the scheduler starts without it: the file
//! helps operators, and must not prevent scheduling.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

use berth_lifecycle::{FailedBinary, QuarantineRecord, Remembered, RememberedQuarantine};
use berth_model::{Digest, PluginName};
use berth_telemetry::clock;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::{sync::watch, task::spawn_blocking};
use tracing::{info, warn};

/// The version of the format. Other versions cannot be read.
const VERSION: u32 = 1;

/// The maximum size of the file. A plugin takes some hundred bytes, so a larger file was not written by this program.
const MAX_BYTES: u64 = 16 << 20;

/// The time after which a failed write is repeated.
const RETRY: Duration = Duration::from_secs(10);

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct StateDocument {
    version: u32,
    plugins: BTreeMap<String, PluginEntry>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PluginEntry {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    disabled: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    quarantine: Option<QuarantineEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<FailedEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct QuarantineEntry {
    digest: HexDigest,
    until: Timestamp,
    reason: String,
    in_a_row: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FailedEntry {
    digest: HexDigest,
    reason: String,
    /// The previous binary; `None` if the previous binary does not serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    serving: Option<HexDigest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HexDigest(Digest);

/// The reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
enum UnusableState {
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("is not a regular file")]
    NotAFile,
    #[error("is too large for a plugin state file: {0} bytes")]
    TooLarge(u64),
    #[error("is not a plugin state file: {0}")]
    Json(#[from] serde_json::Error),
    #[error("has version {0}; this program supports version {known}", known = VERSION)]
    Version(u32),
}

impl StateDocument {
    pub(crate) fn of(remembered: impl IntoIterator<Item = (PluginName, Remembered)>) -> Self {
        let entry = |(name, remembered): (PluginName, Remembered)| (name.to_string(), PluginEntry::from(remembered));
        Self { version: VERSION, plugins: remembered.into_iter().map(entry).collect() }
    }

    /// The remembered state of each plugin.
    pub(crate) fn remembered(self) -> impl Iterator<Item = (PluginName, Remembered)> {
        self.plugins.into_iter().map(|(name, entry)| (PluginName::from(name), Remembered::from(entry)))
    }
}

/// The content of the file; empty without a file. A file that cannot be used is set aside.
pub(crate) fn read(file: &Path) -> StateDocument {
    let nothing = StateDocument::of([]);
    match try_read(file) {
        Ok(document) => document.unwrap_or(nothing),
        Err(reason) => {
            let aside = beside(file, ".unusable");
            let kept = match fs::rename(file, &aside) {
                Ok(()) => format!("the file was renamed to {}", aside.display()),
                Err(error) => format!("the file could not be renamed: {error}"),
            };
            warn!(
                "--plugin-state {}: {reason}; plugins start as if none had been disabled, quarantined or rolled back; {kept}",
                file.display()
            );
            nothing
        }
    }
}

fn try_read(file: &Path) -> Result<Option<StateDocument>, UnusableState> {
    /// The version is read before the other fields, because another version may have other fields.
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    // A read from a pipe would wait for a writer.
    let text = match fs::metadata(file) {
        Ok(metadata) if !metadata.is_file() => return Err(UnusableState::NotAFile),
        Ok(metadata) if metadata.len() > MAX_BYTES => return Err(UnusableState::TooLarge(metadata.len())),
        Ok(_) => fs::read(file)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let Version { version } = serde_json::from_slice(&text)?;
    if version != VERSION {
        return Err(UnusableState::Version(version));
    }
    Ok(Some(serde_json::from_slice(&text)?))
}

/// Writes the file in one step: after a crash, either the old file or the new file exists.
fn write(file: &Path, document: &StateDocument) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(document)?;
    let unfinished = beside(file, ".tmp");
    let mut written = fs::File::create(&unfinished)?;
    written.write_all(&text)?;
    written.sync_all()?;
    fs::rename(unfinished, file)?;
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(dir)?.sync_all()
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The remembered state of each plugin. The values are compared instead of documents, because the times in a document
/// change whenever the wall clock is set.
pub(crate) type AllRemembered = Vec<(PluginName, Remembered)>;

/// Writes the file whenever the state to remember changes.
#[derive(Debug)]
pub(crate) struct StateKeeper {
    latest: watch::Sender<(u64, AllRemembered)>,
    saved: watch::Receiver<u64>,
}

/// A number of a state. The state is on disk once the writer has reached the number.
#[derive(Debug)]
pub(crate) struct Saving {
    number: u64,
    saved: watch::Receiver<u64>,
}

impl StateKeeper {
    /// Starts the task that writes. The task ends when the keeper is dropped. This must be called inside a tokio
    /// runtime. The file is written immediately, which shows whether it can be written.
    pub(crate) fn spawn(file: PathBuf, remembered: AllRemembered) -> Self {
        let (latest, to_write) = watch::channel((1, remembered));
        let (done, saved) = watch::channel(0);
        tokio::spawn(keep(file, to_write, done));
        Self { latest, saved }
    }

    /// Remembers this state from now on.
    pub(crate) fn remember(&self, remembered: AllRemembered) {
        self.latest.send_if_modified(|(number, latest)| {
            let is_other = *latest != remembered;
            if is_other {
                (*number, *latest) = (*number + 1, remembered);
            }
            is_other
        });
    }

    /// A handle that completes once every state that was handed over so far is written.
    pub(crate) fn saving(&self) -> Saving {
        Saving { number: self.latest.borrow().0, saved: self.saved.clone() }
    }
}

impl Saving {
    /// Waits until the state is on disk, for at most `limit`.
    pub(crate) async fn done(mut self, limit: Duration) {
        // The writing thread reports a write that fails. The operator does not wait for this report.
        let _ = tokio::time::timeout(limit, self.saved.wait_for(|saved| *saved >= self.number)).await;
    }
}

async fn keep(file: PathBuf, mut to_write: watch::Receiver<(u64, AllRemembered)>, done: watch::Sender<u64>) {
    let mut has_failed = false;
    loop {
        let (number, remembered) = to_write.borrow_and_update().clone();
        let place = file.clone();
        let written = spawn_blocking(move || write(&place, &StateDocument::of(remembered))).await;
        match written.unwrap_or_else(|error| Err(io::Error::other(error))) {
            Ok(()) => {
                if std::mem::take(&mut has_failed) {
                    info!(file = %file.display(), "the plugin state file can be written again");
                }
                done.send_replace(number);
                if to_write.changed().await.is_err() {
                    return;
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut has_failed, true) {
                    warn!(
                        "--plugin-state {}: cannot be written: {error}; a restart would forget which plugins are \
                         disabled or quarantined; put the file on a writable volume",
                        file.display()
                    );
                }
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

impl From<Remembered> for PluginEntry {
    fn from(remembered: Remembered) -> Self {
        let Remembered { is_disabled, quarantine, failed } = remembered;
        let quarantine = quarantine.map(|RememberedQuarantine { record, n_in_a_row }| QuarantineEntry {
            digest: HexDigest(record.digest),
            until: clock::timestamp(clock::wall(record.until)),
            reason: record.reason,
            in_a_row: n_in_a_row,
        });
        let failed = failed.map(|FailedBinary { digest, reason, serving }| FailedEntry {
            digest: HexDigest(digest),
            reason,
            serving: serving.map(HexDigest),
        });
        Self { disabled: is_disabled, quarantine, failed }
    }
}

impl From<PluginEntry> for Remembered {
    fn from(entry: PluginEntry) -> Self {
        let PluginEntry { disabled, quarantine, failed } = entry;
        let quarantine = quarantine.map(|QuarantineEntry { digest, until, reason, in_a_row }| RememberedQuarantine {
            record: QuarantineRecord { digest: digest.0, until: clock::at_wall(until), reason },
            n_in_a_row: in_a_row,
        });
        let failed = failed.map(|FailedEntry { digest, reason, serving }| FailedBinary {
            digest: digest.0,
            reason,
            serving: serving.map(|serving| serving.0),
        });
        Self { is_disabled: disabled, quarantine, failed }
    }
}

impl Serialize for HexDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for HexDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(letter: u8) -> Digest {
        Digest::new([letter; 32])
    }

    fn remembered(until: &str) -> AllRemembered {
        let until = clock::at_wall(until.parse().expect("a time"));
        let record = QuarantineRecord { digest: digest(1), until, reason: "3 faults within 60 s".to_owned() };
        let failed = FailedBinary {
            digest: digest(2),
            reason: "was withdrawn: 1 faults on probation".to_owned(),
            serving: Some(digest(3)),
        };
        let quarantine = Some(RememberedQuarantine { record, n_in_a_row: 2 });
        vec![
            ("A".into(), Remembered { is_disabled: true, ..Remembered::default() }),
            ("B".into(), Remembered { quarantine, failed: Some(failed), is_disabled: false }),
        ]
    }

    #[test]
    fn a_document_reads_what_it_writes() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("state.json");
        assert_eq!(read(&file), StateDocument::of([]), "there is none yet");
        let document = StateDocument::of(remembered("2040-01-02T03:04:05Z"));
        write(&file, &document).expect("a writable folder");
        assert_eq!(read(&file), document);
        let text = fs::read_to_string(&file).expect("a file");
        assert!(text.contains("\"until\": \"2040-01-02T03:0"), "{text}");
        let again: AllRemembered = read(&file).remembered().collect();
        let failed =
            |all: &AllRemembered| all.iter().map(|(name, it)| (name.clone(), it.failed.clone())).collect::<Vec<_>>();
        assert_eq!(failed(&again), failed(&remembered("2040-01-02T03:04:05Z")));
        assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 1, "nothing unfinished");
    }

    #[test]
    fn a_file_of_no_use_is_set_aside() {
        let cases = [
            "",
            "{",
            "{\"version\":2}",
            "{\"version\":1,\"plugins\":{},\"more\":0}",
            "{\"version\":1,\"plugins\":{\"A\":1}}",
        ];
        for text in cases {
            let dir = tempfile::tempdir().expect("a folder");
            let file = dir.path().join("state.json");
            fs::write(&file, text).expect("a file");
            assert_eq!(read(&file), StateDocument::of([]), "{text}");
            assert!(!file.exists());
            assert_eq!(fs::read_to_string(dir.path().join("state.json.unusable")).expect("kept"), text);
        }
    }

    #[test]
    fn what_is_no_file_is_set_aside() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("state.json");
        fs::create_dir(&file).expect("a folder");
        assert_eq!(read(&file), StateDocument::of([]));
        assert!(dir.path().join("state.json.unusable").is_dir());
        rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RWXU).expect("a pipe");
        fs::remove_dir(dir.path().join("state.json.unusable")).expect("it is empty");
        assert_eq!(read(&file), StateDocument::of([]), "and it is not waited for");
        fs::remove_file(dir.path().join("state.json.unusable")).expect("set aside");
        fs::File::create(&file).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
        assert_eq!(read(&file), StateDocument::of([]));
    }

    #[tokio::test]
    async fn what_is_remembered_last_is_on_disk_in_the_end() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("state.json");
        let keeper = StateKeeper::spawn(file.clone(), Vec::new());
        for year in 2040..2060 {
            keeper.remember(remembered(&format!("{year}-06-02T03:04:05Z")));
        }
        keeper.saving().done(Duration::from_secs(60)).await;
        let text = fs::read_to_string(&file).expect("a file");
        assert!(text.contains("\"until\": \"2059-06-02T03:0"), "{text}");
    }
}
