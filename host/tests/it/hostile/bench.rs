//! A scheduler with a healthy profile and a profile for each guest.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use berth_test_guests::At;
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, Scheduler, Seen, pod},
    process::{Process, within},
};

const LIMIT: Duration = Duration::from_secs(240);

/// The time within which pods of the healthy profile are bound: many times as long as an idle machine needs.
const HEALTHY_TIME: Duration = Duration::from_secs(5);

const HEADER: &str = "apiVersion: berth.dev/v1alpha1\nkind: PluginHostConfiguration\n";

/// A plugin. The plugin's profile has the plugin's name, and all other plugins of the profile are built in.
pub(crate) struct Guest {
    pub name: String,
    pub at: At,
    pub bytes: Vec<u8>,
    /// Whether the binary is placed only after the start of the scheduler.
    pub is_late: bool,
}

/// A cluster and its scheduler. The profile called `healthy` has only built-in plugins.
pub(crate) struct Bench {
    pub cluster: Cluster,
    pub scheduler: Scheduler,
}

impl Guest {
    pub(crate) fn new(name: impl Into<String>, at: At, bytes: Vec<u8>) -> Self {
        Self { name: name.into(), at, bytes, is_late: false }
    }

    pub(crate) fn late(self) -> Self {
        Self { is_late: true, ..self }
    }

    fn profile(&self) -> String {
        profile(&self.name)
    }

    /// The section of the configuration with the guest's profile, which calls the plugin.
    fn section(&self) -> String {
        let Self { name, at, .. } = self;
        let (profile, points) = (
            self.profile(),
            match at {
                At::Bind if name == "DefaultBinder" => "multiPoint: {}".to_owned(),
                At::Bind => {
                    format!("bind: {{disabled: [{{name: '*'}}], enabled: [{{name: {name}}}, {{name: DefaultBinder}}]}}")
                }
                _ => format!("multiPoint: {{enabled: [{{name: {name}}}]}}"),
            },
        );
        format!("- schedulerName: {profile}\n  plugins:\n    {points}\n")
    }
}

impl Bench {
    /// Starts a scheduler. `rules` is added to the configuration of plugins.
    pub(crate) async fn start(cluster: Cluster, guests: Vec<Guest>, rules: &str) -> Self {
        Self::start_with(cluster, guests, rules, &[]).await
    }

