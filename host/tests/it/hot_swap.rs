//! A plugin's binary changes while pods are created. A component in the plugins directory replaces a built-in, a file
//! that is not a component is refused, and the built-in serves again when the file is removed.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use kube::api::DeleteParams;
use tokio::{sync::watch, time::interval};

use crate::cluster::{Cluster, Scheduler, pod};

/// Only NodeResourcesFit scores, so its score alone chooses the node.
const CONFIG: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    score:
      disabled: [{name: '*'}]
      enabled: [{name: NodeResourcesFit}]
";

/// The component has a built-in's name and reads the same kinds.
const PLUGIN_CONFIG: &str = "
apiVersion: berth.dev/v1alpha1
kind: PluginHostConfiguration
plugins: [{name: NodeResourcesFit, grants: {reads: [resource.k8s.io/v1/DeviceClass, resource.k8s.io/v1/ResourceSlice, resource.k8s.io/v1/ResourceClaim, facts.berth.dev/v1alpha1/DynamicResources]}}]
";

const NODES: usize = 40;

/// Requests of two hundredths of a node with 16 cores and 64 GiB, so that each pod changes the score of its node.
const CPU: &str = "320m";
const MEMORY: &str = "1342177280";
/// The number of pods of the test that fit on a node.
const CAPACITY: usize = 50;

/// The number of pods that must be placed as expected before and after each change.
const PODS_EACH: usize = 15;

/// The pause between pods.
const PAUSE: Duration = Duration::from_millis(20);

/// The node on which the next pod is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The least loaded node.
    Spread,
    /// The most loaded node that has room.
    Pack,
    /// Any node, because the plugin is being replaced.
    Either,
}

/// Creates one pod after the other and compares its node with the expectation at that time, until there is no
/// expectation. A pod that may go anywhere is deleted as soon as it is bound, because a machine that compiles slowly
/// would fill the cluster. Returns how many pods remain.
async fn create_pods(
    cluster: &Cluster,
    expectations: watch::Receiver<Option<Expected>>,
    count: watch::Sender<usize>,
) -> usize {
    let mut loads: BTreeMap<String, usize> = (0..NODES).map(|node| (format!("node-{node:05}"), 0)).collect();
    let mut every = interval(PAUSE);
    for number in 1.. {
        every.tick().await;
        let Some(expected) = *expectations.borrow() else { break };
        let name = format!("pod-{number:05}");
        cluster.create(&pod(&name, CPU, MEMORY)).await;
        let node = cluster.node_of(&name).await;
        let open = loads.values().copied().filter(|load| *load < CAPACITY);
        let wanted = match expected {
            Expected::Spread => open.min(),
            Expected::Pack => open.max(),
            Expected::Either => None,
        };
        let load = loads.get_mut(&node).expect("a node of the cluster");
        assert!(wanted.is_none_or(|wanted| *load == wanted), "{expected:?}: {name} went to {node} with {load} pods");
        if expected == Expected::Either {
            cluster.pods.delete(&name, &DeleteParams::default().grace_period(0)).await.expect("the pod goes");
        } else {
            *load += 1;
        }
        count.send_replace(number);
    }
    loads.values().sum()
}

/// Sends expectations to the task that creates pods.
struct Stream {
    expected: watch::Sender<Option<Expected>>,
    count: watch::Receiver<usize>,
}

impl Stream {
    /// Sets the expectation for the next pods, and returns once enough of them met it.
    async fn expect(&mut self, expected: Expected) {
        self.expected.send_replace(Some(expected));
        let from = *self.count.borrow();
        let enough = self.count.wait_for(|count| *count >= from + PODS_EACH);
        enough.await.expect("pods keep coming");
    }
}

/// Waits until the binary with this digest answers for the plugin.
async fn serves(scheduler: &Scheduler, digest: &str) {
    let digest = format!("digest=\"{digest}");
    let is_there = |line: &str| {
        line.starts_with("berth_plugin_info{") && line.contains("plugin=\"NodeResourcesFit\"") && line.contains(&digest)
    };
    scheduler.until("/metrics", |metrics| metrics.lines().any(is_there)).await;
}

/// Puts a file into its place by an atomic rename.
fn place(folder: &Path, bytes: &[u8]) {
    fs::write(folder.join("incoming"), bytes).expect("a file");
    fs::rename(folder.join("incoming"), folder.join("NodeResourcesFit.wasm")).expect("a new name");
}

async fn change_plugins(scheduler: &mut Scheduler, plugins: &Path, component: &[u8], mut pods: Stream) {
    serves(scheduler, "native").await;
    pods.expect(Expected::Spread).await;

    pods.expect(Expected::Either).await;
    place(plugins, component);
    let line = scheduler.process.line("serves plugin=\"NodeResourcesFit\"").await;
    let digest = line.split_once("digest=\"").unwrap_or_else(|| panic!("no digest in {line}"));
    let digest = digest.1.split('"').next().expect("a digest");
    serves(scheduler, digest).await;
    pods.expect(Expected::Pack).await;

    place(plugins, b"not a component");
    let line = scheduler.process.line("is not a WebAssembly file").await;
    assert!(
        line.contains("NodeResourcesFit.wasm") && line.contains(&format!("; {} (version", &digest[..12])),
        "{line}"
    );
    pods.expect(Expected::Pack).await;
    serves(scheduler, digest).await;

    pods.expect(Expected::Either).await;
    fs::remove_file(plugins.join("NodeResourcesFit.wasm")).expect("the file goes");
    serves(scheduler, "native").await;
    pods.expect(Expected::Spread).await;
    pods.expected.send_replace(None);
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_is_replaced_while_pods_keep_coming() {
    let component = berth_test_components::component("UpsideDown");
    let cluster = Cluster::start(&["--no-scheduler", "--nodes", &NODES.to_string()]).await;
    let plugins = cluster.dir.path().join("plugins");
    fs::create_dir(&plugins).expect("a folder");
    let config = cluster.dir.path().join("config.yaml");
    fs::write(&config, CONFIG).expect("a file");
    let plugin_config = cluster.dir.path().join("plugins.yaml");
    fs::write(&plugin_config, PLUGIN_CONFIG).expect("a file");
    let [config, folder, plugin_config] = [&config, &plugins, &plugin_config].map(|path| path.display().to_string());
    let arguments = ["--config", &config, "--plugins-dir", &folder, "--plugin-config", &plugin_config];
    let mut scheduler = cluster.scheduler(&arguments).await;

    let (expected, expectations) = watch::channel(Some(Expected::Either));
    let (counted, count) = watch::channel(0);
    let pods = Stream { expected, count };
    let changing = change_plugins(&mut scheduler, &plugins, component, pods);
    let (remaining, ()) = tokio::join!(create_pods(&cluster, expectations, counted), changing);
    cluster.all_bound(remaining).await;
    let swaps = scheduler.until("/metrics", |metrics| metrics.contains("berth_plugin_swaps")).await;
    let swap = "berth_plugin_swaps_total{plugin=\"NodeResourcesFit\",result=\"swapped\"} 2";
    assert!(swaps.contains(swap), "{swaps}");
}
