//! A sandbox in its own process, schedulers for it, and a watch that records every node on which a pod was seen.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    sync::watch,
    task::{JoinHandle, spawn_blocking},
    time::{interval, timeout},
};

use crate::process::{DEADLINE, Process};

/// Requests that may be under way at the same time when pods are created.
const CREATES: usize = 8;

/// A sandbox. The sandbox and its process end with the test.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub pods: Api<Pod>,
    pub dir: TempDir,
    seen: watch::Receiver<Seen>,
    watching: JoinHandle<()>,
    sandbox: Process,
    n_schedulers: AtomicU32,
}

/// The events of all pods that the watch has seen; the watch began before the first pod was created.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// All nodes on which the pod was seen, by pod.
    pub nodes: BTreeMap<String, BTreeSet<String>>,
    /// Pods in the order of their bindings.
    pub bound: Vec<String>,
    pub deleted: BTreeSet<String>,
    /// The newest message about why the pod is pending, by pod.
    pub messages: BTreeMap<String, String>,
    /// All nodes to which the pod was nominated, by pod.
    pub nominations: BTreeMap<String, BTreeSet<String>>,
    /// The reason for the pod's disruption, by pod.
    pub disruptions: BTreeMap<String, String>,
}

/// `berth run` on a cluster, with its endpoints.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pub process: Process,
    /// The time from the start of the process until `/livez` answered.
    pub live_after: Duration,
    address: SocketAddr,
    socket: PathBuf,
}

impl Cluster {
    /// Starts `berth sandbox` with these arguments and watches its pods.
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let kubeconfig = dir.path().join("kubeconfig").display().to_string();
        let mut sandbox = Process::berth(["sandbox", "--kubeconfig", &kubeconfig].iter().chain(arguments));
        sandbox.line("serving http").await;
        let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.expect("a good kubeconfig")).expect("a client");
        let pods = Api::default_namespaced(client);
        let version = pods.list(&ListParams::default()).await.expect("a list").metadata.resource_version;
        let (sender, seen) = watch::channel(Seen::default());
        let watching = tokio::spawn(follow(pods.clone(), version.expect("a version"), sender));
        Self { pods, dir, seen, watching, sandbox, n_schedulers: AtomicU32::new(0) }
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// Waits for a line of the sandbox.
    pub(crate) async fn sandbox_says(&mut self, part: &str) -> String {
        self.sandbox.line(part).await
    }

    /// Starts a single scheduler without leader election, and waits until it has seen all pods and nodes. The scheduler
    /// serves `default-scheduler` unless a configuration is given.
    pub(crate) async fn scheduler(&self, arguments: &[&str]) -> Scheduler {
        self.scheduler_with(arguments, &[]).await
    }

    /// Starts `berth run` with additional environment variables.
    pub(crate) async fn scheduler_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Scheduler {
        let named: &[&str] =
            if arguments.contains(&"--config") { &[] } else { &["--scheduler-name", "default-scheduler"] };
        self.start_scheduler("run", &[&["--leader-elect=false"], named, arguments].concat(), variables).await
    }

    /// Starts `berth run` and waits until it has seen all pods and nodes.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Scheduler {
        self.start_scheduler("run", arguments, &[]).await
    }

    /// Starts `berth kube-scheduler`, which has flags of kube-scheduler that `berth run` does not have, and waits until
    /// it has seen all pods and nodes.
    pub(crate) async fn kube_scheduler(&self, arguments: &[&str]) -> Scheduler {
        self.start_scheduler("kube-scheduler", &[&["--secure-port", "0"], arguments].concat(), &[]).await
    }

    async fn start_scheduler(&self, command: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Scheduler {
        let kubeconfig = self.kubeconfig().display().to_string();
        let number = self.n_schedulers.fetch_add(1, Ordering::Relaxed);
        let socket = self.dir.path().join(format!("admin-{number}.sock"));
        let admin = socket.display().to_string();
        let fixed =
            [command, "--kubeconfig", &kubeconfig, "--metrics-address", "127.0.0.1:0", "--admin-socket", &admin];
        let began = Instant::now();
        let mut process = Process::berth_with(fixed.iter().chain(arguments), variables);
        let line = process.line("serving /metrics").await;
        let address = line.split_once("address=").expect("the address").1;
        // klog writes the value in quotes.
        let address = address.split_whitespace().next().expect("an address").trim_matches('"');
        let address = address.parse().expect("an address");
        let mut scheduler = Scheduler { process, live_after: Duration::MAX, address, socket };
        scheduler.until("/livez", |answer| answer.ends_with("ok")).await;
        scheduler.live_after = began.elapsed();
        scheduler.until("/readyz", |answer| answer.ends_with("ok")).await;
        scheduler
    }

    pub(crate) async fn create(&self, pod: &Value) {
        create(&self.pods, pod).await;
    }

    /// Creates many pods, several at a time.
    pub(crate) async fn create_all(&self, pods: impl IntoIterator<Item = Value>) {
        stream::iter(pods).for_each_concurrent(CREATES, async |pod| create(&self.pods, &pod).await).await;
    }

    /// Waits until `is_enough` accepts the state that the watch has seen.
    pub(crate) async fn until(&self, what: &str, is_enough: impl Fn(&Seen) -> bool) -> Seen {
        let mut seen = self.seen.clone();
        let waited = timeout(DEADLINE, seen.wait_for(|seen| is_enough(seen))).await;
        if let Ok(Ok(seen)) = &waited {
            return Seen::clone(seen);
        }
        drop(waited);
        let now = self.seen.borrow().clone();
        panic!("not {what}, but {} pods of which {} bound\n{}", now.nodes.len(), now.bound.len(), self.sandbox.text());
    }

    /// Waits until `n` pods are bound and not deleted, and checks that each pod exists and was bound only once.
    pub(crate) async fn all_bound(&self, n: usize) -> Seen {
        let remaining = |seen: &Seen| seen.bound.iter().filter(|name| !seen.deleted.contains(*name)).count();
        let seen = self.until(&format!("{n} bound pods"), |seen| remaining(seen) >= n).await;
        let listed = self.pods.list(&ListParams::default()).await.expect("a list").items;
        assert_eq!(listed.len(), n, "no pod is lost");
        for pod in listed {
            let name = pod.metadata.name.expect("a name");
            let node = pod.spec.and_then(|spec| spec.node_name).expect("every pod is bound");
            assert_eq!(seen.nodes.get(&name), Some(&BTreeSet::from([node])), "{name} was bound to one node, once");
        }
        assert_eq!(remaining(&seen), n);
        seen
    }

    /// Waits until one pod is bound, and returns its node.
    pub(crate) async fn node_of(&self, name: &str) -> String {
        let is_bound = |seen: &Seen| seen.nodes.get(name).is_some_and(|nodes| !nodes.is_empty());
        let seen = self.until(&format!("{name} bound"), is_bound).await;
        let nodes: Vec<&String> = seen.nodes[name].iter().collect();
        let [node] = nodes[..] else { panic!("{name} was seen on {nodes:?}") };
        node.clone()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl Seen {
    fn take(&mut self, pod: Pod) {
        let name = pod.metadata.name.expect("a name");
        let status = pod.status.unwrap_or_default();
        let nominations = self.nominations.entry(name.clone()).or_default();
        nominations.extend(status.nominated_node_name.filter(|node| !node.is_empty()));
        for condition in status.conditions.unwrap_or_default() {
            let told = match (condition.type_.as_str(), condition.status.as_str()) {
                ("PodScheduled", "False") => &mut self.messages,
                ("DisruptionTarget", "True") => &mut self.disruptions,
                _ => continue,
            };
            told.extend(condition.message.map(|message| (name.clone(), message)));
        }
        let nodes = self.nodes.entry(name.clone()).or_default();
        if let Some(node) = pod.spec.and_then(|spec| spec.node_name) {
            if nodes.is_empty() {
                self.bound.push(name);
            }
            nodes.insert(node);
        }
    }
}

impl Scheduler {
    /// The address of the endpoints.
    pub(crate) fn server(&self) -> String {
        self.address.to_string()
    }

    /// The path of the admin socket.
    pub(crate) fn socket(&self) -> String {
        self.socket.display().to_string()
    }

    /// Asks an endpoint repeatedly until its response is right, and returns the response.
    pub(crate) async fn until(&self, path: &str, is_right: impl Fn(&str) -> bool) -> String {
        let (address, socket) = (self.address, self.socket.clone());
        let asking = async {
            let mut every = interval(Duration::from_millis(50));
            loop {
                every.tick().await;
                let (path, socket) = (path.to_owned(), socket.clone());
                let answer = spawn_blocking(move || get(address, &socket, &path)).await.expect("no panic");
                if let Some(answer) = answer.ok().filter(|answer| is_right(answer)) {
                    return answer;
                }
            }
        };
        match timeout(DEADLINE, asking).await {
            Ok(answer) => answer,
            Err(_) => {
                panic!("{path} is not as awaited: {:?}\n{}", get(address, &self.socket, path), self.process.text())
            }
        }
    }
}

/// A pod with these requests. Scores differ only if a pod requests both resources.
pub(crate) fn pod(name: &str, cpu: &str, memory: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{
            "name": "main",
            "image": "registry.example/main:1",
            "resources": {"requests": {"cpu": cpu, "memory": memory}},
        }]},
    })
}

