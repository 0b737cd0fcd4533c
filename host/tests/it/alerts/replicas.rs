//! Replicas come, go and restart, and serve different binaries.

use std::{fs, path::PathBuf, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::prometheus::{Moment, Scrape, alone};
use crate::{
    cluster::{Cluster, Scheduler},
    plugin_life::{by_priority, digest, place},
};

/// The replicas look at the Lease twice a second. A leader on a machine that stands still for a while keeps its Lease.
pub(super) const CONFIG: &str = "
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podMaxBackoffSeconds: 1
leaderElection: {leaseDuration: 60s, renewDeadline: 45s, retryPeriod: 500ms}
profiles:
- schedulerName: default-scheduler
  plugins:
    filter:
      enabled: [{name: ByPriority}]
";

const LEADER: &str = "leader_election_master_status{";

const ENOUGH: Duration = Duration::from_secs(60);

/// A cluster whose replicas have one configuration. Each replica has its own plugins directory.
pub(super) struct Bench {
    pub(super) cluster: Cluster,
}

impl Bench {
    pub(super) async fn start() -> Self {
        let cluster = Cluster::start(&["--no-scheduler", "--nodes", "2"]).await;
        fs::write(cluster.dir.path().join("config.yaml"), CONFIG).expect("a file");
        Self { cluster }
    }

    pub(super) fn config(&self) -> PathBuf {
        self.cluster.dir.path().join("config.yaml")
    }

    /// Puts a version of the plugin into the directory of a replica.
    pub(super) fn put(&self, replica: &str, version: u8) {
        let plugins = self.cluster.dir.path().join(replica);
        fs::create_dir_all(&plugins).expect("a folder");
        place(&plugins.join("ByPriority.wasm"), &by_priority(version));
    }

    /// Starts a replica that finds the first version of the plugin.
    pub(super) async fn replica(&self, name: &str) -> Scheduler {
        self.put(name, 1);
        let config = self.config().display().to_string();
        let plugins = self.cluster.dir.path().join(name).display().to_string();
        self.cluster.run(&["--config", &config, "--plugins-dir", &plugins]).await
    }
}

/// The scrape of a replica that leads and serves this version.
pub(super) async fn leads_with(replica: &Scheduler, version: u8) -> Scrape {
    let digest = digest(version);
    Scrape::when(replica, |scrape| scrape.sum(LEADER) > 0.0 && scrape.has(&digest)).await
}

/// The scrape of a replica that does not lead and serves this version.
pub(super) async fn stands_by_with(replica: &Scheduler, version: u8) -> Scrape {
    let digest = digest(version);
    let is_right = |scrape: &Scrape| scrape.has(LEADER) && scrape.sum(LEADER) == 0.0 && scrape.has(&digest);
    Scrape::when(replica, is_right).await
}

/// Another client takes the Lease and does not schedule. The leader ends, and the other replica waits.
pub(super) async fn nobody_leads() -> Vec<Moment> {
    let bench = Bench::start().await;
    let first = bench.replica("a").await;
    let leading = leads_with(&first, 1).await;
    let second = bench.replica("b").await;
    let standing_by = stands_by_with(&second, 1).await;
    let leases: Api<Lease> = Api::namespaced(bench.cluster.pods.clone().into_client(), "kube-system");
    let taken = json!({"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 3600}});
    leases.patch("kube-scheduler", &PatchParams::default(), &Patch::Merge(taken)).await.expect("a write");
    let ended = first.process.ended(ENOUGH).await;
    assert!(!ended.status.success(), "{}", ended.err);
    let waiting = stands_by_with(&second, 1).await;
    vec![
        Moment::from([("a", Some(leading)), ("b", Some(standing_by))]),
        Moment::from([("a", None), ("b", Some(waiting))]),
    ]
}

/// The only replica is gone.
pub(super) async fn nobody_answers() -> Vec<Moment> {
    let bench = Bench::start().await;
    let only = bench.replica("a").await;
    let leading = leads_with(&only, 1).await;
    only.process.kill();
    vec![alone(leading), Moment::from([("a", None)])]
}

/// The file of only one replica is replaced.
pub(super) async fn plugins_differ() -> Vec<Moment> {
    let bench = Bench::start().await;
    let first = bench.replica("a").await;
    let leading = leads_with(&first, 1).await;
    let second = bench.replica("b").await;
    let standing_by = stands_by_with(&second, 1).await;
    bench.put("b", 2);
    let different = stands_by_with(&second, 2).await;
    let same = leads_with(&first, 1).await;
    vec![
        Moment::from([("a", Some(leading)), ("b", Some(standing_by))]),
        Moment::from([("a", Some(same)), ("b", Some(different))]),
    ]
}

/// The only replica crashes four times. Two starts may fall into one second, which is the unit of the metric.
pub(super) async fn restarts() -> Vec<Moment> {
    let bench = Bench::start().await;
    // A Lease is free three seconds after a crash.
    let config = CONFIG.replace("leaseDuration: 60s, renewDeadline: 45s", "leaseDuration: 3s, renewDeadline: 2s");
    fs::write(bench.config(), config).expect("a file");
    let mut moments = Vec::new();
    for _ in 0..5 {
        let only = bench.replica("a").await;
        moments.push(alone(leads_with(&only, 1).await));
        only.process.kill();
    }
    moments
}
