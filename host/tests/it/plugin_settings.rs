//! Settings of the operator change while the scheduler runs. Events and metrics show what happens to plugins.

use std::{fs, os::unix::fs::symlink, path::Path, time::Duration};

use berth_test_guests::Behavior;
use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use serde_json::json;
use tokio::time::{interval, timeout};

use crate::{
    plugin_life::{Bench, PLUGIN_CONFIG, digest, place},
    process::DEADLINE,
};

impl Bench {
    /// Replaces the plugin configuration by an atomic rename.
    pub(crate) fn configure(&self, text: &str) {
        place(&self.cluster.dir.path().join("plugins.yaml"), text.as_bytes());
    }

    /// Waits for an event about plugins.
    pub(crate) async fn event(&self, reason: &str, note: &str) -> Event {
        let events: Api<Event> = Api::namespaced(self.cluster.pods.clone().into_client(), "kube-system");
        let is_it = |event: &Event| {
            event.reason.as_deref() == Some(reason) && event.note.as_ref().is_some_and(|text| text.contains(note))
        };
        let asking = async {
            let mut every = interval(Duration::from_millis(50));
            loop {
                every.tick().await;
                let events = events.list(&ListParams::default()).await.expect("a list").items;
                if let Some(event) = events.into_iter().find(|event| is_it(event)) {
                    return event;
                }
            }
        };
        let Ok(event) = timeout(DEADLINE, asking).await else { panic!("no event {reason} says {note}") };
        event
    }
}

