//! An operator reloads, disables, enables and rolls back plugins, and learns the consequences.

use std::{fs, path::Path};

use berth_test_guests::Behavior;
use serde_json::{Value, json};

use crate::plugin_life::{Bench, PLUGIN_CONFIG, digest};

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_steers_plugins() {
    let bench = Bench::start(PLUGIN_CONFIG).await;
    bench.put(1);
    bench.serves(&digest(1)).await;
    bench.put(2);
    bench.serves(&digest(2)).await;

    let entry = bench.ask(&["rollback", "ByPriority"]).await;
    assert_eq!((&entry["digest"], &entry["refusedDigest"]), (&json!(digest(1)), &json!(digest(2))));
    bench.serves(&digest(1)).await;
    let again = bench.berth(&["rollback", "ByPriority"]).await;
    assert_eq!(again.status.code(), Some(1));
    assert!(again.err.contains("cannot be rolled back: there is no earlier binary"), "{}", again.err);
    bench.ask(&["reload", "ByPriority"]).await;
    bench.serves(&digest(2)).await;

    assert_eq!(bench.ask(&["disable", "ByPriority"]).await["state"], "disabled");
    bench.create("trapping", Behavior::Trap).await;
    bench.cluster.node_of("trapping").await;
    assert_eq!(bench.ask(&["enable", "ByPriority"]).await["digest"], digest(2));

    let list = bench.berth(&["list"]).await;
    let line = list.out.lines().find(|line| line.contains("ByPriority")).expect("a line");
    assert!(line.contains("directory") && line.contains(&digest(2)[..12]), "{line}");
    let native = list.out.lines().find(|line| line.contains("NodeResourcesFit")).expect("a line");
    assert!(native.contains("serving") && native.contains("native"), "{native}");
    let described = bench.berth(&["describe", "ByPriority"]).await;
    assert!(
        described.out.contains(&digest(2)) && described.out.contains("Filter, Score, Reserve"),
        "{}",
        described.out
    );
    let nobody = bench.berth(&["reload", "Nobody"]).await;
    assert!(nobody.err.contains("unknown plugin \"Nobody\""), "{}", nobody.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_says_how_many_held_pods_go_on() {
    let write = |dir: &Path| {
        let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins: \
                      {permit: {enabled: [{name: Holder}]}}\n";
        fs::write(dir.join("config.yaml"), config).expect("a file");
        fs::write(dir.join("plugins.yaml"), PLUGIN_CONFIG.replace("ByPriority", "Holder")).expect("a file");
        let component = berth_test_guests::holds("Holder").expect("a component");
        fs::write(dir.join("plugins/Holder.wasm"), component).expect("a file");
    };
    let bench = Bench::start_with(write).await;
    for name in ["a", "b"] {
        bench.create(name, Behavior::Normal).await;
    }
    let are_held = |text: &str| text.contains("scheduler_goroutines{operation=\"binding\"} 2\n");
    bench.scheduler.until("/metrics", are_held).await;
    let disabled = bench.berth(&["disable", "Holder"]).await;
    assert_eq!(disabled.out, "Holder: disabled; 2 pods that it held at Permit go on without its answer\n");
    for name in ["a", "b"] {
        bench.cluster.node_of(name).await;
    }
    assert_eq!(bench.ask(&["enable", "Holder"]).await["releasedFromPermit"], Value::Null);
    let again = bench.ask(&["disable", "Holder"]).await;
    assert_eq!((&again["state"], &again["releasedFromPermit"]), (&json!("disabled"), &json!(0)), "{again}");
}
