//! The scheduler's configuration and its credentials change while it runs.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, Scheduler, pod},
    plugin_life::place,
};

/// A configuration in which the pods of the profile fit only this node.
fn configuration(node: &str, rest: &str) -> String {
    format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\npodMaxBackoffSeconds: 1\n{rest}\n\
         profiles:\n- schedulerName: default-scheduler\n  pluginConfig:\n  - name: NodeAffinity\n    args:\n      \
         addedAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{{matchFields: \
         [{{key: metadata.name, operator: In, values: [{node}]}}]}}]}}}}\n"
    )
}

/// Changes the file as the kubelet changes a mounted ConfigMap: the file is a link into a directory that is itself a
/// link.
fn publish(dir: &Path, version: &str, text: &str) {
    fs::create_dir_all(dir.join(version)).expect("a folder");
    fs::write(dir.join(version).join("config.yaml"), text).expect("a file");
    symlink(version, dir.join("..data_tmp")).expect("a link");
    fs::rename(dir.join("..data_tmp"), dir.join("..data")).expect("a new name");
}

struct Bench {
    cluster: Cluster,
    scheduler: Scheduler,
}

impl Bench {
    async fn start(write: impl FnOnce(&Path)) -> Self {
        let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
        write(cluster.dir.path());
        let config = cluster.dir.path().join("config.yaml").display().to_string();
        let scheduler = cluster.scheduler(&["--config", &config]).await;
        Self { cluster, scheduler }
    }

    fn write(&self, text: &str) {
        place(&self.cluster.dir.path().join("config.yaml"), text.as_bytes());
    }

    async fn reloaded(&self, result: &str, times: u32) {
        let line = format!("berth_config_reloads_total{{result=\"{result}\"}} {times}\n");
        self.scheduler.until("/metrics", |text| text.contains(&line)).await;
    }

