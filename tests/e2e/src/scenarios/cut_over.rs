//! Berth replaces kube-scheduler, and kube-scheduler then replaces Berth, under load, in the steps of the guide's page
//! on installing.

use std::{cell::Cell, collections::BTreeSet, time::Duration};

use anyhow::{Context as _, Result, ensure};
use berth_test_control_plane::{Assets, User};
use berth_test_processes::{DEADLINE, Process, Scheduler, free_addresses, until};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    bench::{Bench, PODS},
    objects::{condition, node, node_of, pod},
};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";
const LEADING: &str = "leader_election_master_status{name=\"kube-scheduler\"} 1";

/// The default duration of the Lease, in seconds.
const LEASE_SECONDS: i64 = 15;

/// The pause after each pod. The pause allows some twenty pods a second, so some pods always wait for a node.
const BETWEEN_PODS: Duration = Duration::from_millis(50);

/// kube-scheduler is the program of its name in the folder of etcd and kube-apiserver. `berth kube-scheduler` stands in
/// for it if the folder has none.
pub(super) async fn cut_over_and_back(bench: &Bench) -> Result<()> {
    bench.objects.delete(LEASE).await?;
    let nodes: Vec<Value> = (0..60).map(|number| node(&format!("n{number:02}"), json!({}))).collect();
    bench.nodes(&nodes).await?;
    let is_enough = Cell::new(false);
    let story = async {
        let kube_scheduler = there_and_back(bench).await;
        is_enough.set(true);
        kube_scheduler
    };
    let (n_pods, _kube_scheduler) = tokio::try_join!(load(bench, &is_enough), story)?;
    bench.all_bound_once(n_pods).await?;
    let pause = longest_pause(&bench.objects.list(PODS).await?)?;
    ensure!(pause <= LEASE_SECONDS, "for {pause} s no pod was bound");
    Ok(())
}

/// Returns the kube-scheduler that schedules in the end.
async fn there_and_back(bench: &Bench) -> Result<Process> {
    let first = start_kube_scheduler(bench)?;
    until_more_are_bound(bench).await?;
    let config = bench.configuration(json!({}))?;
    let arguments = ["--config", config.as_str()];
    let replicas = [bench.scheduler_with(&arguments).await?, bench.scheduler_with(&arguments).await?];
    first.terminate()?;
    first.ended(DEADLINE).await?;
    until_more_are_bound(bench).await?;
    let leads = |replica: &&Scheduler| replica.endpoints.get("/metrics").is_ok_and(|page| page.contains(LEADING));
    let n_leaders = replicas.iter().filter(leads).count();
    ensure!(n_leaders == 1, "{n_leaders} replicas of Berth lead");

    let next = start_kube_scheduler(bench)?;
    for replica in replicas {
        replica.process.terminate()?;
        let ended = replica.process.ended(DEADLINE).await?;
        ensure!(ended.status.success(), "{}", ended.err);
    }
    until_more_are_bound(bench).await?;
    Ok(next)
}

/// Starts kube-scheduler with the flags of kubeadm's static pod.
fn start_kube_scheduler(bench: &Bench) -> Result<Process> {
    let assets = Assets::from_environment()?.context("KUBEBUILDER_ASSETS is not set")?;
    let program = match assets.kube_scheduler() {
        Some(program) => program,
        None => super::in_place::berth_as_kube_scheduler(bench)?,
    };
    let kubeconfig = bench.kubeconfig(User::Scheduler);
    let [address] = free_addresses()?;
    let mut command = berth_test_processes::berth(&program, bench.dir());
    for flag in ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
        command.arg(format!("--{flag}={kubeconfig}"));
    }
    command.args(["--bind-address=127.0.0.1", "--leader-elect=true"]);
    command.arg(format!("--secure-port={}", address.port())).arg(format!("--cert-dir={}", bench.dir().display()));
    Process::start(command)
}

/// Creates pods until it is enough, and returns their number.
async fn load(bench: &Bench, is_enough: &Cell<bool>) -> Result<usize> {
    let mut n_pods = 0;
    while !is_enough.get() {
        bench.create(&pod(&format!("pod-{n_pods:04}"), "10m", json!({}))).await?;
        n_pods += 1;
        sleep(BETWEEN_PODS).await;
    }
    Ok(n_pods)
}

async fn n_bound(bench: &Bench) -> Result<usize> {
    Ok(bench.objects.list(PODS).await?.iter().filter(|pod| node_of(pod).is_some()).count())
}

async fn until_more_are_bound(bench: &Bench) -> Result<()> {
    let wanted = n_bound(bench).await? + 20;
    until("more bound pods", async || Ok((n_bound(bench).await? >= wanted).then_some(()))).await
}

/// The longest time in which no pod was bound, in seconds. The API server sets the condition at the moment of the
/// binding.
fn longest_pause(pods: &[Value]) -> Result<i64> {
    let mut times = BTreeSet::new();
    for pod in pods {
        let time = condition(pod, "PodScheduled")["lastTransitionTime"].as_str();
        times.insert(time.context("a pod without the time of its binding")?.parse::<Timestamp>()?);
    }
    let pauses = times.iter().zip(times.iter().skip(1)).map(|(one, next)| next.duration_since(*one).as_secs());
    Ok(pauses.max().unwrap_or_default())
}
