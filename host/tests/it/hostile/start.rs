//! Fifty files are in the directory when the scheduler starts, and ten of them do harm while they are loaded or
//! started. The scheduler still starts, each bad file affects only itself, and no good file waits for a bad file.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use berth_test_components::component;
use berth_test_guests::{At, BadStart, as_large_as_in_c, bad_start, core_module, harmless, slow_to_compile};
use berth_test_languages::{LANGUAGES, build, folder};
use berth_wasm_host::{Binary, Engine, EngineOptions};
use serde_json::json;

use super::bench::{Bench, Guest, name_of};
use crate::cluster::{Cluster, Seen};

/// A file may take half a minute of processor time to compile, and two files use up this time.
const RULES: &str = "files: {compileSeconds: 30}\ndefaults: {limits: {lifecycleMilliseconds: 500}}\n";

/// The maximum time from the start of the process until `/livez` answers: many times as long as an idle machine needs.
const LIVE_TIME: Duration = Duration::from_secs(5);

/// Files that take half a minute to compile. The directory is read in the order of names: one file comes first, the
/// other file in the middle.
const SLOW: [&str; 2] = ["AlwaysCompiling", "KeepsCompiling"];

/// The number of fillers. The fillers, the ten bad files, the two built plugins and the cached plugin are fifty files.
/// The slow files are among the bad files.
const FILLERS: usize = 37;

/// Plugins in Rust and in C, as their authors build them. No profile names them.
fn built() -> Vec<(&'static str, Vec<u8>)> {
    let mut built = vec![("NodeMetadata", component("NodeMetadata").to_vec())];
    let c = LANGUAGES.iter().find(|language| language.folder == "c").expect("C has an SDK");
    if c.is_present().expect("a check of the toolchain") {
        let plugin = build(&folder("plugins/examples/tenant-quota-c"), "TenantQuota");
        built.push(("TenantQuota", plugin.expect("the plugin builds")));
    } else {
        eprintln!("no plugin in C: its toolchain is absent; another one that is as large takes its place");
        built.push(("TenantQuota", as_large_as_in_c("TenantQuota").expect("a component")));
    }
    built
}

/// Fills the plugins directory with the files that no profile names, good and bad.
fn fill(plugins: &Path, built: &[(&'static str, Vec<u8>)]) {
    let place = |name: &str, bytes: &[u8]| fs::write(plugins.join(format!("{name}.wasm")), bytes).expect("a file");
    fs::create_dir_all(plugins.join("Folder.wasm")).expect("a folder");
    place("Module", &core_module().expect("a module"));
    let sparse = fs::File::create(plugins.join("Sparse.wasm")).expect("a file");
    sparse.set_len(6 << 30).expect("a sparse file");
    for name in fillers() {
        place(&name, &harmless(&name, At::Filter).expect("a component"));
    }
    built.iter().for_each(|(name, bytes)| place(name, bytes));
}

fn fillers() -> impl Iterator<Item = String> {
    (0..FILLERS).map(|number| format!("Filler{number:02}"))
}

/// The plugins that profiles name. One of them is already compiled, in `artefacts`.
fn guests(artefacts: &Path) -> Vec<Guest> {
    let bad = |harm: BadStart| {
        let name = format!("{harm:?}");
        let bytes = bad_start(&name, harm).expect("a component");
        Guest::new(name, At::Filter, bytes)
    };
    let cached = harmless("Cached", At::Filter).expect("a component");
    let engine = EngineOptions { artefacts: Some(artefacts.to_owned()), ..EngineOptions::default() };
    Engine::new(engine).expect("an engine").load(&Binary::new("Cached", cached.clone())).expect("a plugin");
    let slow = SLOW.map(|name| Guest::new(name, At::Filter, slow_to_compile(name).expect("a component")));
    BadStart::ALL.into_iter().map(bad).chain(slow).chain([Guest::new("Cached", At::Filter, cached)]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_file_keeps_the_scheduler_or_another_file_from_starting() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let (plugins, artefacts) = (cluster.dir.path().join("plugins"), cluster.dir.path().join("artefacts"));
    let built = built();
    fill(&plugins, &built);
    let guests = guests(&artefacts);
    let artefacts = artefacts.display().to_string();
    let start = Instant::now();
    let bench = Bench::start_with(cluster, guests, RULES, &["--artifact-cache", &artefacts]).await;
    assert_eq!(fs::read_dir(&plugins).expect("a folder").count(), 50);
    let told = |what: &str| eprintln!("{:?} after its start: {what}", start.elapsed());
    told("the scheduler is ready");
    let live_after = bench.scheduler.live_after;
    eprintln!("{live_after:?} after the start of its process: /livez answers");
    assert!(live_after < LIVE_TIME, "/livez answered after {live_after:?}");
    bench.scheduler.until("/livez", |answer| answer.ends_with("ok")).await;
    // The scheduler waited for no compiler.
    bench.shows(SLOW.map(|name| (name, json!({"state": "loading"})))).await;
    bench.binds_healthy(5).await;
    told("healthy pods are bound");
    bench.create("Cached", 1).await;
    bench.cluster.node_of(&name_of("Cached", 0)).await;
    told("the cached plugin serves");
    for name in built.iter().map(|(name, _)| (*name).to_owned()).chain(fillers()) {
        bench.scheduler.until("/admin/plugins", |answer| is_loaded(answer, &name)).await;
    }
    told("the plugins in Rust and C and all other good files are loaded");
    bench.shows(SLOW.map(|name| (name, json!({"state": "loading"})))).await;
    told("the slow files are still being compiled");
    bench.create(SLOW[0], 1).await;
    let slow = name_of(SLOW[0], 0);
    let wait = "plugin \"AlwaysCompiling\" is being loaded: AlwaysCompiling.wasm in ";
    let says = |seen: &Seen| seen.messages.get(&slow).is_some_and(|message| message.contains(wait));
    bench.cluster.until("told of the wait", says).await;
    refuses_the_bad(&bench).await;
    told("all other bad files are refused");
    let name = format!("{:?}", BadStart::TrapInConfigure);
    bench.place(&name, &harmless(&name, At::Filter).expect("a component"));
    bench.cluster.node_of(&name_of(&name, 0)).await;
}

/// Checks that each bad file is refused in the list, and in the message of its profile's pod if it has a profile.
async fn refuses_the_bad(bench: &Bench) {
    let refused = |reason: &str| json!({"state": "refused", "lastReason": reason});
    for harm in BadStart::ALL {
        let name = format!("{harm:?}");
        bench.shows([(name.as_str(), refused(harm.reason()))]).await;
        bench.create(&name, 1).await;
        let pod = name_of(&name, 0);
        let says = |message: &String| message.contains(harm.reason());
        bench.cluster.until(harm.reason(), |seen| seen.messages.get(&pod).is_some_and(says)).await;
    }
    bench.shows([("Folder", refused("is a folder, not a file"))]).await;
    bench.shows([("Module", refused("is a core module, not a component"))]).await;
    bench.shows([("Sparse", refused("has 6442450944 bytes"))]).await;
}

/// Whether the list of plugins shows a binary of this name that was loaded.
fn is_loaded(answer: &str, name: &str) -> bool {
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let plugins: Vec<serde_json::Value> = serde_json::from_str(body).unwrap_or_default();
    let is_there = |plugin: &&serde_json::Value| plugin["name"] == name;
    plugins.iter().find(is_there).is_some_and(|plugin| plugin["state"] != "loading" && plugin["state"] != "refused")
}
