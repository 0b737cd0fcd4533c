//! A plugin is added late, fails, is quarantined, is replaced and is rolled back while the scheduler runs. The messages
//! of pods say why they wait, and `berth plugin` shows and changes the state of a plugin.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    time::Duration,
};

use berth_test_guests::Behavior;
use k8s_openapi::{
    api::events::v1::Event,
    jiff::{SignedDuration, Timestamp},
};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, Scheduler, pod},
    process::{Ended, Process},
};

/// A configuration that enables the plugin `ByPriority`.
pub(crate) const CONFIG: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podMaxBackoffSeconds: 1
profiles:
- plugins:
    filter:
      enabled: [{name: ByPriority}]
";

/// A quarantine that is longer than any test, and a probation that ends with the first fault.
pub(crate) const PLUGIN_CONFIG: &str = "
apiVersion: berth.dev/v1alpha1
kind: PluginHostConfiguration
plugins:
- name: ByPriority
  quarantine: {faults: 3, windowSeconds: 600, backoffSeconds: 3600}
  probation: {seconds: 3600, faults: 0}
";

/// Pods that make the plugin fault as often as [`PLUGIN_CONFIG`] takes for a quarantine.
pub(crate) const TRAPPING: [&str; 3] = ["trapping-0", "trapping-1", "trapping-2"];

const LIMIT: Duration = Duration::from_secs(240);

/// A cluster, and a scheduler that enables the plugin `ByPriority`.
pub(crate) struct Bench {
    pub(crate) cluster: Cluster,
    pub(crate) scheduler: Scheduler,
    /// The arguments of the scheduler.
    arguments: Vec<String>,
}

impl Bench {
    pub(crate) async fn start(plugin_config: &str) -> Self {
        Self::start_with(|dir| fs::write(dir.join("plugins.yaml"), plugin_config).expect("a file")).await
    }

    /// Starts with the first version in its place, so the plugin is not on probation.
    pub(crate) async fn start_serving(plugin_config: &str) -> Self {
        let write = |dir: &Path| {
            fs::write(dir.join("plugins.yaml"), plugin_config).expect("a file");
            fs::write(dir.join("plugins/ByPriority.wasm"), by_priority(1)).expect("a file");
        };
        let bench = Self::start_with(write).await;
        bench.serves(&digest(1)).await;
        bench
    }

    /// Starts after `write` has put `plugins.yaml` into the folder.
    pub(crate) async fn start_with(write: impl FnOnce(&Path)) -> Self {
        let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
        let path = |name: &str| cluster.dir.path().join(name).display().to_string();
        fs::create_dir(path("plugins")).expect("a folder");
        fs::write(path("config.yaml"), CONFIG).expect("a file");
        write(cluster.dir.path());
        let flags = [
            ("config", "config.yaml"),
            ("plugins-dir", "plugins"),
            ("plugin-config", "plugins.yaml"),
            ("plugin-state", "state.json"),
            ("audit-log", "audit.log"),
        ];
        let arguments: Vec<String> = flags.iter().flat_map(|(flag, file)| [format!("--{flag}"), path(file)]).collect();
        let scheduler = start(&cluster, &arguments).await;
        for behavior in [Behavior::Trap, Behavior::LogMuch] {
            create_priority_class(&cluster, behavior).await;
        }
        Self { cluster, scheduler, arguments }
    }

    /// Kills the scheduler, and starts another scheduler with the same files.
    pub(crate) async fn crash_and_start(&mut self) {
        self.scheduler.process.signal("-KILL");
        self.scheduler = start(&self.cluster, &self.arguments).await;
    }

    pub(crate) fn state_file(&self) -> std::path::PathBuf {
        self.cluster.dir.path().join("state.json")
    }

    /// Waits until the state file contains this text.
    pub(crate) async fn state_says(&self, part: &str) {
        self.file_that(&self.state_file(), |text| text.contains(part), part).await;
    }

