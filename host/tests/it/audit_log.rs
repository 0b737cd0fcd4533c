//! The audit log contains the changes to plugins with their users, and the changes by plugins to the cluster.

use berth_test_guests::Behavior;
use serde_json::{Value, json};

use crate::plugin_life::{Bench, PLUGIN_CONFIG, TRAPPING, digest};

impl Bench {
    /// Waits for an entry with these fields.
    async fn audited(&self, wanted: Value) -> Value {
        let is_it = |entry: &Value| {
            let wanted = wanted.as_object().expect("fields");
            wanted.iter().all(|(field, value)| entry[field] == *value)
        };
        let find = |text: &str| {
            let entries = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            entries.into_iter().find(&is_it)
        };
        let file = self.cluster.dir.path().join("audit.log");
        let text = self.file_that(&file, |text| find(text).is_some(), &wanted.to_string()).await;
        find(&text).expect("waited for")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_something_to_a_plugin_is_written_down() {
    let bench = Bench::start(PLUGIN_CONFIG).await;
    bench.put(1);
    bench.serves(&digest(1)).await;
    let swapped = json!({"event": "swapped", "by": "pluginsDirectory", "plugin": "ByPriority", "digest": digest(1)});
    let entry = bench.audited(swapped).await;
    assert!(entry["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{entry}");
    assert_eq!(entry["profile"], "default-scheduler");
    bench.put(2);
    bench.serves(&digest(2)).await;
    bench.ask(&["rollback", "ByPriority"]).await;
    bench
        .audited(json!({"event": "ordered", "by": "operator", "user": "local", "order": "rollback", "refused": null}))
        .await;
    bench.audited(json!({"event": "rolledBack", "by": "operator", "digest": digest(2), "to": digest(1)})).await;
    bench.audited(json!({"event": "swapped", "by": "operator", "user": "local", "digest": digest(1)})).await;
    assert!(!bench.berth(&["rollback", "ByPriority"]).await.status.success());
    let refused = "plugin \"ByPriority\" cannot be rolled back: there is no earlier binary";
    bench.audited(json!({"event": "ordered", "order": "rollback", "refused": refused})).await;
    for name in TRAPPING {
        bench.create(name, Behavior::Trap).await;
    }
    bench.audited(json!({"event": "quarantined", "by": "scheduler", "digest": digest(1)})).await;
    bench.audited(json!({"event": "withdrawn", "by": "scheduler"})).await;
    bench.configure(&format!("{PLUGIN_CONFIG}  grants: {{effects: [event]}}\n"));
    let entry = bench.audited(json!({"event": "grantsChanged", "by": "pluginConfig", "plugin": "ByPriority"})).await;
    assert_eq!((&entry["old"]["effects"], &entry["new"]["effects"]), (&json!([]), &json!(["event"])));
}
