//! Files that are not plugins, or that cost much before they become plugins. They are in the directory when the
//! scheduler starts.

use std::{
    fs,
    process::{Command, Stdio},
    time::Duration,
};

use berth_test_guests::{At, harmless, slow_to_compile};
use serde_json::json;
use tokio::time::{interval, timeout};

use super::bench::{Bench, Guest, name_of};
use crate::{cluster::Cluster, process::DEADLINE};

const RULES: &str = "files: {compileSeconds: 2}\n";

/// Starts a scheduler with its own cache. The cache that tests share remembers refused files from one run to the next,
/// so nothing would be compiled.
async fn start(cluster: Cluster, guests: Vec<Guest>, rules: &str) -> Bench {
    let artefacts = cluster.dir.path().join("artefacts").display().to_string();
    Bench::start_with(cluster, guests, rules, &["--artifact-cache", &artefacts]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_costs_itself_alone() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let plugins = cluster.dir.path().join("plugins");
    fs::create_dir(&plugins).expect("a folder");
    let sparse = fs::File::create(plugins.join("Sparse.wasm")).expect("a file");
    sparse.set_len(6 << 30).expect("a sparse file");
    let guests = vec![
        Guest::new("Sparse", At::Filter, Vec::new()).late(),
        Guest::new("Text", At::Filter, b"not a plugin".to_vec()),
        Guest::new("Slow", At::Filter, slow_to_compile("Slow").expect("a component")),
        Guest::new("Good", At::Filter, harmless("Good", At::Filter).expect("a component")),
    ];
    let bench = start(cluster, guests, RULES).await;
    let reasons = [
        ("Sparse", "has 6442450944 bytes, more than the 134217728 that a plugin may have"),
        ("Text", "is not a WebAssembly file"),
        ("Slow", "takes more than 2 s of processor time to compile"),
    ];
    bench.binds_healthy(5).await;
    bench.create("Good", 1).await;
    bench.cluster.node_of(&name_of("Good", 0)).await;
    for (name, reason) in reasons {
        bench.shows([(name, json!({"state": "refused", "lastReason": reason}))]).await;
        bench.create(name, 1).await;
        let says = |message: &String| message.contains(name) && message.contains(reason);
        let pod = name_of(name, 0);
        bench.cluster.until(reason, |seen| seen.messages.get(&pod).is_some_and(says)).await;
    }
    for (name, _) in reasons {
        bench.place(name, &harmless(name, At::Filter).expect("a component"));
        bench.cluster.node_of(&name_of(name, 0)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_takes_much_memory_to_compile_is_refused() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let guest = Guest::new("Large", At::Filter, slow_to_compile("Large").expect("a component"));
    let bench = start(cluster, vec![guest], "files: {compileMemory: 600Mi}\n").await;
    bench.binds_healthy(5).await;
    let reason = "takes more than 629145600 bytes of memory to compile";
    bench.shows([("Large", json!({"state": "refused", "lastReason": reason}))]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_compilers_process_bounds_itself_before_it_reads_the_file() {
    let mut compiler = Command::new(env!("CARGO_BIN_EXE_berth"));
    compiler
        .args(["compile-component", "7", "600000000"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut compiler = compiler.spawn().expect("a process");
    let its =
        |file: &str| fs::read_to_string(format!("/proc/{}/{file}", compiler.id())).expect("a file of the process");
    let is_bounded = async {
        let mut every = interval(Duration::from_millis(10));
        // The compiler process sets this score as the last step before it reads its input.
        while its("oom_score_adj").trim() != "1000" {
            every.tick().await;
        }
    };
    timeout(DEADLINE, is_bounded).await.expect("the first victim of the out-of-memory killer");
    let limits = its("limits");
    let bounded = [
        ("Max cpu time", ["7", "8"]),
        ("Max data size", ["600000000", "600000000"]),
        ("Max core file size", ["0", "0"]),
    ];
    for (limit, [soft, hard]) in bounded {
        let line = limits.lines().find_map(|line| line.strip_prefix(limit)).unwrap_or_else(|| panic!("{limits}"));
        assert_eq!(line.split_whitespace().take(2).collect::<Vec<_>>(), [soft, hard], "{limit}");
    }
    // The compiler ends when its input ends without a component.
    drop(compiler.stdin.take());
    assert_eq!(compiler.wait().expect("its end").code(), Some(1));
}