    /// Waits until the content of a file is right, and returns it.
    pub(crate) async fn file_that(&self, file: &Path, is_right: impl Fn(&str) -> bool, what: &str) -> String {
        let looking = async {
            let mut every = tokio::time::interval(Duration::from_millis(50));
            loop {
                every.tick().await;
                let text = fs::read_to_string(file).unwrap_or_default();
                if is_right(&text) {
                    return text;
                }
            }
        };
        let found = tokio::time::timeout(crate::process::DEADLINE, looking).await;
        found.unwrap_or_else(|_| panic!("{} does not say {what}", file.display()))
    }

    pub(crate) fn file(&self) -> std::path::PathBuf {
        self.cluster.dir.path().join("plugins/ByPriority.wasm")
    }

    /// Puts a version of the plugin into its place by an atomic rename.
    pub(crate) fn put(&self, version: u8) {
        place(&self.file(), &by_priority(version));
    }

    pub(crate) async fn create(&self, name: &str, behavior: Behavior) {
        let mut pod = pod(name, "1", "1Gi");
        if behavior != Behavior::Normal {
            pod["spec"]["priorityClassName"] = json!(class(behavior));
        }
        self.cluster.create(&pod).await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.cluster.pods.delete(name, &DeleteParams::default().grace_period(0)).await.expect("it is there");
        self.cluster.until("deleted", |seen| seen.deleted.contains(name)).await;
    }

    /// Waits until the pod's condition contains this text.
    pub(crate) async fn pends_with(&self, name: &str, part: &str) {
        let says = |message: &String| message.contains(part);
        self.cluster.until(part, |seen| seen.messages.get(name).is_some_and(says)).await;
    }

    pub(crate) async fn berth(&self, arguments: &[&str]) -> Ended {
        let socket = self.scheduler.socket();
        Process::berth(["plugin"].iter().chain(arguments).chain(&["--socket", &socket])).ended(LIMIT).await
    }

    /// The answer of `berth plugin` as JSON.
    pub(crate) async fn ask(&self, arguments: &[&str]) -> Value {
        let ended = self.berth(&[arguments, &["-o", "json"]].concat()).await;
        assert!(ended.status.success(), "{}", ended.err);
        serde_json::from_str(&ended.out).expect("JSON")
    }

    /// Waits until the list shows `ByPriority` with these values, and returns its entry.
    pub(crate) async fn until(&self, what: &str, is_right: impl Fn(&Value) -> bool) -> Value {
        self.plugin("ByPriority", what, is_right).await
    }

    /// Waits until the list shows the plugin of this name with these values.
    async fn plugin(&self, name: &str, what: &str, is_right: impl Fn(&Value) -> bool) -> Value {
        let found = |answer: &str| {
            let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            let plugins: Vec<Value> = serde_json::from_str(body).unwrap_or_default();
            plugins.into_iter().find(|plugin| plugin["name"] == name)
        };
        let is_there = |answer: &str| found(answer).is_some_and(|plugin| is_right(&plugin));
        let answer = self.scheduler.until("/admin/plugins", is_there).await;
        found(&answer).unwrap_or_else(|| panic!("{what}"))
    }

    pub(crate) async fn serves(&self, digest: &str) -> Value {
        let metric = format!("digest=\"{digest}\"");
        self.scheduler.until("/metrics", |text| text.contains(&metric)).await;
        self.until("serves", |plugin| plugin["digest"] == digest).await
    }
}

impl Bench {
    /// The notes of the events about plugins.
    async fn plugin_events(&self) -> Vec<String> {
        self.events("kube-system", |event| event.related.is_some()).await
    }

    /// The notes of the events about a pod.
    async fn pod_events(&self, name: &str) -> Vec<String> {
        let is_about = |event: &Event| event.regarding.as_ref().is_some_and(|it| it.name.as_deref() == Some(name));
        self.events("default", is_about).await
    }

