//! Several replicas on one API server. One replica schedules. The other replicas wait, and take over when the leader
//! ends or crashes.

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Event};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, Scheduler, Seen, pod},
    process::DEADLINE,
};

/// The replicas look at the Lease twice a second. A leader on a machine that stands still for a while keeps its Lease.
const CONFIG: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaseDuration: 60s, renewDeadline: 45s, retryPeriod: 500ms}
";

/// A crash costs ten seconds, not fifteen as by default.
const SHORT_LEASE: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaseDuration: 10s, renewDeadline: 8s, retryPeriod: 500ms}
";

const LEADING: &str = "leader_election_master_status{name=\"kube-scheduler\"} 1";
const STANDING_BY: &str = "leader_election_master_status{name=\"kube-scheduler\"} 0";

struct Bench {
    cluster: Cluster,
    config: String,
}

impl Bench {
    async fn start() -> Self {
        Self::start_with(CONFIG).await
    }

    async fn start_with(config: &str) -> Self {
        Self::start_on_with(20, config).await
    }

    async fn start_on(n_nodes: u32) -> Self {
        Self::start_on_with(n_nodes, CONFIG).await
    }

    async fn start_on_with(n_nodes: u32, config: &str) -> Self {
        let cluster = Cluster::start(&["--no-scheduler", "--nodes", &n_nodes.to_string()]).await;
        let path = cluster.dir.path().join("config.yaml");
        std::fs::write(&path, config).expect("a file");
        Self { cluster, config: path.display().to_string() }
    }

    /// Starts the first replica, which leads.
    async fn leader(&self) -> Scheduler {
        let replica = self.cluster.run(&["--config", &self.config]).await;
        replica.until("/metrics", |text| text.contains(LEADING)).await;
        replica
    }

    /// Starts a replica beside a leader.
    async fn standby(&self) -> Scheduler {
        let mut replica = self.cluster.run(&["--config", &self.config]).await;
        replica.process.line("waiting to lead").await;
        replica.until("/metrics", |text| text.contains(STANDING_BY)).await;
        replica.until("/healthz/leaderElection", |answer| answer.ends_with("ok")).await;
        replica
    }

