//! `berth bundle`: the state of a running scheduler in one file, for a support request or a bug report.
//!
//! Each endpoint gives a file of the archive. An endpoint that does not answer leaves its file out, and `README.txt` in
//! the archive has the reason. `redact` replaces names.

mod redact;

use std::{
    fs,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, bail};
use berth_page::Overview;
use berth_plugin_cli::{AdminClient, Server, block_on};
use berth_telemetry::clock::rfc3339;
use clap::Args;
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use self::redact::Redactor;

const EXAMPLES: &str = "\
The file is an archive (.tar.gz) with

  README.txt            a list of the content, and the reason for each missing file
  version.json          the versions of this program and of the scheduler
  configuration.json    the configuration in force, as /configz gives it
  settings.json         the file of --plugin-config, and whether it is in force
  plugins.json          each plugin: version, digest, state, faults, grants and limits
  overview.json         queues, rates, times, and pending pods by reason
  cache.json            each node with its amounts and pods, and each pod in the queue
  decisions.json        the last hundred decisions, about pods that are named by uid
  metrics.txt           /metrics
  health.txt            /readyz, check by check
  pods/                 why the oldest pending pods wait: `berth explain` about each
  logs/                 the ends of the files of --log-file
  profile.pb.gz         with --profile: which functions used the processor time, for `go tool pprof`

The file never has Secrets, environment variables or the keys and certificates of a configuration. The file has names of pods, nodes
and namespaces, and the arguments of plugins. With --redact each name and each free text is a digest. Within one bundle the same
name has the same digest. Logs and profiles are then left out. Read the file before you pass it on.

Examples:
  berth bundle                                      the scheduler of this machine, over its admin socket
  berth bundle --log-file /var/log/berth.log --profile 10s
  berth bundle --redact --server 10.0.0.5:10259 --certificate-authority ca.crt --to report.tar.gz";

/// The end of a log that is added.
const LOG_TAIL: u64 = 4 << 20;

/// The maximum duration of a profile. A server takes no longer than this for an answer.
const LONGEST_PROFILE: Duration = Duration::from_secs(60);

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Bundle {
    /// Write to this file, which must not exist [default: berth-bundle-TIME.tar.gz]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Replace names and free texts by digests
    #[arg(long)]
    redact: bool,
    /// Number of the oldest pending pods to explain
    #[arg(long, value_name = "N", default_value_t = 20)]
    pods: usize,
    /// Add the last 4 MiB of this log; may be repeated
    #[arg(long, value_name = "FILE", conflicts_with = "redact")]
    log_file: Vec<PathBuf>,
    /// Add a profile of the processor time over this duration, at most 60s
    #[arg(long, value_name = "DURATION", value_parser = profile_duration, conflicts_with = "redact")]
    profile: Option<Duration>,
    #[command(flatten)]
    server: Server,
}

/// The content of the archive.
#[derive(Default)]
struct Contents {
    files: Vec<ArchivedFile>,
    /// The files that are missing, each with the reason.
    missing: Vec<String>,
}

struct ArchivedFile {
    path: String,
    bytes: Vec<u8>,
}

pub(crate) fn run(bundle: &Bundle) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at = rfc3339(u64::try_from(now.as_millis()).unwrap_or_default());
    let to = bundle.to.clone().unwrap_or_else(|| format!("berth-bundle-{}.tar.gz", file_name(&at)).into());
    let logs = bundle.log_file.iter().map(|file| log_tail(file)).collect::<Result<Vec<_>>>()?;
    let redactor = bundle.redact.then(Redactor::new).transpose()?;
    let mut contents = block_on(async {
        let client = bundle.server.client().await?;
        collect(&client, bundle, redactor.as_ref()).await
    })?;
    contents.files.extend(logs);
    let readme = readme(&contents, &at, bundle.redact);
    contents.files.insert(0, ArchivedFile { path: "README.txt".to_owned(), bytes: readme.into_bytes() });
    write(&to, &contents.files, now).with_context(|| format!("--to {}: cannot be written", to.display()))?;
    let mut err = io::stderr();
    for missing in &contents.missing {
        writeln!(err, "warning: {missing}")?;
    }
    Ok(writeln!(io::stdout(), "{}", to.display())?)
}