    /// Starts a scheduler with further arguments.
    pub(crate) async fn start_with(cluster: Cluster, guests: Vec<Guest>, rules: &str, more: &[&str]) -> Self {
        let dir = cluster.dir.path().to_owned();
        let path = |name: &str| dir.join(name).display().to_string();
        let sections: String = guests.iter().map(Guest::section).collect();
        let config = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\npodMaxBackoffSeconds: 1\n\
             profiles:\n- schedulerName: healthy\n{sections}"
        );
        let rules = format!("{HEADER}{rules}");
        fs::create_dir_all(path("plugins")).expect("a folder");
        fs::write(path("config.yaml"), config).expect("a file");
        fs::write(path("rules.yaml"), rules).expect("a file");
        for guest in guests.iter().filter(|guest| !guest.is_late) {
            place(&dir, &guest.name, &guest.bytes);
        }
        let (config, plugins, rules) = (path("config.yaml"), path("plugins"), path("rules.yaml"));
        let arguments = ["--config", &config, "--plugins-dir", &plugins, "--plugin-config", &rules];
        let scheduler = cluster.scheduler(&[&arguments, more].concat()).await;
        for guest in guests.iter().filter(|guest| guest.is_late && !guest.bytes.is_empty()) {
            place(&dir, &guest.name, &guest.bytes);
        }
        Self { cluster, scheduler }
    }

    /// Puts a binary into the plugins directory by an atomic rename.
    pub(crate) fn place(&self, name: &str, bytes: &[u8]) {
        place(self.cluster.dir.path(), name, bytes);
    }

    /// Replaces the plugin configuration by an atomic rename. `rules` is as in [`Self::start`].
    pub(crate) fn configure(&self, rules: &str) {
        let file = self.cluster.dir.path().join("rules.yaml");
        fs::write(file.with_extension("incoming"), format!("{HEADER}{rules}")).expect("a file");
        fs::rename(file.with_extension("incoming"), file).expect("a new name");
    }

    /// Creates `n` pods for a guest's profile.
    pub(crate) async fn create(&self, guest: &str, n: usize) {
        self.cluster.create_all((0..n).map(|number| pod_of(guest, number))).await;
    }

    /// Creates `n` pods for the healthy profile, and waits until they are bound.
    pub(crate) async fn binds_healthy(&self, n: usize) -> Seen {
        self.create("healthy", n).await;
        let names: Vec<String> = (0..n).map(|number| name_of("healthy", number)).collect();
        let are_bound = |seen: &Seen| names.iter().all(|name| is_bound(seen, name));
        self.cluster.until("the healthy pods bound", are_bound).await
    }

    /// Creates healthy pods one after the other. Each pod must be bound in time, and `/livez` must answer after each
    /// pod.
    pub(crate) async fn binds_healthy_in_time(&self, numbers: std::ops::Range<usize>) {
        let mut longest = Duration::ZERO;
        for number in numbers {
            let start = Instant::now();
            self.cluster.create(&pod_of("healthy", number)).await;
            let bound = within(HEALTHY_TIME, self.cluster.node_of(&name_of("healthy", number))).await;
            assert!(bound.is_some(), "healthy pod {number} is not bound within {HEALTHY_TIME:?}");
            longest = longest.max(start.elapsed());
            self.scheduler.until("/livez", |answer| answer.ends_with("ok")).await;
        }
        eprintln!("a healthy pod waited for {longest:?} at most");
    }

    /// Waits until the admin endpoint shows these plugins with the wanted values.
    pub(crate) async fn shows<'a>(&self, wanted: impl IntoIterator<Item = (&'a str, Value)>) {
        for (name, wanted) in wanted {
            let is_right = |answer: &str| {
                let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
                let plugins: Vec<Value> = serde_json::from_str(body).unwrap_or_default();
                plugins.iter().any(|plugin| plugin["name"] == name && has(plugin, &wanted))
            };
            eprintln!("{name} comes to be {wanted}");
            self.scheduler.until("/admin/plugins", is_right).await;
        }
    }

    /// The output of `berth plugin list` as JSON, by the plugin's name.
    pub(crate) async fn list(&self) -> BTreeMap<String, Value> {
        let socket = self.scheduler.socket();
        let listed = Process::berth(["plugin", "list", "-o", "json", "--socket", &socket]).ended(LIMIT).await;
        assert!(listed.status.success(), "{}", listed.err);
        let plugins: Vec<Value> = serde_json::from_str(&listed.out).expect("JSON");
        let named = |plugin: Value| (plugin["name"].as_str().expect("a name").to_owned(), plugin);
        plugins.into_iter().map(named).collect()
    }

    /// Waits until a counter has reached a value.
    pub(crate) async fn counts(&self, counter: &str, at_least: u64) {
        let value = |text: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(counter))?;
            line.trim().parse::<u64>().ok()
        };
        eprintln!("{counter} reaches {at_least}");
        self.scheduler.until("/metrics", |text| value(text).is_some_and(|value| value >= at_least)).await;
    }
}

/// Whether `actual` has all that `wanted` has. A wanted text may be part of the actual text, and a wanted number is a
/// minimum.
fn has(actual: &Value, wanted: &Value) -> bool {
    match (actual, wanted) {
        (_, Value::Object(members)) => members.iter().all(|(key, wanted)| has(&actual[key], wanted)),
        (Value::String(actual), Value::String(wanted)) => actual.contains(wanted.as_str()),
        (Value::Number(actual), Value::Number(wanted)) => actual.as_u64() >= wanted.as_u64(),
        (actual, wanted) => actual == wanted,
    }
}

pub(crate) fn is_bound(seen: &Seen, pod: &str) -> bool {
    seen.nodes.get(pod).is_some_and(|nodes| !nodes.is_empty())
}

/// The name of a pod of [`Bench::create`].
pub(crate) fn name_of(guest: &str, number: usize) -> String {
    format!("{}-{number}", profile(guest))
}

pub(crate) fn pod_of(guest: &str, number: usize) -> Value {
    let mut pod = pod(&name_of(guest, number), "100m", "16Mi");
    pod["spec"]["schedulerName"] = json!(profile(guest));
    pod
}

fn profile(guest: &str) -> String {
    guest.to_lowercase()
}

fn place(dir: &Path, name: &str, bytes: &[u8]) {
    let file: PathBuf = dir.join("plugins").join(format!("{name}.wasm"));
    fs::write(file.with_extension("incoming"), bytes).expect("a file");
    fs::rename(file.with_extension("incoming"), file).expect("a new name");
}