    async fn lands_on(&self, name: &str, node: &str) {
        self.cluster.create(&pod(name, "1", "1Gi")).await;
        assert_eq!(self.cluster.node_of(name).await, node, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_of_plugins_take_effect_without_a_restart() {
    let mut bench = Bench::start(|dir| {
        fs::write(dir.join("config.yaml"), configuration("node-00000", "")).expect("a file");
    })
    .await;
    bench.lands_on("first", "node-00000").await;
    bench.cluster.create(&with_node(pod("waiting", "1", "1Gi"), "node-00001")).await;
    bench.cluster.until("waiting told", |seen| seen.messages.contains_key("waiting")).await;

    bench.write(&configuration("node-00001", "leaderElection: {leaderElect: true, leaseDuration: 20s}"));
    bench.reloaded("applied", 1).await;
    let line = bench.scheduler.process.line("restart to apply it").await;
    assert!(line.contains("leaderElection.leaseDuration"), "{line}");
    let changed = bench.scheduler.process.line("addedAffinity").await;
    assert!(changed.contains("node-00000") && changed.contains("node-00001"), "{changed}");
    assert_eq!(bench.cluster.node_of("waiting").await, "node-00001", "the arguments that kept it pending have changed");
    bench.lands_on("second", "node-00001").await;

    bench.write(&configuration("node-00000", "percentageOfNodesToScore: 101"));
    bench.reloaded("refused", 1).await;
    let line = bench.scheduler.process.line("configuration rejected").await;
    assert!(line.contains("config.yaml") && line.contains("percentageOfNodesToScore"), "{line}");
    bench.lands_on("third", "node-00001").await;

    bench.write(&configuration("node-00000", "percentageOfNodesToScore: 70"));
    bench.reloaded("applied", 2).await;
    bench.lands_on("fourth", "node-00000").await;
    bench.scheduler.process.signal("-HUP");
    bench.reloaded("unchanged", 1).await;
    bench.cluster.all_bound(5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_a_plugin_refuses_are_named_with_file_and_field() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let (config, scheduler) = with_node_metadata(&cluster, "rack").await;
    let file = config.display();
    let mut bench = Bench { cluster, scheduler };
    write_key(&config, "");
    bench.reloaded("refused", 1).await;
    let line = bench.scheduler.process.line("configuration rejected").await;
    let place = format!("{file}: profiles[default-scheduler].pluginConfig[NodeMetadata].args: ");
    assert!(line.contains(&place), "{line}");
}

/// Starts a scheduler that has NodeMetadata with this key, and also returns the file of its configuration.
async fn with_node_metadata(cluster: &Cluster, key: &str) -> (PathBuf, Scheduler) {
    let [config, plugins] = ["config.yaml", "plugins"].map(|name| cluster.dir.path().join(name));
    fs::create_dir(&plugins).expect("a folder");
    place(&plugins.join("NodeMetadata.wasm"), berth_test_components::component("NodeMetadata"));
    write_key(&config, key);
    let [file, dir] = [&config, &plugins].map(|path| path.display().to_string());
    let scheduler = cluster.scheduler(&["--config", &file, "--plugins-dir", &dir]).await;
    (config, scheduler)
}

/// Enables NodeMetadata with this key, which must not be empty.
fn write_key(config: &Path, key: &str) {
    let plugin = format!("pluginConfig: [{{name: NodeMetadata, args: {{key: '{key}'}}}}]");
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    let profiles = "profiles: [{schedulerName: default-scheduler, plugins: {filter: {enabled: [{name: NodeMetadata}]}}";
    place(config, format!("{head}{profiles}, {plugin}}}]\n").as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_refused_its_arguments_serves_once_they_are_right() {
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
    let (config, mut scheduler) = with_node_metadata(&cluster, "").await;
    let refused = scheduler.process.line("does not accept").await;
    assert!(
        refused.contains("does not accept profiles[default-scheduler].pluginConfig[NodeMetadata].args: "),
        "{refused}"
    );
    write_key(&config, "rack");
    scheduler.process.line("serves plugin=\"NodeMetadata\"").await;
    cluster.create(&pod("web", "1", "1Gi")).await;
    cluster.node_of("web").await;
}

fn with_node(mut pod: Value, node: &str) -> Value {
    pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
    pod
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_in_a_config_map_is_followed() {
    let bench = Bench::start(|dir| {
        publish(dir, "one", &configuration("node-00000", ""));
        symlink("..data/config.yaml", dir.join("config.yaml")).expect("a link");
    })
    .await;
    bench.lands_on("first", "node-00000").await;
    publish(bench.cluster.dir.path(), "two", &configuration("node-00001", ""));
    bench.reloaded("applied", 1).await;
    bench.lands_on("second", "node-00001").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_come_and_go() {
    let of = |names: &[&str]| {
        let profiles: Vec<Value> = names.iter().map(|name| json!({"schedulerName": name})).collect();
        json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": profiles,
            "leaderElection": {"leaderElect": false, "resourceName": "both"},
        })
        .to_string()
    };
    let bench =
        Bench::start(|dir| fs::write(dir.join("config.yaml"), of(&["default-scheduler"])).expect("a file")).await;
    let mut late = pod("late", "1", "1Gi");
    late["spec"]["schedulerName"] = json!("later");
    bench.cluster.create(&late).await;
    bench.cluster.create(&pod("first", "1", "1Gi")).await;
    bench.cluster.node_of("first").await;
    bench.write(&of(&["later"]));
    bench.cluster.node_of("late").await;
    let left = |text: &str| !text.contains("berth_plugin_info{") || text.contains("profile=\"later\"");
    bench.scheduler.until("/metrics", left).await;
    bench.cluster.create(&pod("nobodys", "1", "1Gi")).await;
    bench.write(&of(&["later", "default-scheduler"]));
    bench.cluster.node_of("nobodys").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_that_changes_is_taken_over() {
    let bench =
        Bench::start(|dir| fs::write(dir.join("config.yaml"), configuration("node-00000", "")).expect("a file")).await;
    let file = bench.cluster.kubeconfig();
    let text = fs::read_to_string(&file).expect("a kubeconfig");
    place(&file, format!("{text}\n# another token\n").as_bytes());
    let renewed = "berth_credential_renewals_total{result=\"renewed\"} 1\n";
    bench.scheduler.until("/metrics", |text| text.contains(renewed)).await;
    bench.lands_on("first", "node-00000").await;
    place(&file, b"no kubeconfig: [");
    let failed = "berth_credential_renewals_total{result=\"failed\"} 1\n";
    bench.scheduler.until("/metrics", |text| text.contains(failed)).await;
    bench.lands_on("second", "node-00000").await;
}