/// Asks the scheduler for everything.
///
/// # Errors
/// Nothing answers.
async fn collect(client: &AdminClient, bundle: &Bundle, redactor: Option<&Redactor>) -> Result<Contents> {
    let mut contents = Contents::default();
    // If the overview fails because nothing answers, all other requests would also fail.
    let overview = client.document("/overview").await;
    let pending = overview.as_ref().map(pending).unwrap_or_default();
    let version = json!({
        "berth": env!("CARGO_PKG_VERSION"),
        "scheduler": client.document("/version").await.unwrap_or_default(),
    });
    contents.add("version.json", Ok(version), None);
    contents.add("configuration.json", client.document("/configz").await.map(without_keys), redactor);
    contents.add("settings.json", client.document("/admin/settings").await, redactor);
    contents.add("plugins.json", client.document("/admin/plugins").await, redactor);
    contents.add("overview.json", overview, redactor);
    contents.add("cache.json", client.document("/debug/cache").await, redactor);
    contents.add("decisions.json", client.document("/debug/decisions").await, redactor);
    let redacted = |text: String| redactor.map_or_else(|| text.clone(), |redactor| redactor.metrics(&text));
    contents.add_text("metrics.txt", client.text("/metrics").await.map(redacted));
    // The checks are the content of the file, even if the scheduler is not ready.
    let health = client.text("/readyz?verbose").await.unwrap_or_else(|error| format!("{error:#}\n"));
    contents.add_text("health.txt", Ok(if redactor.is_some() { Redactor::health(&health) } else { health }));
    for Pending { namespace, name } in pending.iter().take(bundle.pods) {
        let shown = |text: &str| redactor.map_or_else(|| text.to_owned(), |redactor| redactor.name(text));
        let path = format!("pods/{}_{}.json", shown(namespace), shown(name));
        let explained = client.document(&format!("/explain?namespace={namespace}&name={name}")).await;
        contents.add(&path, explained, redactor);
    }
    if let Some(duration) = bundle.profile {
        match client.bytes(&format!("/debug/pprof/profile?seconds={}", duration.as_secs().max(1))).await {
            Ok(bytes) => contents.files.push(ArchivedFile { path: "profile.pb.gz".to_owned(), bytes }),
            Err(error) => contents.missing.push(format!("profile.pb.gz: {error:#}")),
        }
    }
    match contents.missing.first() {
        // The version of this program and the error of the health check are always available.
        Some(reason) if contents.files.len() <= 2 => bail!("{}", reason.split_once(": ").map_or("", |(_, it)| it)),
        _ => Ok(contents),
    }
}

impl Contents {
    fn add(&mut self, path: &str, document: Result<Value>, redactor: Option<&Redactor>) {
        let text = document.and_then(|mut document| {
            if let Some(redactor) = redactor {
                redactor.document(&mut document);
            }
            Ok(serde_json::to_string_pretty(&document)? + "\n")
        });
        self.add_text(path, text);
    }

    fn add_text(&mut self, path: &str, text: Result<String>) {
        match text {
            Ok(text) => self.files.push(ArchivedFile { path: path.to_owned(), bytes: text.into_bytes() }),
            Err(error) => self.missing.push(format!("{path}: {error:#}")),
        }
    }
}

/// A pod that waits.
struct Pending {
    namespace: String,
    name: String,
}

/// The pending pods of an overview, the oldest first.
fn pending(overview: &Value) -> Vec<Pending> {
    let overview: Overview = serde_json::from_value(overview.clone()).unwrap_or_default();
    let oldest = overview.pending.map(|pending| pending.oldest).unwrap_or_default();
    oldest.into_iter().map(|pod| Pending { namespace: pod.namespace, name: pod.name }).collect()
}