fn plugin_config(settings: &str) -> String {
    format!(
        "apiVersion: berth.dev/v1alpha1\nkind: PluginHostConfiguration\nplugins:\n- name: ByPriority\n  {settings}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn other_limits_take_effect_without_a_restart() {
    let bench = Bench::start(&plugin_config("limits: {logLinesPerSecond: 1000000}")).await;
    bench.put(1);
    bench.serves(&digest(1)).await;
    bench.create("loud", Behavior::LogMuch).await;
    bench.cluster.node_of("loud").await;
    bench.configure(&plugin_config("limits: {logLinesPerSecond: 0, callMilliseconds: 500}"));
    let swaps = "berth_plugin_swaps_total{plugin=\"ByPriority\",result=\"swapped\"} 2";
    bench.scheduler.until("/metrics", |text| text.contains(swaps)).await;
    let entry = bench.until("limits", |plugin| plugin["limits"]["callMilliseconds"] == 500).await;
    assert_eq!((&entry["digest"], &entry["droppedLogLines"]), (&json!(digest(1)), &json!(0)));
    bench.create("quiet", Behavior::LogMuch).await;
    bench.cluster.node_of("quiet").await;
    bench.until("dropped", |plugin| plugin["droppedLogLines"] == 1000).await;
}

/// The configuration is read before the plugin is loaded, so nothing refuses the configuration. Every new binary is
/// compared with the configuration.
#[tokio::test(flavor = "multi_thread")]
async fn a_point_that_the_binary_does_not_implement_is_told() {
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins: \
                  {filter: {enabled: [{name: ByPriority}]}, permit: {enabled: [{name: ByPriority}]}}\n";
    let mut bench = Bench::start_with(|dir| {
        fs::write(dir.join("config.yaml"), config).expect("a file");
        fs::write(dir.join("plugins.yaml"), PLUGIN_CONFIG).expect("a file");
    })
    .await;
    let told = "profiles[0].plugins.permit: plugin \"ByPriority\" does not extend PermitPlugin plugin: it implements ";
    for version in [1, 2] {
        bench.put(version);
        let line = bench.scheduler.process.line(told).await;
        assert!(line.contains("WARN"), "{line}");
        let entry = bench.serves(&digest(version)).await;
        let reason = entry["reason"].as_str().expect("a text");
        assert!(reason.starts_with(told) && reason.ends_with(": enable it there, or under multiPoint"), "{reason}");
        assert_eq!(entry["missedPoints"], json!([reason]));
    }
    for command in [&["list"][..], &["describe", "ByPriority"]] {
        let shown = bench.berth(command).await.out;
        assert!(shown.contains(told), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_misspelt_plugin_comes_with_the_name_that_was_meant() {
    let bench = Bench::start(PLUGIN_CONFIG).await;
    for command in ["describe", "disable", "rollback"] {
        let said = bench.berth(&[command, "ByPriorty"]).await.err;
        assert!(said.contains("unknown plugin \"ByPriorty\" (did you mean \"ByPriority\"?)"), "{command}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_binary_is_taken_out_at_once_and_does_not_come_back() {
    let bench = Bench::start(PLUGIN_CONFIG).await;
    let denied = |digests: &[String]| format!("{PLUGIN_CONFIG}deniedDigests: [{}]\n", digests.join(", "));
    bench.put(1);
    bench.serves(&digest(1)).await;
    bench.put(2);
    bench.serves(&digest(2)).await;
    bench.configure(&denied(&[digest(2)]));
    let entry = bench.serves(&digest(1)).await;
    assert_eq!((&entry["refusedDigest"], &entry["state"]), (&json!(digest(2)), &json!("serving")));
    let reason = entry["reason"].as_str().expect("a text");
    let withdrawn = " was withdrawn: its digest is denied (deniedDigests)";
    assert!(reason.starts_with("ByPriority.wasm in ") && reason.ends_with(withdrawn), "{reason}");
    bench.configure(&denied(&[digest(1), digest(2)]));
    let entry = bench.until("refused", |plugin| plugin["state"] == "refused" && plugin["digest"] == "").await;
    assert_eq!(entry["source"], "directory");
    bench.create("early", Behavior::Normal).await;
    bench.pends_with("early", "its digest is denied").await;
    bench.put(1);
    bench.event("PluginRefused", &format!("has a denied digest: {} is among deniedDigests", digest(1))).await;
    bench.configure(PLUGIN_CONFIG);
    bench.cluster.node_of("early").await;
    let entry = bench.serves(&digest(1)).await;
    assert_eq!(entry["reason"], json!(null));
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_make_no_sense_change_nothing() {
    let mut bench = Bench::start(&plugin_config("failurePolicy: Fail")).await;
    bench.configure(&plugin_config("failurePolicy: Perhaps"));
    bench.scheduler.process.line("plugin configuration rejected").await;
    bench.event("PluginSettingsRefused", "Perhaps").await;
    let listed = bench.berth(&["list"]).await;
    assert!(listed.status.success() && listed.out.contains("ByPriority"), "{}{}", listed.out, listed.err);
    assert!(listed.err.contains("plugins.yaml") && listed.err.contains("Perhaps"), "{}", listed.err);
    bench.create("early", Behavior::Normal).await;
    bench.pends_with("early", "plugin \"ByPriority\" is missing").await;
    bench.configure(&plugin_config("failurePolicy: Ignore"));
    bench.cluster.node_of("early").await;
    let listed = bench.berth(&["list"]).await;
    assert!(!listed.err.contains("Perhaps"), "{}", listed.err);
}

/// Both files may name plugins that come later, so the scheduler starts.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_means_no_plugin_is_told_in_the_log() {
    let misspelt = |name: &str| plugin_config("failurePolicy: Fail").replace("ByPriority", name);
    let mut bench = Bench::start_with(|dir| {
        let file = dir.join("config.yaml");
        let config = fs::read_to_string(&file).expect("a file");
        let arguments = "  pluginConfig: [{name: ByPrioriti, args: {}}]\n";
        fs::write(&file, config + arguments).expect("a file");
        fs::write(dir.join("plugins.yaml"), misspelt("ByPriorty")).expect("a file");
    })
    .await;
    for told in ["profiles[0].pluginConfig[0].name: unknown plugin", "plugins[ByPriorty].name: unknown plugin"] {
        bench.scheduler.process.line(told).await;
    }
    bench.configure(&misspelt("ByPriory"));
    let line = bench.scheduler.process.line("plugins[ByPriory].name: unknown plugin").await;
    assert!(line.contains("did you mean"), "{line}");
}

/// Changes the file as the kubelet changes a mounted ConfigMap: the file is a link into a directory that is itself a
/// link.
fn publish(dir: &Path, version: &str, text: &str) {
    fs::create_dir_all(dir.join(version)).expect("a folder");
    fs::write(dir.join(version).join("plugins.yaml"), text).expect("a file");
    symlink(version, dir.join("..data_tmp")).expect("a link");
    fs::rename(dir.join("..data_tmp"), dir.join("..data")).expect("a new name");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_in_a_config_map_are_followed() {
    let bench = Bench::start_with(|dir| {
        publish(dir, "one", &plugin_config("failurePolicy: Fail"));
        symlink("..data/plugins.yaml", dir.join("plugins.yaml")).expect("a link");
    })
    .await;
    bench.create("early", Behavior::Normal).await;
    bench.pends_with("early", "plugin \"ByPriority\" is missing").await;
    publish(bench.cluster.dir.path(), "two", &plugin_config("failurePolicy: Ignore"));
    bench.cluster.node_of("early").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_tell_what_happens_to_plugins() {
    let strict = PLUGIN_CONFIG.replace("backoffSeconds: 3600", "backoffSeconds: 1");
    let bench = Bench::start(&strict.replace("faults: 0", "faults: 9")).await;
    place(&bench.file(), b"not a component");
    let event = bench
        .event("PluginRefused", "is not a WebAssembly file; no binary serves, and the pods of its profiles wait")
        .await;
    let regarding = event.regarding.expect("about something");
    assert_eq!((regarding.kind.as_deref(), regarding.name.as_deref()), (Some("Namespace"), Some("kube-system")));
    assert_eq!(event.related.and_then(|plugin| plugin.name).as_deref(), Some("ByPriority"));
    bench.put(1);
    bench.serves(&digest(1)).await;
    bench.create("trapping", Behavior::Trap).await;
    bench.event("PluginRestarting", "is restarted after a fault: trapped in filter: a test trap").await;
    bench.event("PluginPodsHeld", "held back for 60 s: the plugin trapped in filter: a test trap").await;
    let entry = bench.ask(&["describe", "ByPriority"]).await;
    assert!(entry["faultStack"].as_array().is_some_and(|stack| !stack.is_empty()), "{entry}");
    for name in ["trapping-1", "trapping-2"] {
        bench.create(name, Behavior::Trap).await;
    }
    bench.event("PluginQuarantined", "is out of service for 1 s: 3 faults").await;
    for name in ["trapping", "trapping-1", "trapping-2"] {
        bench.delete(name).await;
    }
    let serves = format!("; {} (version ", &digest(1)[..12]);
    bench.event("PluginReleased", &format!("is over{serves}")).await;
    bench.configure(&strict);
    bench.put(2);
    bench.serves(&digest(2)).await;
    bench.create("trapping-too", Behavior::Trap).await;
    let note = format!("rolled back from {} to {}", &digest(2)[..12], &digest(1)[..12]);
    bench.event("PluginRolledBack", &note).await;
    // Each refused file has its own message.
    place(&bench.file(), b"\0asm\x01\0\0\0");
    bench.event("PluginRefused", &format!("`wasm-tools component new`{serves}")).await;
    bench.ask(&["disable", "ByPriority"]).await;
    bench.event("PluginDisabled", "by an operator; no binary serves, and pods are scheduled without the plugin").await;
    bench.event("PluginWithdrawn", ": plugin \"ByPriority\" is disabled by an operator").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_of_plugins_are_served() {
    let bench = Bench::start(PLUGIN_CONFIG).await;
    bench.put(1);
    bench.serves(&digest(1)).await;
    bench.create("good", Behavior::Normal).await;
    bench.cluster.node_of("good").await;
    let counter = "berth_plugin_custom_total{name=\"begun\",plugin=\"ByPriority\"} 1";
    bench.scheduler.until("/metrics", |text| text.contains(counter)).await;
    bench.put(2);
    bench.serves(&digest(2)).await;
    bench.create("better", Behavior::Normal).await;
    bench.cluster.node_of("better").await;
    let counter = "berth_plugin_custom_total{name=\"begun\",plugin=\"ByPriority\"} 2";
    bench.scheduler.until("/metrics", |text| text.contains(counter)).await;
}

/// No plugin had the grant when the scheduler started, so the scheduler has not kept whole pods.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_of_whole_pods_takes_effect_without_a_restart() {
    let mut bench = Bench::start(&plugin_config("failurePolicy: Fail")).await;
    place(&bench.file(), &berth_test_guests::wants_pod_json("ByPriority").expect("a component"));
    bench.create("early", Behavior::Normal).await;
    bench.pends_with("early", "wants pending pods as JSON, but --plugin-config does not set grants.podJson").await;
    bench.configure(&plugin_config("grants: {podJson: true}"));
    bench.scheduler.process.line("listing all pods again").await;
    bench.cluster.node_of("early").await;
    let entry = bench.until("serves", |plugin| plugin["source"] == "directory").await;
    assert_eq!(entry["needs"]["podJson"], true, "{entry}");
    bench.create("late", Behavior::Normal).await;
    bench.cluster.node_of("late").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_shown_whole_to_a_later_plugin_if_that_was_granted() {
    let granted = "apiVersion: berth.dev/v1alpha1\nkind: PluginHostConfiguration\nplugins:\n- name: QOSSort\n  grants: {podJson: true}\n";
    let bench = Bench::start(granted).await;
    let file = bench.file().with_file_name("QOSSort.wasm");
    place(&file, berth_test_components::component("QOSSort"));
    let sorter = |answer: &str| answer.contains("\"name\":\"QOSSort\"") && answer.contains("\"source\":\"directory\"");
    bench.scheduler.until("/admin/plugins", sorter).await;
    bench.configure(&plugin_config("failurePolicy: Ignore"));
    bench.event("PluginRefused", "wants pending pods as JSON, but --plugin-config does not set grants.podJson").await;
}
