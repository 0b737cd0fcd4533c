//! Files that do harm when they are loaded or started, all there when the scheduler starts: it starts all the same, and each costs
//! itself alone.

use std::{
    fs,
    time::{Duration, Instant},
};

use berth_test_guests::{At, BadStart, bad_start, harmless, slow_to_compile};
use serde_json::json;

use super::bench::{Bench, Guest, name_of};
use crate::cluster::Cluster;

/// The last file, by name, takes half a minute of processor time.
const RULES: &str = "files: {compileSeconds: 30}\ndefaults: {limits: {lifecycleMilliseconds: 500}}\n";

const COMPILING: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn no_file_keeps_the_scheduler_from_starting() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let plugins = cluster.dir.path().join("plugins");
    fs::create_dir(&plugins).expect("a folder");
    fs::create_dir(plugins.join("Folder.wasm")).expect("a folder");
    let bad = |harm: BadStart| {
        let name = format!("{harm:?}");
        let bytes = bad_start(&name, harm).expect("a component");
        Guest::new(name, At::Filter, bytes)
    };
    let mut guests: Vec<Guest> = BadStart::ALL.into_iter().map(bad).collect();
    guests.push(Guest::new("Good", At::Filter, harmless("Good", At::Filter).expect("a component")));
    guests.push(Guest::new("Unhurried", At::Filter, slow_to_compile("Unhurried").expect("a component")));
    let start = Instant::now();
    let bench = Bench::start(cluster, guests, RULES).await;
    assert!(start.elapsed() < COMPILING, "it waited for a compiler: {:?}", start.elapsed());
    bench.binds_healthy(5).await;
    bench.create("Unhurried", 1).await;
    let slow = name_of("Unhurried", 0);
    let says = |message: &String| message.contains("plugin \"Unhurried\" is being loaded: Unhurried.wasm in ");
    bench.cluster.until("told of the wait", |seen| seen.messages.get(&slow).is_some_and(says)).await;
    bench.create("Good", 1).await;
    bench.cluster.node_of(&name_of("Good", 0)).await;
    for harm in BadStart::ALL {
        let name = format!("{harm:?}");
        bench.shows([(name.as_str(), json!({"state": "refused", "lastReason": harm.reason()}))]).await;
        bench.create(&name, 1).await;
        let pod = name_of(&name, 0);
        let says = |message: &String| message.contains(harm.reason());
        bench.cluster.until(harm.reason(), |seen| seen.messages.get(&pod).is_some_and(says)).await;
    }
    let name = format!("{:?}", BadStart::TrapInConfigure);
    bench.place(&name, &harmless(&name, At::Filter).expect("a component"));
    bench.cluster.node_of(&name_of(&name, 0)).await;
}