/// Removes the keys and certificates that the configuration of an extender may hold.
fn without_keys(mut configuration: Value) -> Value {
    const SECRETS: [&str; 3] = ["keyData", "certData", "caData"];
    let mut rest = vec![&mut configuration];
    while let Some(value) = rest.pop() {
        match value {
            Value::Object(map) => {
                map.retain(|key, _| !SECRETS.contains(&key.as_str()));
                rest.extend(map.values_mut());
            }
            Value::Array(list) => rest.extend(list),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    configuration
}

/// The end of a log file.
fn log_tail(file: &Path) -> Result<ArchivedFile> {
    let tail = || -> io::Result<Vec<u8>> {
        let mut opened = fs::File::open(file)?;
        let skipped = opened.metadata()?.len().saturating_sub(LOG_TAIL);
        opened.seek(SeekFrom::Start(skipped))?;
        let mut bytes = Vec::new();
        opened.take(LOG_TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let bytes = tail().with_context(|| format!("--log-file {}: cannot be read", file.display()))?;
    Ok(ArchivedFile { path: format!("logs/{name}"), bytes })
}

fn readme(contents: &Contents, at: &str, is_redacted: bool) -> String {
    let mut text = format!("A running scheduler at {at}, collected by berth {}.\n", env!("CARGO_PKG_VERSION"));
    if is_redacted {
        text += "Names and free texts are digests. The same name has the same digest in all files.\n";
    }
    text += "\nFiles:\n";
    for file in &contents.files {
        text += &format!("  {} ({} bytes)\n", file.path, file.bytes.len());
    }
    if !contents.missing.is_empty() {
        text += "\nMissing:\n";
        for missing in &contents.missing {
            text += &format!("  {missing}\n");
        }
    }
    text
}

/// Writes the archive. Only the user may read it.
fn write(to: &Path, files: &[ArchivedFile], now: Duration) -> io::Result<()> {
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    for ArchivedFile { path, bytes } in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(now.as_secs());
        archive.append_data(&mut header, Path::new("berth-bundle").join(path), bytes.as_slice())?;
    }
    archive.into_inner()?.finish()?.sync_all()
}

/// A time without the characters that some file systems refuse: `20260102T030405Z`.
fn file_name(rfc3339: &str) -> String {
    let seconds = rfc3339.split_once('.').map_or(rfc3339, |(seconds, _)| seconds);
    seconds.chars().filter(char::is_ascii_alphanumeric).chain(['Z']).collect()
}

fn profile_duration(text: &str) -> Result<Duration> {
    let duration = crate::options::duration(text)?;
    if duration.is_zero() || duration > LONGEST_PROFILE {
        bail!("expected more than 0s and at most {}s", LONGEST_PROFILE.as_secs());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_certificates_are_left_out_wherever_they_stand() {
        let configuration = json!({ "extenders": [{ "tlsConfig": { "keyData": "c2VjcmV0", "keyFile": "key.pem" } }] });
        let kept = json!({ "extenders": [{ "tlsConfig": { "keyFile": "key.pem" } }] });
        assert_eq!(without_keys(configuration), kept);
    }

    #[test]
    fn a_log_is_cut_at_its_beginning() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("berth.log");
        let (mut text, tail) = (vec![b'a'; 100], usize::try_from(LOG_TAIL).expect("a few MiB"));
        text.resize(tail + 100, b'b');
        fs::write(&file, text).expect("a file");
        let ArchivedFile { path, bytes } = log_tail(&file).expect("it can be read");
        assert_eq!((path.as_str(), bytes.len()), ("logs/berth.log", tail));
        assert!(bytes.iter().all(|byte| *byte == b'b'));
        assert!(log_tail(Path::new("/nothing.log")).is_err());
    }

    #[test]
    fn file_names_have_letters_and_digits() {
        assert_eq!(file_name("2026-01-02T03:04:05.678Z"), "20260102T030405Z");
    }
}