    async fn events(&self, namespace: &str, is_it: impl Fn(&Event) -> bool) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.cluster.pods.clone().into_client(), namespace);
        let events = events.list(&ListParams::default()).await.expect("a list").items;
        events.into_iter().filter(|event| is_it(event)).filter_map(|event| event.note).collect()
    }
}

async fn start(cluster: &Cluster, arguments: &[String]) -> Scheduler {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    cluster.scheduler(&arguments).await
}

/// The component in several binaries that differ only in their version.
pub(crate) fn by_priority(version: u8) -> Vec<u8> {
    let mut bytes = berth_test_guests::by_priority().expect("a component");
    bytes.extend_from_slice(&[0, 2, 1, version]);
    bytes
}

pub(crate) fn digest(version: u8) -> String {
    berth_wasm_host::Binary::new("ByPriority", by_priority(version)).digest().to_string()
}

pub(crate) fn place(file: &Path, bytes: &[u8]) {
    fs::write(file.with_extension("incoming"), bytes).expect("a file");
    fs::rename(file.with_extension("incoming"), file).expect("a new name");
}

fn class(behavior: Behavior) -> String {
    format!("{behavior:?}").to_lowercase()
}

async fn create_priority_class(cluster: &Cluster, behavior: Behavior) {
    let class = json!({"metadata": {"name": class(behavior)}, "value": behavior.priority()});
    let api = Api::all(cluster.pods.clone().into_client());
    let class: k8s_openapi::api::scheduling::v1::PriorityClass = serde_json::from_value(class).expect("a class");
    api.create(&PostParams::default(), &class).await.expect("the sandbox takes it");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_wait_for_a_plugin_that_is_not_there_yet() {
    let bench = Bench::start(PLUGIN_CONFIG).await;
    bench.create("early", Behavior::Normal).await;
    bench.pends_with("early", "plugin \"ByPriority\" is missing: ByPriority.wasm in ").await;
    let entry = bench.until("missing", |plugin| plugin["state"] == "missing").await;
    assert_eq!((&entry["source"], &entry["digest"]), (&json!("none"), &json!("")));

    place(&bench.file(), b"not a component");
    bench.pends_with("early", "is not a WebAssembly file").await;
    bench.until("refused", |plugin| plugin["state"] == "refused").await;

    bench.put(1);
    bench.cluster.node_of("early").await;
    let entry = bench.serves(&digest(1)).await;
    assert_eq!((&entry["state"], &entry["previousDigest"]), (&json!("probation"), &Value::Null), "{entry}");
    assert_eq!(entry["exports"], json!(["Filter", "Score", "Reserve"]));

    fs::remove_file(bench.file()).expect("it is there");
    bench.until("missing", |plugin| plugin["state"] == "missing").await;
    let withdrawn = "berth_plugin_swaps_total{plugin=\"ByPriority\",result=\"withdrawn\"} 1";
    bench.scheduler.until("/metrics", |text| text.contains(withdrawn)).await;
    let junk = bench.file().with_file_name("Junk.wasm");
    place(&junk, b"no plugin at all");
    bench.scheduler.until("/admin/plugins", |answer| answer.contains("\"Junk\"")).await;
    fs::remove_file(junk).expect("it is there");
    bench.scheduler.until("/admin/plugins", |answer| !answer.contains("\"Junk\"")).await;
    bench.create("late", Behavior::Normal).await;
    bench.pends_with("late", "is missing").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_at_the_start_costs_its_own_plugin_only() {
    let write = |dir: &Path| {
        fs::write(dir.join("plugins.yaml"), PLUGIN_CONFIG).expect("a file");
        fs::write(dir.join("plugins/ByPriority.wasm"), b"not a component").expect("a file");
    };
    let bench = Bench::start_with(write).await;
    bench.create("early", Behavior::Normal).await;
    bench.pends_with("early", "is not a WebAssembly file").await;
    let entry = bench.until("refused", |plugin| plugin["state"] == "refused").await;
    assert!(entry["lastReason"].as_str().is_some_and(|it| it.contains("is not a WebAssembly file")), "{entry}");
    bench.put(1);
    bench.cluster.node_of("early").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_at_the_start_may_be_ignored() {
    let write = |dir: &Path| {
        fs::write(dir.join("plugins.yaml"), format!("{PLUGIN_CONFIG}  failurePolicy: Ignore\n")).expect("a file");
        fs::write(dir.join("plugins/ByPriority.wasm"), b"not a component").expect("a file");
    };
    let bench = Bench::start_with(write).await;
    bench.create("early", Behavior::Normal).await;
    bench.cluster.node_of("early").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_keeps_failing_is_quarantined_until_another_binary_comes() {
    let bench = Bench::start_serving(PLUGIN_CONFIG).await;
    for name in TRAPPING {
        bench.create(name, Behavior::Trap).await;
    }
    let entry = bench.until("quarantined", |plugin| plugin["state"] == "quarantined").await;
    let reason = "3 faults within 600 s; the last was: trapped in filter: a test trap";
    assert_eq!((&entry["lastReason"], &entry["reason"]), (&json!(reason), &json!(reason)));
    assert!(entry["faults"]["trap"].as_u64() >= Some(3), "one for each pod at least: {entry}");
    assert_eq!((&entry["digest"], &entry["quarantined"]["digest"]), (&json!(""), &json!(digest(1))));
    assert_eq!(entry["source"], "directory", "it is the source of the binary that is out of service");
    assert!(entry["quarantined"]["until"].as_str().is_some_and(|until| until.ends_with('Z')), "{entry}");
    let list = bench.berth(&["list"]).await;
    let line = list.out.lines().find(|line| line.contains("ByPriority")).expect("a line");
    assert!(line.contains(&digest(1)[..12]) && line.contains("quarantined"), "{line}");
    bench
        .scheduler
        .until("/metrics", |text| text.contains("berth_plugin_quarantines_total{plugin=\"ByPriority\"} 1"))
        .await;
    for name in TRAPPING {
        bench.delete(name).await;
    }
    bench.create("other", Behavior::Normal).await;
    bench.pends_with("other", &format!("plugin \"ByPriority\" is out of service: {reason}")).await;
    bench.put(2);
    bench.cluster.node_of("other").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_may_be_ignored_holds_nobody_up() {
    let bench = Bench::start(&format!("{PLUGIN_CONFIG}  failurePolicy: Ignore\n")).await;
    bench.put(1);
    bench.serves(&digest(1)).await;
    bench.create("trapping", Behavior::Trap).await;
    bench.cluster.node_of("trapping").await;
    bench.until("a fault", |plugin| plugin["faults"]["trap"].as_u64() >= Some(1)).await;
}

/// One pod makes the plugin trap at each question about it. That pod waits, and all other pods are placed.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_over_which_a_plugin_faults_waits_alone() {
    let mut bench = Bench::start_serving(PLUGIN_CONFIG).await;
    bench.create("poison", Behavior::Trap).await;
    bench.pends_with("poison", "plugin \"ByPriority\" faulted 2 times over this pod, the last time it ").await;
    for name in ["first", "second"] {
        bench.create(name, Behavior::Normal).await;
        bench.cluster.node_of(name).await;
    }
    let entry = bench.serves(&digest(1)).await;
    assert_eq!((&entry["state"], &entry["faults"]["trap"]), (&json!("serving"), &json!(2)));
    for metric in
        ["berth_plugin_held_owners{plugin=\"ByPriority\"} 1", "berth_plugin_restarts_total{plugin=\"ByPriority\"} 2"]
    {
        bench.scheduler.until("/metrics", |text| text.contains(metric)).await;
    }
    bench.scheduler.process.line("a plugin faulted; it is being restarted").await;
    let held = bench.scheduler.process.line("held back for 60 s").await;
    assert!(held.contains("a plugin faulted; pod default/poison is held back"), "{held}");
}

/// A fault is one line and one event, although several parts of the scheduler learn about the fault.
#[tokio::test(flavor = "multi_thread")]
async fn a_fault_is_one_line_and_one_event() {
    let mut bench = Bench::start_serving(PLUGIN_CONFIG).await;
    // The lines and events so far come from the start. These are the last of them.
    bench.scheduler.process.line("serves plugin=\"ByPriority\"").await;
    bench.event("PluginSwapped", "serves in profile").await;
    let before = bench.scheduler.process.text().lines().count();
    let told = bench.plugin_events().await.len();
    bench.create("first", Behavior::Trap).await;
    bench.pends_with("first", "trapped in filter: a test trap").await;
    bench.delete("first").await;
    bench.create("next", Behavior::Normal).await;
    bench.cluster.node_of("next").await;
    bench.event("PluginRestarting", "is restarted after a fault: trapped in filter: a test trap").await;
    bench.scheduler.process.line("a plugin faulted; it is being restarted").await;
    let text = bench.scheduler.process.text();
    let lines: Vec<&str> = text.lines().skip(before).collect();
    let about_it = lines.iter().filter(|line| line.contains("ByPriority") || line.contains("first"));
    assert_eq!(about_it.count(), 1, "{lines:#?}");
    let events = bench.plugin_events().await;
    assert_eq!(events.len() - told, 1, "{events:#?}");
    let of_pod = bench.pod_events("first").await;
    assert_eq!(of_pod.len(), 1, "{of_pod:#?}");
}

/// The list shows that the plugin is unused, and the remedy.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_no_profile_enables_is_not_called_serving() {
    let mut bench = Bench::start(PLUGIN_CONFIG).await;
    let idle = bench.file().with_file_name("Idle.wasm");
    place(&idle, &berth_test_guests::by_priority_named("Idle").expect("a component"));
    bench.scheduler.process.line("Idle.wasm in ").await;
    let line = bench.scheduler.process.line("is not used").await;
    assert!(line.contains("WARN") && line.contains("plugin=\"Idle\""), "{line}");
    let list = bench.berth(&["list"]).await.out;
    let line = list.lines().find(|line| line.contains("Idle")).expect("a line");
    assert!(line.contains("unused") && line.contains("not used: no profile") && !line.contains("serving"), "{line}");
    // A change of the profiles takes effect while the scheduler runs.
    let enabled = CONFIG.replace("{name: ByPriority}", "{name: Idle}");
    place(&bench.cluster.dir.path().join("config.yaml"), enabled.as_bytes());
    bench.plugin("Idle", "serves", |plugin| plugin["state"] == "probation" || plugin["state"] == "serving").await;
}

/// Whether a word of the line is this time, or is within a second of it. The scheduler compares its clock with the wall
/// clock at each question.
fn says_about(line: &str, time: &str) -> bool {
    let time: Timestamp = time.parse().expect("a time");
    let mut times = line.split_whitespace().filter_map(|word| word.parse::<Timestamp>().ok());
    times.any(|word| word.duration_since(time).abs() < SignedDuration::from_secs(1))
}

/// The messages of pods say that the plugin cannot be restarted immediately.
#[tokio::test(flavor = "multi_thread")]
async fn pods_wait_while_a_plugin_is_restarted() {
    let patient = PLUGIN_CONFIG.replace("faults: 3,", "faults: 1000,");
    let mut bench = Bench::start_serving(&patient).await;
    for number in 0..12 {
        bench.create(&format!("trapping-{number}"), Behavior::Trap).await;
    }
    // The delays between restarts have grown.
    bench.scheduler.process.line("a plugin faulted; it is restarted in 16 s").await;
    let entry = bench.until("restarting", |plugin| plugin["state"] == "restarting").await;
    let until = entry["restarting"]["until"].as_str().expect("a time");
    let list = bench.berth(&["list"]).await.out;
    let line = list.lines().find(|line| line.contains("ByPriority")).expect("a line");
    assert!(line.contains("restarting") && says_about(line, until) && line.contains(&digest(1)[..12]), "{line}");
    bench.create("other", Behavior::Normal).await;
    bench.pends_with("other", "plugin \"ByPriority\" is being restarted after a fault: trapped in filter").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_binary_that_faults_is_rolled_back() {
    let mut bench = Bench::start(PLUGIN_CONFIG).await;
    bench.put(1);
    bench.serves(&digest(1)).await;
    bench.put(2);
    let entry = bench.serves(&digest(2)).await;
    assert_eq!((&entry["state"], &entry["previousDigest"]), (&json!("probation"), &json!(digest(1))));
    let until = entry["probation"]["until"].as_str().expect("a time");
    let list = bench.berth(&["list"]).await.out;
    let line = list.lines().find(|line| line.contains("ByPriority")).expect("a line");
    assert!(line.contains("probation") && says_about(line, until) && line.contains(&digest(2)[..12]), "{line}");
    bench.create("trapping", Behavior::Trap).await;
    bench.scheduler.process.line("rolled back to the previous version").await;
    bench.delete("trapping").await;
    let entry = bench.serves(&digest(1)).await;
    assert_eq!(entry["refusedDigest"], digest(2));
    let reason = "1 faults on probation; the last was: trapped in filter: a test trap";
    assert_eq!(entry["lastReason"], reason);
    let past = bench.berth(&["describe", "ByPriority"]).await.out;
    let place = |what: &str| past.split("HISTORY").nth(1).and_then(|past| past.find(what)).expect(what);
    let versions = [1, 2].map(|number| format!("{} (version", &digest(number)[..12]));
    assert!([place(&versions[0]), place("a test trap"), place(&versions[1])].is_sorted(), "newest first: {past}");
    let swaps = "berth_plugin_swaps_total{plugin=\"ByPriority\",result=\"rolled_back\"} 1";
    bench.scheduler.until("/metrics", |text| text.contains(swaps)).await;
    bench.create("next", Behavior::Normal).await;
    bench.cluster.node_of("next").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probation_does_not_end_before_a_pod_is_tried() {
    let bench = Bench::start(&PLUGIN_CONFIG.replace("seconds: 3600", "seconds: 1")).await;
    bench.put(1);
    bench.serves(&digest(1)).await;
    let described = bench.berth(&["describe", "ByPriority"]).await.out;
    assert!(described.contains("and until it answers a question about a pod"), "{described}");
    bench.create("first", Behavior::Normal).await;
    bench.plugin("ByPriority", "is off probation", |plugin| plugin["state"] == "serving").await;
}

/// An uncaught panic of a plugin in Rust is a fault like any other fault.
#[tokio::test(flavor = "multi_thread")]
async fn an_uncaught_panic_on_probation_rolls_back_and_names_the_line() {
    let mut bench = Bench::start_with(|dir| {
        let arguments = "  pluginConfig: [{name: BreaksDown, args: fault over fragile}]\n";
        let config = CONFIG.replace("filter:", "preFilter:").replace("ByPriority", "BreaksDown");
        fs::write(dir.join("config.yaml"), config + arguments).expect("a file");
        fs::write(dir.join("plugins.yaml"), PLUGIN_CONFIG.replace("ByPriority", "BreaksDown")).expect("a file");
    })
    .await;
    let file = bench.cluster.dir.path().join("plugins/BreaksDown.wasm");
    let binary = |version: u8| [berth_test_components::component("BreaksDown"), &[0, 2, 1, version]].concat();
    let digest = |version: u8| berth_wasm_host::Binary::new("BreaksDown", binary(version)).digest().to_string();
    let serves = |version: u8| {
        let metric = format!("digest=\"{}\"", digest(version));
        move |text: &str| text.contains(&metric)
    };
    place(&file, &binary(1));
    bench.scheduler.until("/metrics", serves(1)).await;
    place(&file, &binary(2));
    bench.scheduler.until("/metrics", serves(2)).await;
    bench.create("sturdy", Behavior::Normal).await;
    bench.cluster.node_of("sturdy").await;

    bench.create("fragile", Behavior::Normal).await;
    bench.scheduler.process.line("rolled back to the previous version").await;
    bench.delete("fragile").await;
    bench.scheduler.until("/metrics", serves(1)).await;
    let entry = bench.plugin("BreaksDown", "serves again", |plugin| plugin["digest"] == digest(1)).await;
    assert_eq!(entry["refusedDigest"], digest(2));
    let source = include_str!("../../../tests/components/breaks-down/src/lib.rs");
    let line = 1 + source.lines().position(|line| line.contains("on demand")).expect("a line");
    let place = format!("on demand, at tests/components/breaks-down/src/lib.rs:{line}");
    assert_eq!(entry["lastReason"], format!("1 faults on probation; the last was: trapped in pre-filter: {place}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn log_lines_beyond_the_rate_are_counted() {
    let bench = Bench::start(PLUGIN_CONFIG).await;
    bench.put(1);
    bench.create("chatty", Behavior::LogMuch).await;
    bench.cluster.node_of("chatty").await;
    let prefix = "berth_plugin_dropped_log_lines_total{plugin=\"ByPriority\"} ";
    let counts = |line: &str| line.strip_prefix(prefix).is_some_and(|count| count != "0");
    bench.scheduler.until("/metrics", |text| text.lines().any(counts)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_are_not_taken_over_plain_http() {
    let cluster = Cluster::start(&["--no-scheduler"]).await;
    let scheduler = cluster.scheduler(&[]).await;
    let stream = std::net::TcpStream::connect(scheduler.server()).expect("it listens");
    for request in ["GET /admin/plugins", "POST /admin/plugins/DefaultBinder/disable"] {
        let mut stream = stream.try_clone().expect("a stream");
        let token = "Authorization: Bearer anybody";
        write!(stream, "{request} HTTP/1.1\r\nHost: localhost\r\n{token}\r\nContent-Length: 0\r\n\r\n").expect("sent");
        let mut answer = [0; 1024];
        let n = stream.read(&mut answer).expect("an answer");
        let answer = String::from_utf8_lossy(&answer[..n]).into_owned();
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("Unix socket"), "{answer}");
    }
    let mode = fs::metadata(scheduler.socket()).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let second = ["--admin-socket", &scheduler.socket(), "--leader-elect=false"];
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let arguments = ["run", "--kubeconfig", &kubeconfig].into_iter().chain(second);
    let refused = Process::berth(arguments).ended(LIMIT).await;
    assert_eq!(refused.status.code(), Some(1), "{}", refused.err);
    assert!(refused.err.contains("another scheduler listens on"), "{}", refused.err);
}

/// The plugin gets no question between the reservation and the end of the pod.
#[tokio::test(flavor = "multi_thread")]
async fn the_guides_quota_is_given_back_by_a_pod_that_was_bound_and_is_gone() {
    const QUOTA: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: TenantQuota}]}}
  pluginConfig: [{name: TenantQuota, args: {label: tenant, limit: 1}}]
";
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let path = |name: &str| cluster.dir.path().join(name).display().to_string();
    fs::create_dir(path("plugins")).expect("a folder");
    fs::write(path("plugins/TenantQuota.wasm"), berth_test_components::component("TenantQuota")).expect("a file");
    fs::write(path("config.yaml"), QUOTA).expect("a file");
    let _scheduler = cluster.scheduler(&["--plugins-dir", &path("plugins"), "--config", &path("config.yaml")]).await;
    for name in ["first", "second", "third"] {
        let mut pod = pod(name, "100m", "64Mi");
        pod["metadata"]["labels"] = json!({"tenant": "red"});
        cluster.create(&pod).await;
        cluster.node_of(name).await;
        cluster.pods.delete(name, &DeleteParams::default().grace_period(0)).await.expect("the sandbox deletes it");
        cluster.until("the pod is gone", |seen| seen.deleted.contains(name)).await;
    }
}