async fn create(pods: &Api<Pod>, pod: &Value) {
    let pod = serde_json::from_value(pod.clone()).expect("a pod");
    pods.create(&PostParams::default(), &pod).await.expect("the sandbox takes the pod");
}

/// Follows all pods from this version on. The server ends a watch after five minutes, which a test may exceed on a busy
/// machine. The next watch continues at that version.
async fn follow(pods: Api<Pod>, mut version: String, seen: watch::Sender<Seen>) {
    loop {
        // An error means that the sandbox has ended.
        let Ok(events) = pods.watch(&WatchParams::default(), &version).await else { return };
        let mut events = std::pin::pin!(events);
        while let Ok(Some(event)) = events.try_next().await {
            match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                    version = pod.metadata.resource_version.clone().expect("a version");
                    seen.send_modify(|seen| seen.take(pod));
                }
                WatchEvent::Deleted(pod) => {
                    version = pod.metadata.resource_version.expect("a version");
                    seen.send_modify(|seen| seen.deleted.extend(pod.metadata.name));
                }
                WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
                WatchEvent::Error(error) => panic!("the watch fails: {error:?}"),
            }
        }
    }
}

/// Returns the status line, headers and body.
fn get(address: SocketAddr, socket: &Path, path: &str) -> std::io::Result<String> {
    if ["/admin/", "/explain?", "/overview"].iter().any(|it| path.starts_with(it)) {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        return exchange(stream, path);
    }
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    exchange(stream, path)
}

fn exchange(mut stream: impl Read + Write, path: &str) -> std::io::Result<String> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
