//! `berth bench`: the same workload through the engine and through processes, and a comparison with the figures of an
//! earlier run.

use std::time::Duration;

use serde_json::Value;
use tempfile::tempdir;

use crate::process::Process;

const LIMIT: Duration = Duration::from_secs(300);

/// The figures that `berth bench` prints as JSON.
async fn figures(arguments: &[&str]) -> Vec<Value> {
    let ended = Process::berth(["bench", "-o", "json"].iter().chain(arguments)).ended(LIMIT).await;
    assert!(ended.status.success(), "{arguments:?}: {}", ended.err);
    serde_json::from_str(&ended.out).expect("JSON on standard output")
}

fn number(figures: &Value, pointer: &str) -> f64 {
    figures.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer}: {figures}"))
}

const SMALL: [&str; 5] = ["SchedulingBasic", "--nodes", "20", "--pods", "40"];

#[tokio::test]
async fn two_runs_of_the_engine_are_compared() {
    let dir = tempdir().expect("a folder");
    let (first, placements) = (dir.path().join("first.json"), dir.path().join("placements.json"));
    let [first, placements] = [&first, &placements].map(|path| path.to_str().expect("a path"));
    let figures = figures(&[&SMALL[..], &["--equivalence-cache", "both", "--placements", placements]].concat()).await;
    let equivalence_cache: Vec<&Value> = figures.iter().map(|figures| &figures["equivalenceCache"]).collect();
    assert_eq!(equivalence_cache, [false, true]);
    assert!(figures.iter().all(|it| it["pods"] == 40 && number(it, "/cpuMicrosPerPod") > 0.0), "{figures:?}");
    std::fs::write(first, serde_json::to_string(&figures).expect("JSON")).expect("a file");
    let arguments = [&["bench"], &SMALL[..], &["--compare", first, "--placements", placements]].concat();
    let ended = Process::berth(arguments).ended(LIMIT).await;
    assert!(ended.status.success(), "{}", ended.err);
    assert!(ended.out.contains("compared with the other run: pods/s x"), "{}", ended.out);
    assert!(ended.err.contains("the node of every pod is the same as in"), "{}", ended.err);
}

/// Users that look at the page and explain pods are also measured, and the figures name them.
#[tokio::test]
async fn users_ask_while_pods_are_scheduled() {
    let users = ["--browsers", "2", "--view", "pods", "--explain", "--kept-decisions-mib", "0"];
    let figures = figures(&[&SMALL[..], &["--through", "http", "--rate", "20"], &users].concat()).await;
    let [figures] = figures.as_slice() else { panic!("{figures:?}") };
    assert_eq!(figures["runner"], "http, native, 2 browsers of pending pods, explanations");
    assert!(number(figures, "/copy/microsPerPod") > 0.0 && number(figures, "/copy/percentOfCore") > 0.0, "{figures}");
    assert!(
        number(figures, "/explanationMillis/p50") > 0.0 && number(figures, "/firstViewMillis/max") > 0.0,
        "{figures}"
    );
    let ended = Process::berth(["bench", "SchedulingBasic", "--explain"]).ended(LIMIT).await;
    assert!(!ended.status.success() && ended.err.contains("need --through http"), "{}", ended.err);
}

#[tokio::test]
async fn a_scheduler_process_is_measured_over_http() {
    for rate in [None, Some("200")] {
        let rate = rate.map_or(Vec::new(), |rate| vec!["--rate", rate]);
        let figures = figures(&[&SMALL[..], &["--through", "http", "--placed", "30"], &rate].concat()).await;
        let [figures] = figures.as_slice() else { panic!("{figures:?}") };
        assert!(number(figures, "/peakMegabytes") > 1.0);
        let threads = figures["cpuMicrosByThread"].as_object().expect("threads");
        assert!(threads.len() > 1, "{figures}");
        assert_eq!(figures["placedPods"], 30);
        assert_eq!(figures["firstBindingMillis"].is_null(), !rate.is_empty(), "{figures}");
        if !rate.is_empty() {
            assert!(number(figures, "/latencyMillis/p99") >= number(figures, "/latencyMillis/p50"), "{figures}");
        }
    }
}

#[tokio::test]
async fn a_workload_that_does_not_exist_is_named() {
    let ended = Process::berth(["bench", "SchedulingNothing"]).ended(LIMIT).await;
    assert!(!ended.status.success());
    assert!(ended.err.contains("no workload has `SchedulingNothing` in its name"), "{}", ended.err);
}
