//! Berth replaces the cluster's scheduler, and the cluster's scheduler then replaces Berth, while pods are created. The
//! steps come from the guide's page on installing. `berth kube-scheduler` stands in for kube-scheduler: it has
//! kube-scheduler's command line and Lease.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::api::{Api, ListParams};
use tokio::sync::watch;

use crate::{
    cluster::{Cluster, Scheduler, pod},
    process::{DEADLINE, Process},
};

/// The duration of the Lease, within which no replica takes over from one that has crashed. It is longer than by default,
/// so that a machine may stand still for a while.
const LEASE: Duration = Duration::from_secs(60);

struct Bench {
    cluster: Cluster,
    config: String,
}

impl Bench {
    async fn start() -> Self {
        let cluster = Cluster::start(&["--no-scheduler", "--nodes", "20"]).await;
        let path = cluster.dir.path().join("scheduler.yaml");
        let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                    leaderElection: {leaseDuration: 60s, renewDeadline: 45s}\n";
        std::fs::write(&path, text).expect("a file");
        Self { cluster, config: path.display().to_string() }
    }

    async fn kube_scheduler(&self) -> Process {
        let kubeconfig = self.cluster.kubeconfig().display().to_string();
        let lease = ["--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=45s"];
        let flags = ["kube-scheduler", "--kubeconfig", &kubeconfig, "--secure-port", "0"];
        let mut process = Process::berth(flags.iter().chain(&lease));
        process.line("waiting to lead").await;
        process
    }

    async fn standby(&self) -> Scheduler {
        let mut replica = self.cluster.run(&["--config", &self.config]).await;
        replica.process.line("waiting to lead").await;
        replica
    }

    async fn check(&self) -> String {
        let kubeconfig = self.cluster.kubeconfig().display().to_string();
        let check = Process::berth(["check", "--pre", "--kubeconfig", &kubeconfig, "--config", &self.config]);
        check.ended(DEADLINE).await.out
    }

    /// Creates pods until `enough` is set, and returns their number.
    async fn load(&self, mut enough: watch::Receiver<bool>) -> usize {
        let mut n_pods = 0;
        while !*enough.borrow_and_update() {
            self.cluster.create(&pod(&format!("pod-{n_pods:05}"), "10m", "8Mi")).await;
            n_pods += 1;
            // The pause allows some twenty pods a second, so pods are always under way.
            let _ = tokio::time::timeout(Duration::from_millis(50), enough.changed()).await;
        }
        n_pods
    }

    async fn until_more_are_bound(&self) {
        let now = self.cluster.until("anything", |_| true).await.bound.len();
        self.cluster.until("more bound pods", |seen| seen.bound.len() > now + 20).await;
    }

    /// The longest time in which no pod was bound. The API server sets the condition at the moment of the binding.
    async fn longest_pause(&self) -> Duration {
        let pods: Api<Pod> = self.cluster.pods.clone();
        let times: BTreeSet<Timestamp> =
            pods.list(&ListParams::default()).await.expect("a list").items.into_iter().map(bound_at).collect();
        let times: Vec<Timestamp> = times.into_iter().collect();
        let pauses = times.windows(2).map(|pair| Duration::try_from(pair[1] - pair[0]).expect("in order"));
        pauses.max().unwrap_or_default()
    }
}

fn bound_at(pod: Pod) -> Timestamp {
    let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
    let scheduled = conditions.into_iter().find(|condition| condition.type_ == "PodScheduled").expect("a condition");
    assert_eq!(scheduled.status, "True");
    scheduled.last_transition_time.expect("a time").0
}

#[tokio::test(flavor = "multi_thread")]
async fn berth_takes_kube_schedulers_place_and_gives_it_back_under_load() {
    let bench = Bench::start().await;
    let mut kube_scheduler = bench.kube_scheduler().await;
    kube_scheduler.line("\"leading\"").await;
    let (tell, enough) = watch::channel(false);
    let story = async {
        bench.until_more_are_bound().await;
        let mut replicas = [bench.standby().await, bench.standby().await];
        let checked = bench.check().await;
        assert!(checked.contains(" holds the Lease kube-system/kube-scheduler"), "{checked}");

        kube_scheduler.terminate();
        let ended = kube_scheduler.ended(DEADLINE).await;
        assert!(ended.status.success(), "{}", ended.err);
        // The watch may still show pods that kube-scheduler bound, so the test waits for a line.
        let [one, other] = &mut replicas;
        tokio::select! {
            _ = one.process.line(": leading ") => {}
            _ = other.process.line(": leading ") => {}
        }
        bench.until_more_are_bound().await;
        let leading: Vec<bool> = replicas.iter().map(|replica| replica.process.text().contains(": leading ")).collect();
        assert_eq!(leading.iter().filter(|leads| **leads).count(), 1, "{leading:?}");

        // The cluster goes back to kube-scheduler.
        let mut kube_scheduler = bench.kube_scheduler().await;
        for replica in replicas {
            replica.process.terminate();
            let ended = replica.process.ended(DEADLINE).await;
            assert!(ended.status.success(), "{}", ended.err);
        }
        kube_scheduler.line("\"leading\"").await;
        bench.until_more_are_bound().await;
        tell.send_replace(true);
        kube_scheduler
    };
    let (n_pods, _kube_scheduler) = tokio::join!(bench.load(enough), story);
    bench.cluster.all_bound(n_pods).await;
    let pause = bench.longest_pause().await;
    // A replica that waited for the end of the Lease would pause for about as long as the Lease lasts.
    assert!(pause <= LEASE * 3 / 4, "for {pause:?} no pod was bound");
}
