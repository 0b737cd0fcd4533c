//! `berth bundle` of a running scheduler: its content, its hidden names, and its reasons for missing files.

use std::{collections::BTreeMap, fs, io::Read as _, os::unix::fs::PermissionsExt as _, path::Path};

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::{
    cluster::pod,
    explain::Bench,
    process::{DEADLINE, Process},
};

/// The files of an archive by their paths.
fn unpacked(file: &Path) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(GzDecoder::new(fs::File::open(file).expect("the bundle")));
    let mut files = BTreeMap::new();
    for entry in archive.entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        let path = entry.path().expect("a path").display().to_string();
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("text");
        files.insert(path.strip_prefix("berth-bundle/").expect("one folder").to_owned(), text);
    }
    files
}

fn document(files: &BTreeMap<String, String>, path: &str) -> Value {
    serde_json::from_str(&files[path]).expect("JSON")
}

/// A scheduler with a pod that no node can take.
async fn bench() -> Bench {
    let bench = Bench::start().await;
    let mut huge = pod("payroll-huge", "1000", "64Mi");
    huge["metadata"]["labels"] = json!({ "team": "blue-team" });
    huge["spec"]["nodeSelector"] = json!({ "team": "blue-team" });
    bench.cluster.create(&huge).await;
    bench.cluster.until("the pod is pending", |seen| seen.messages.contains_key("payroll-huge")).await;
    bench
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_has_the_state_of_the_scheduler() {
    let bench = bench().await;
    let to = bench.cluster.dir.path().join("bundle.tar.gz");
    let log = bench.cluster.dir.path().join("berth.log");
    fs::write(&log, "the last lines\n").expect("a log");
    let (path, log) = (to.display().to_string(), log.display().to_string());
    let ended = bench.run(&["bundle", "--to", &path, "--log-file", &log]).await;
    assert!(ended.status.success() && ended.err.is_empty(), "{}{}", ended.out, ended.err);
    assert_eq!(ended.out.trim(), path);
    assert_eq!(fs::metadata(&to).expect("the bundle").permissions().mode() & 0o777, 0o600);
    let files = unpacked(&to);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let expected = [
        "README.txt",
        "cache.json",
        "configuration.json",
        "decisions.json",
        "health.txt",
        "logs/berth.log",
        "metrics.txt",
        "overview.json",
        "plugins.json",
        "pods/default_payroll-huge.json",
        "settings.json",
        "version.json",
    ];
    assert_eq!(names, expected);
    assert_eq!(document(&files, "pods/default_payroll-huge.json")["reason"], "LargerThanAnyNode");
    assert_eq!(
        document(&files, "configuration.json")["componentconfig"]["profiles"][0]["schedulerName"],
        "default-scheduler"
    );
    let cache = document(&files, "cache.json");
    assert_eq!(cache["nodes"].as_array().map(Vec::len), Some(1), "{cache}");
    let allocatable = cache["nodes"][0]["resources"]["allocatable"].as_array().expect("amounts");
    assert!(allocatable.iter().any(|it| it["resource"] == "cpu" && it["amount"].as_i64() > Some(0)), "{cache}");
    let waiting = &cache["queue"][0];
    assert_eq!(waiting["pod"]["name"], "payroll-huge", "{cache}");
    let decisions = document(&files, "decisions.json");
    assert!(decisions[0]["uid"].is_string() && decisions[0]["uid"] == waiting["pod"]["uid"], "{decisions}");
    assert!(waiting["rejectedBy"].as_str().is_some_and(|plugins| !plugins.is_empty()), "{cache}");
    assert!(
        document(&files, "plugins.json")
            .as_array()
            .is_some_and(|plugins| plugins.iter().any(|it| it["name"] == "NodeName"))
    );
    assert!(files["metrics.txt"].contains("\nberth_events_dropped_total 0\n"), "{}", files["metrics.txt"]);
    assert!(files["health.txt"].contains("readyz check passed"), "{}", files["health.txt"]);
    assert_eq!(files["logs/berth.log"], "the last lines\n");
    // An older bundle is not overwritten.
    let again = bench.run(&["bundle", "--to", &path]).await;
    assert!(!again.status.success() && again.err.contains("bundle.tar.gz: cannot be written"), "{}", again.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redacted_bundle_has_no_names_and_the_same_numbers() {
    let bench = bench().await;
    let to = bench.cluster.dir.path().join("bundle.tar.gz");
    let ended = bench.run(&["bundle", "--redact", "--to", &to.display().to_string()]).await;
    assert!(ended.status.success(), "{}{}", ended.out, ended.err);
    let files = unpacked(&to);
    assert_eq!(document(&files, "overview.json")["pending"]["pods"], 1);
    let pod = files.keys().find(|path| path.starts_with("pods/")).expect("the pod is explained");
    assert_eq!(document(&files, pod)["analysis"]["nodes"], 1);
    let cache = document(&files, "cache.json");
    assert_eq!(cache["queue"][0]["queue"], "unschedulable");
    assert_eq!(document(&files, "decisions.json")[0]["uid"], cache["queue"][0]["pod"]["uid"]);
    let dir = bench.cluster.dir.path().display().to_string();
    for (path, text) in &files {
        for name in ["payroll", "blue-team", "team", "node-0", "Insufficient", &dir] {
            assert!(!text.contains(name) && !path.contains(name), "{path} has {name}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_gets_what_it_may_see_and_learns_what_is_missing() {
    let bench = bench().await;
    let to = bench.cluster.dir.path().join("bundle.tar.gz").display().to_string();
    let nobody = bench.run_as("eve", &["bundle", "--to", &to]).await;
    assert!(!nobody.status.success() && nobody.err.contains("eve"), "{}", nobody.err);
    assert!(!Path::new(&to).exists());
    let root = bench.run_as("root", &["bundle", "--to", &to, "--pods", "0"]).await;
    assert!(root.status.success(), "{}", root.err);
    assert!(!unpacked(Path::new(&to)).keys().any(|path| path.starts_with("pods/")));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_scheduler_there_is_an_error_and_no_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let ended = Process::berth(["bundle", "--socket", &path("none.sock"), "--to", &path("bundle.tar.gz")])
        .ended(DEADLINE)
        .await;
    assert!(!ended.status.success() && ended.err.contains("no scheduler answers at"), "{}", ended.err);
    assert!(!Path::new(&path("bundle.tar.gz")).exists());
}
