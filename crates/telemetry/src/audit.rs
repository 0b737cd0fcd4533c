//! The audit log (`--audit-log`): changes to plugins with the users that made them, and changes to the cluster for
//! plugins. Each entry is a line of JSON. `docs/src/audit.md` describes the fields.
//!
//! Entries go over a bounded channel to a separate thread. No other thread waits for it: an entry is dropped and
//! counted if the channel is full. Neither a slow disk nor a plugin with many effects can therefore delay scheduling.

mod rotating_file;

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use berth_model::{BinaryId, Digest};
use berth_scheduler::PodRef;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use tracing::error;

use self::rotating_file::RotatingFile;
use crate::clock;

/// The capacity of the channel: enough for a few seconds of a busy scheduler on a disk that hangs. An entry has at most
/// some kilobytes.
const BOUND: usize = 8192;

/// The maximum size of the log on disk: the file and its backups.
const MAX_BYTES: u64 = 100 << 20;
const N_BACKUPS: u32 = 5;

/// The reason why there is no audit log.
#[derive(Debug, thiserror::Error)]
pub enum AuditLogError {
    /// The file cannot be opened for appending.
    #[error("--audit-log {}: cannot be written: {source}", file.display())]
    Unwritable {
        /// The file, as it is on the command line.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system cannot start more threads.
    #[error("cannot start a thread for the audit log: {0}")]
    NoThread(#[source] io::Error),
}

/// The target of entries. The default target drops entries. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct AuditLog(Option<Writer>);

#[derive(Clone, Debug)]
struct Writer {
    queue: mpsc::Sender<Command>,
    n_dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Command {
    Write(Box<Entry>),
    Flush(oneshot::Sender<()>),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    time: String,
    plugin: String,
    #[serde(flatten)]
    by: By,
    #[serde(flatten)]
    event: AuditEvent,
}

/// The cause: a user, or a part of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "camelCase")]
pub enum By {
    /// An operator's order. The user is the owner of its token, or `local` for a user of this machine.
    Operator { user: String },
    /// A file of the plugins directory changed.
    PluginsDirectory,
    /// The registry of the plugin was asked.
    Registry,
    /// The operator's settings changed.
    PluginConfig,
    /// A fault, or time that passed.
    Scheduler,
    /// The plugin itself asked for the change.
    Plugin,
}

/// The text for the log: the words of the audit log, with the name of an operator.
impl fmt::Display for By {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator { user } => write!(formatter, "operator {user}"),
            Self::PluginsDirectory => formatter.write_str("pluginsDirectory"),
            Self::Registry => formatter.write_str("registry"),
            Self::PluginConfig => formatter.write_str("pluginConfig"),
            Self::Scheduler => formatter.write_str("scheduler"),
            Self::Plugin => formatter.write_str("plugin"),
        }
    }
}

/// The event that an entry is about.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AuditEvent {
    /// An operator's order, and the reason if the order was refused.
    Ordered {
        order: &'static str,
        refused: Option<String>,
    },
    /// A binary serves in a profile.
    Swapped {
        profile: String,
        version: String,
        digest: String,
    },
    /// Nothing serves in a profile any longer.
    Withdrawn {
        profile: String,
    },
    /// A profile could not take a binary.
    NotSwapped {
        profile: String,
        digest: Option<String>,
        reason: String,
    },
    /// A binary may not serve.
    Refused {
        digest: Option<String>,
        reason: String,
    },
    RolledBack {
        digest: String,
        to: String,
        reason: String,
    },
    Quarantined {
        digest: String,
        until: String,
        reason: String,
    },
    Released {
        digest: String,
    },
    /// The grants of a file under the plugin's name changed.
    GrantsChanged {
        old: serde_json::Value,
        new: serde_json::Value,
    },
    /// A request to the API server for the plugin.
    Effect(EffectEntry),
    /// The plugin asked for an effect without a grant.
    EffectRefused {
        effect: &'static str,
        pod: PodEntry,
        count: u32,
        reason: String,
    },
}

/// A change to the cluster for a plugin.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectEntry {
    /// The profile of the cycle in which the plugin asked for the change.
    pub profile: String,
    /// The digest of the binary that asked for the change; `native` for a built-in that runs natively.
    pub digest: String,
    /// The pod of the cycle.
    pub pod: PodEntry,
    pub cycle: u64,
    /// The call that returned the effect, such as `PreBind` or `Unreserve`.
    pub point: &'static str,
    #[serde(flatten)]
    pub target: EffectTarget,
    /// `ok`, or the error.
    pub result: String,
}

/// The object that an effect changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectTarget {
    /// `patch`, `create`, `delete`, `evict` or `event`.
    pub verb: &'static str,
    /// `apiVersion/kind`.
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    pub namespace: String,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodEntry {
    namespace: String,
    name: String,
    uid: String,
}