    async fn create(&self, numbers: std::ops::Range<usize>) {
        let pods = numbers.map(|number| pod(&format!("pod-{number:04}"), "100m", "128Mi"));
        self.cluster.create_all(pods).await;
    }

    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.cluster.pods.clone().into_client(), "kube-system")
    }

    /// Sends a request to the sandbox.
    async fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let request = http::Request::builder().method(method).uri(path).body(body.to_string().into_bytes());
        let client = self.cluster.pods.clone().into_client();
        client.request(request.expect("a request")).await.expect("an answer")
    }

    async fn lease(&self) -> Value {
        let lease = self.leases().get("kube-scheduler").await.expect("a lease");
        serde_json::to_value(lease.spec).expect("a spec")
    }

    async fn events(&self) -> Vec<String> {
        let api: Api<Event> = Api::namespaced(self.cluster.pods.clone().into_client(), "kube-system");
        let events = api.list(&ListParams::default()).await.expect("events").items;
        let ours = events.into_iter().filter(|event| event.reason.as_deref() == Some("LeaderElection"));
        ours.filter_map(|event| event.message).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_replica_goes_on_after_a_crash() {
    let bench = Bench::start_with(SHORT_LEASE).await;
    let first = bench.leader().await;
    let holder = bench.lease().await["holderIdentity"].clone();
    let others = [bench.standby().await, bench.standby().await];
    let names_the_leader = format!("\"isLeading\":false,\"leader\":{holder}");
    others[0].until("/overview", |answer| answer.contains(&names_the_leader)).await;
    let creating = bench.create(0..200);
    let killing = async {
        bench.cluster.until("at work", |seen| seen.bound.len() >= 50).await;
        first.process.kill();
    };
    tokio::join!(creating, killing);
    bench.create(200..300).await;
    bench.cluster.all_bound(300).await;
    let lease = bench.lease().await;
    assert_ne!(lease["holderIdentity"], holder);
    assert_eq!((&lease["leaseTransitions"], &lease["leaseDurationSeconds"]), (&json!(1), &json!(10)));
    let leaders = others.iter().filter(|other| other.process.text().contains(": leading ")).count();
    assert_eq!(leaders, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_replica_begins_within_moments_of_an_orderly_end() {
    let bench = Bench::start().await;
    let first = bench.leader().await;
    let mut second = bench.standby().await;
    bench.create(0..1).await;
    bench.cluster.all_bound(1).await;
    // The decision about the pod is the leader's, so an explanation by another replica names the leader.
    let lease = bench.lease().await;
    let note = format!("this replica stands by, and {} leads: ", lease["holderIdentity"].as_str().expect("a name"));
    let explained = "/explain?namespace=default&name=pod-0000";
    second.until(explained, |answer| answer.contains("\"Bound\"") && answer.contains(&note)).await;
    first.process.terminate();
    let ended = first.process.ended(DEADLINE).await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
    assert!(ended.err.contains("the lease is released"), "{}", ended.err);
    assert_ne!(bench.lease().await["holderIdentity"], lease["holderIdentity"], "it is free, or the next replica's");
    let messages = bench.events().await;
    assert!(messages.iter().any(|message| message.ends_with("became leader")), "{messages:?}");
    assert!(messages.iter().any(|message| message.ends_with("stopped leading")), "{messages:?}");
    second.until("/metrics", |text| text.contains(LEADING)).await;
    second.process.line(": leading ").await;
    let text = second.process.text();
    let place = |part: &str| text.find(part).unwrap_or(usize::MAX);
    assert!(
        place("initial lists complete") < place(": leading "),
        "a replica that stands by knows the cluster: {text}"
    );
    bench.create(1..2).await;
    bench.cluster.all_bound(2).await;
    second.until(explained, |answer| answer.contains("\"Bound\"") && !answer.contains("stands by")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_lost_its_lease_ends() {
    let bench = Bench::start().await;
    let first = bench.leader().await;
    let stolen = json!({"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 3600}});
    bench.leases().patch("kube-scheduler", &PatchParams::default(), &Patch::Merge(stolen)).await.expect("a write");
    let ended = first.process.ended(DEADLINE).await;
    assert_eq!(ended.status.code(), Some(1), "{}", ended.err);
    let text = "leader election lost: the lease kube-system/kube-scheduler was taken by somebody";
    assert!(ended.err.contains(text), "{}", ended.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_kube_schedulers_place_a_lost_lease_has_kube_schedulers_line() {
    let bench = Bench::start().await;
    let kubeconfig = format!("--kubeconfig={}", bench.cluster.kubeconfig().display());
    let mut scheduler = crate::process::Process::berth(["kube-scheduler", &kubeconfig, "--secure-port=0"]);
    scheduler.line("\"leading\" lease=").await;
    let stolen = json!({"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 3600}});
    bench.leases().patch("kube-scheduler", &PatchParams::default(), &Patch::Merge(stolen)).await.expect("a write");
    let ended = scheduler.ended(DEADLINE).await;
    assert_eq!(ended.status.code(), Some(1), "{}", ended.err);
    let line = format!("] \"{}\"", berth_telemetry::klog::lines::LEADERSHIP_LOST.message);
    assert!(ended.err.lines().any(|it| it.starts_with('E') && it.ends_with(&line)), "{}", ended.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_may_list_when_it_has_won() {
    let bench = Bench::start_with(&format!("{CONFIG}delayCacheUntilActive: true\n")).await;
    let first = bench.leader().await;
    bench.create(0..1).await;
    bench.cluster.all_bound(1).await;
    let arguments =
        ["run", "--kubeconfig", &bench.cluster.kubeconfig().display().to_string(), "--config", &bench.config]
            .map(str::to_owned);
    let mut second = crate::process::Process::berth(&arguments);
    second.line("waiting to lead").await;
    first.process.terminate();
    second.line("initial lists complete").await;
    let text = second.text();
    let place = |part: &str| text.find(part).unwrap_or(usize::MAX);
    assert!(place(": leading ") < place("initial lists complete"), "{text}");
    bench.create(1..2).await;
    bench.cluster.all_bound(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_gives_no_room_away_that_the_old_one_filled_unseen() {
    let bench = Bench::start_on(1).await;
    let spec = json!({"holderIdentity": "somebody", "leaseDurationSeconds": 3600, "leaseTransitions": 0});
    let lease = json!({"metadata": {"name": "kube-scheduler"}, "spec": spec});
    let lease = serde_json::from_value(lease).expect("a lease");
    bench.leases().create(&PostParams::default(), &lease).await.expect("a write");
    let replica = bench.standby().await;
    bench.cluster.create(&pod("waits", "10", "1Gi")).await;
    let pending = "scheduler_pending_pods{queue=\"active\"} 1";
    replica.until("/metrics", |text| text.contains(pending)).await;
    let silent = json!({
        "name": "silent",
        "match": {"verbs": ["watch"], "resources": ["pods"], "userAgent": "berth/"},
        "fault": {"type": "SilentWatch"},
    });
    bench.ask("POST", "/faults", &silent).await;
    while bench.ask("GET", "/faults", &Value::Null).await["faults"][0]["hits"] != 1 {
        tokio::task::yield_now().await;
    }
    bench.ask("DELETE", "/faults/silent", &Value::Null).await;
    let mut filler = pod("filler", "10", "1Gi");
    filler["spec"]["nodeName"] = "node-00000".into();
    bench.cluster.create(&filler).await;
    let released = json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}});
    bench.leases().patch("kube-scheduler", &PatchParams::default(), &Patch::Merge(released)).await.expect("a write");
    let decided = |seen: &Seen| seen.messages.contains_key("waits") || seen.bound.iter().any(|pod| pod == "waits");
    let seen = bench.cluster.until("a decision about the pod that waits", decided).await;
    let message = seen.messages.get("waits").cloned().unwrap_or_default();
    assert!(message.contains("1 Insufficient cpu"), "{message:?}: {:?}", seen.bound);
}
