//! The file of `--plugin-state` keeps the operators' decisions and the faults of plugins over a crash.

use std::fs;

use berth_test_guests::Behavior;
use serde_json::json;

use crate::plugin_life::{Bench, PLUGIN_CONFIG, TRAPPING, digest};

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_plugin_is_disabled_after_a_crash() {
    let mut bench = Bench::start(PLUGIN_CONFIG).await;
    bench.put(1);
    bench.serves(&digest(1)).await;
    bench.ask(&["disable", "ByPriority"]).await;
    bench.crash_and_start().await;
    let entry = bench.until("disabled", |plugin| plugin["state"] == "disabled").await;
    assert_eq!(entry["reason"], "disabled by an operator");
    bench.ask(&["enable", "ByPriority"]).await;
    bench.crash_and_start().await;
    let entry = bench.until("serving", |plugin| plugin["state"] == "serving").await;
    assert_eq!(entry["digest"], digest(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quarantine_goes_on_after_a_crash() {
    let mut bench = Bench::start_serving(PLUGIN_CONFIG).await;
    for name in TRAPPING {
        bench.create(name, Behavior::Trap).await;
    }
    let before = bench.until("quarantined", |plugin| plugin["state"] == "quarantined").await;
    bench.state_says("\"quarantine\"").await;
    for name in TRAPPING {
        bench.delete(name).await;
    }
    bench.crash_and_start().await;
    let after = bench.until("quarantined", |plugin| plugin["state"] == "quarantined").await;
    assert_eq!((&after["quarantined"]["digest"], &after["reason"]), (&json!(digest(1)), &before["reason"]));
    let seconds = |entry: &serde_json::Value| entry["quarantinedUntil"].as_u64().expect("a time") / 1000;
    assert!(seconds(&after).abs_diff(seconds(&before)) <= 2, "{before} {after}");
    bench.put(2);
    bench.serves(&digest(2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_binary_before_serves_after_a_crash() {
    let mut bench = Bench::start(PLUGIN_CONFIG).await;
    bench.put(1);
    bench.serves(&digest(1)).await;
    bench.put(2);
    bench.serves(&digest(2)).await;
    bench.ask(&["rollback", "ByPriority"]).await;
    bench.crash_and_start().await;
    let entry = bench.serves(&digest(1)).await;
    assert_eq!((&entry["refusedDigest"], &entry["state"]), (&json!(digest(2)), &json!("serving")));
    let reason = entry["reason"].as_str().expect("a text");
    let withdrawn = " was withdrawn: rolled back by an operator";
    assert!(reason.starts_with("ByPriority.wasm in ") && reason.ends_with(withdrawn), "{reason}");
    bench.put(3);
    bench.serves(&digest(3)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_nobody_can_read_is_set_aside() {
    let mut bench = Bench::start(PLUGIN_CONFIG).await;
    bench.put(1);
    bench.serves(&digest(1)).await;
    bench.ask(&["disable", "ByPriority"]).await;
    bench.state_says("\"disabled\": true").await;
    // A state that another version of the program wrote may look the same and mean something else.
    let mut state: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(bench.state_file()).expect("a file")).expect("JSON");
    state["version"] = json!(99);
    fs::write(bench.state_file(), state.to_string()).expect("a file");
    bench.crash_and_start().await;
    bench.until("serving", |plugin| plugin["state"] == "serving").await;
    let kept = bench.state_file().with_file_name("state.json.unusable");
    assert_eq!(fs::read_to_string(kept).expect("set aside"), state.to_string());
}