impl From<&PodRef> for PodEntry {
    fn from(pod: &PodRef) -> Self {
        Self { namespace: pod.namespace.to_string(), name: pod.name.to_string(), uid: pod.uid.to_string() }
    }
}

/// The digest in the form of the log; `built-in` if there is no binary from the plugins directory.
pub fn digest_or_built_in(digest: Option<Digest>) -> String {
    digest.map_or_else(|| "built-in".to_owned(), |digest| digest.to_string())
}

/// The binary as entries about effects show it: `native` for a built-in plugin that runs natively; empty if no binary is
/// known.
pub fn binary(binary: Option<BinaryId>) -> String {
    binary.map_or_else(String::new, |binary| binary.to_string())
}

impl AuditLog {
    /// Opens the log and starts the thread that writes. `-` stands for standard output. The thread ends with the last
    /// clone.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub fn open(target: Option<&Path>) -> Result<Self, AuditLogError> {
        let Some(target) = target else { return Ok(Self::default()) };
        let sink: Box<dyn io::Write + Send> = if target == Path::new("-") {
            Box::new(io::stdout())
        } else {
            let file = RotatingFile::open(target.to_owned(), MAX_BYTES, N_BACKUPS);
            Box::new(file.map_err(|source| AuditLogError::Unwritable { file: target.to_owned(), source })?)
        };
        Self::start(sink, target.to_owned(), BOUND)
    }

    fn start(mut sink: Box<dyn io::Write + Send>, target: PathBuf, bound: usize) -> Result<Self, AuditLogError> {
        let (queue, mut commands) = mpsc::channel(bound);
        let n_dropped = Arc::<AtomicU64>::default();
        let lost = Arc::clone(&n_dropped);
        let work = move || {
            let mut was_well = true;
            while let Some(command) = commands.blocking_recv() {
                let entry = match command {
                    Command::Write(entry) => entry,
                    Command::Flush(done) => {
                        // The caller may have stopped waiting.
                        let _ = done.send(());
                        continue;
                    }
                };
                let written = write(&mut *sink, &entry);
                if let Err(error) = &written {
                    lost.fetch_add(1, Ordering::Relaxed);
                    if was_well {
                        error!("--audit-log {}: cannot be written: {error}; entries are lost", target.display());
                    }
                }
                was_well = written.is_ok();
            }
        };
        berth_threads::spawn_background("audit-log", work).map_err(AuditLogError::NoThread)?;
        Ok(Self(Some(Writer { queue, n_dropped })))
    }

    /// Whether entries are written.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Records an entry. It never waits.
    pub fn record(&self, plugin: &str, by: By, event: AuditEvent) {
        let Some(writer) = &self.0 else { return };
        let time = clock::rfc3339(clock::wall(clock::now()));
        let entry = Entry { time, plugin: plugin.to_owned(), by, event };
        if writer.queue.try_send(Command::Write(Box::new(entry))).is_err() {
            writer.n_dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The number of entries that were not written.
    pub fn n_dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |writer| writer.n_dropped.load(Ordering::Relaxed))
    }

    /// Waits until all recorded entries are written, for at most `limit`.
    pub async fn flush(&self, limit: Duration) {
        let Some(writer) = &self.0 else { return };
        let (done, written) = oneshot::channel();
        let flushing = async {
            if writer.queue.send(Command::Flush(done)).await.is_ok() {
                // The thread answers, or it has ended after all its entries.
                let _ = written.await;
            }
        };
        // Entries that are still left are lost with the process.
        let _ = tokio::time::timeout(limit, flushing).await;
    }
}

fn write(sink: &mut dyn io::Write, entry: &Entry) -> io::Result<()> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    sink.write_all(&line)?;
    sink.flush()
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        sync::mpsc::{Receiver, Sender, channel},
    };

    use super::*;

    /// A writer that accepts a line whenever the test allows it.
    struct HeldWriter(Receiver<()>, Sender<String>);

    impl io::Write for HeldWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(io::Error::other)?;
            self.1.send(String::from_utf8_lossy(bytes).into_owned()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_disk_that_hangs_holds_up_nobody_and_costs_entries() {
        let ((open, gate), (taken, lines)) = (channel(), channel());
        let log = AuditLog::start(Box::new(HeldWriter(gate, taken)), "audit.log".into(), 4).expect("a thread");
        for number in 0..100 {
            let released = AuditEvent::Released { digest: number.to_string() };
            log.record("Mine", By::Operator { user: "ann".to_owned() }, released);
        }
        // One entry may already have left the channel for the disk.
        assert!((95..=96).contains(&log.n_dropped()), "{}", log.n_dropped());
        (0..5).for_each(|_| open.send(()).expect("the thread waits"));
        let line: serde_json::Value = serde_json::from_str(&lines.recv().expect("a line")).expect("JSON");
        let expected = serde_json::json!({"plugin": "Mine", "by": "operator", "user": "ann", "event": "released", "digest": "0", "time": line["time"]});
        assert_eq!(line, expected);
        drop(open);
        log.flush(Duration::from_secs(60)).await;
    }

    #[test]
    fn effects_are_flat() {
        let pod = PodEntry { namespace: "default".into(), name: "web".into(), uid: "7".into() };
        let target =
            EffectTarget { verb: "patch", kind: "v1/Node".into(), name: "n1".into(), ..EffectTarget::default() };
        let effect = EffectEntry {
            profile: "berth".into(),
            digest: "native".into(),
            pod,
            cycle: 3,
            point: "PreBind",
            target,
            result: "ok".into(),
        };
        let event = AuditEvent::Effect(effect);
        let entry = Entry { time: "T".into(), plugin: "Mine".into(), by: By::Plugin, event };
        let expected = serde_json::json!({
            "time": "T", "plugin": "Mine", "by": "plugin", "event": "effect", "profile": "berth", "digest": "native",
            "pod": {"namespace": "default", "name": "web", "uid": "7"}, "cycle": 3, "point": "PreBind",
            "verb": "patch", "kind": "v1/Node", "namespace": "", "name": "n1", "result": "ok",
        });
        assert_eq!(serde_json::to_value(entry).expect("JSON"), expected);
    }

    const GUIDE: &str = include_str!("../../../docs/src/audit.md");

    /// An entry of each event, with all of its fields.
    fn entries() -> Vec<AuditEvent> {
        let text = || "TEXT".to_owned();
        let pod = || PodEntry { namespace: text(), name: text(), uid: text() };
        let target = EffectTarget { subresource: Some(text()), ..EffectTarget::default() };
        let point = "PreBind";
        let effect =
            EffectEntry { profile: text(), digest: text(), pod: pod(), cycle: 3, point, target, result: text() };
        vec![
            AuditEvent::Ordered { order: "reload", refused: None },
            AuditEvent::Swapped { profile: text(), version: text(), digest: text() },
            AuditEvent::Withdrawn { profile: text() },
            AuditEvent::NotSwapped { profile: text(), digest: None, reason: text() },
            AuditEvent::Refused { digest: None, reason: text() },
            AuditEvent::RolledBack { digest: text(), to: text(), reason: text() },
            AuditEvent::Quarantined { digest: text(), until: text(), reason: text() },
            AuditEvent::Released { digest: text() },
            AuditEvent::GrantsChanged { old: serde_json::Value::Null, new: serde_json::Value::Null },
            AuditEvent::Effect(effect),
            AuditEvent::EffectRefused { effect: "patch", pod: pod(), count: 1, reason: text() },
        ]
    }

    /// The words between backticks.
    fn names(text: &str) -> impl Iterator<Item = &str> {
        text.split('`').skip(1).step_by(2)
    }

    #[test]
    fn the_guide_lists_each_event_with_its_fields() {
        let table = GUIDE.split("| `event` | further fields |").nth(1).expect("the table");
        let table = table.split("\n\n").next().unwrap_or_default();
        let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
        let rows: BTreeMap<&str, &str> = rows.collect();
        let mut made = BTreeSet::new();
        for entry in entries() {
            let fields = serde_json::to_value(entry).expect("JSON");
            let event = fields["event"].as_str().expect("a name").to_owned();
            let row = rows.get(event.as_str()).unwrap_or_else(|| panic!("audit.md does not list {event}"));
            let listed: BTreeSet<&str> = names(row).collect();
            for field in fields.as_object().expect("an object").keys().filter(|field| *field != "event") {
                assert!(listed.contains(field.as_str()), "audit.md does not list {field} of {event}");
            }
            made.insert(event);
        }
        assert_eq!(rows.into_keys().map(str::to_owned).collect::<BTreeSet<_>>(), made);
    }

    #[test]
    fn the_guide_lists_each_cause() {
        let row = GUIDE.lines().find(|line| line.starts_with("| `by` |")).expect("the row");
        let listed: BTreeSet<&str> = names(row).collect();
        let causes = [
            By::Operator { user: "ann".to_owned() },
            By::PluginsDirectory,
            By::Registry,
            By::PluginConfig,
            By::Scheduler,
            By::Plugin,
        ];
        for cause in causes {
            let text = cause.to_string();
            let cause = serde_json::to_value(cause).expect("JSON");
            assert_eq!(text.split(' ').next(), cause["by"].as_str(), "the log and the audit log use the same words");
            assert!(listed.contains(cause["by"].as_str().expect("a name")), "audit.md does not list {cause}");
        }
    }
}
