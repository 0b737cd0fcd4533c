//! Several replicas, and schedulers that end: one replica schedules, another replica continues, and no pod is bound
//! twice.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use berth_test_processes::{Scheduler, until};
use serde_json::{Value, json};

use crate::{
    bench::{Bench, PODS},
    objects::{node, node_of, pod},
};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";
const LEADING: &str = "leader_election_master_status{name=\"kube-scheduler\"} 1";
const STANDING_BY: &str = "leader_election_master_status{name=\"kube-scheduler\"} 0";

/// A leader and replicas that wait. A crash costs three seconds.
async fn replicas(bench: &Bench, n_replicas: usize) -> Result<Vec<Scheduler>> {
    bench.objects.delete(LEASE).await?;
    let nodes: Vec<Value> = (0..20).map(|number| node(&format!("n{number:02}"), json!({}))).collect();
    bench.nodes(&nodes).await?;
    let election = json!({"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"});
    let config = bench.configuration(json!({"leaderElection": election}))?;
    let mut replicas = Vec::new();
    for number in 0..n_replicas {
        let replica = bench.scheduler_with(&["--config", &config]).await?;
        let state = if number == 0 { LEADING } else { STANDING_BY };
        replica.endpoints.until("/metrics", |page| page.contains(state)).await?;
        replicas.push(replica);
    }
    Ok(replicas)
}

fn small_pods(numbers: std::ops::Range<usize>) -> impl Iterator<Item = Value> {
    numbers.map(|number| pod(&format!("pod-{number:04}"), "100m", json!({})))
}

async fn until_some_are_bound(bench: &Bench, n_pods: usize) -> Result<()> {
    let bound = |pods: Vec<Value>| pods.iter().filter(|pod| node_of(pod).is_some()).count();
    let what = format!("{n_pods} bound pods");
    until(&what, async || Ok((bound(bench.objects.list(PODS).await?) >= n_pods).then_some(()))).await
}

/// The leader is killed twice while pods are created.
pub(super) async fn leader_crash(bench: &Bench) -> Result<()> {
    let mut replicas = replicas(bench, 3).await?;
    let holder = |lease: Option<Value>| lease.unwrap_or_default()["spec"]["holderIdentity"].clone();
    let mut holders = vec![holder(bench.objects.get(LEASE).await?)];
    for round in 0..2 {
        let leading = replicas
            .iter()
            .position(|replica| replica.endpoints.get("/metrics").is_ok_and(|page| page.contains(LEADING)));
        let leader = replicas.swap_remove(leading.context("there is no leader")?);
        let creating = bench.create_all(small_pods(round * 100..round * 100 + 100));
        let killing = async {
            until_some_are_bound(bench, round * 100 + 20).await?;
            leader.process.kill();
            anyhow::Ok(())
        };
        tokio::try_join!(creating, killing)?;
        until_some_are_bound(bench, round * 100 + 100).await?;
        holders.push(holder(bench.objects.get(LEASE).await?));
    }
    bench.all_bound_once(200).await?;
    ensure!(holders[0] != holders[1] && holders[1] != holders[2], "{holders:?}");
    Ok(())
}

/// A leader that is asked to end releases the lease, so that the next leader need not wait.
pub(super) async fn leader_stop(bench: &Bench) -> Result<()> {
    let mut replicas = replicas(bench, 2).await?;
    bench.create_all(small_pods(0..1)).await?;
    bench.all_bound_once(1).await?;
    let leader = replicas.remove(0);
    let told = Instant::now();
    leader.process.terminate()?;
    let ended = leader.process.ended(Duration::from_secs(10)).await?;
    ensure!(ended.status.success() && ended.err.contains("the lease is released"), "{}", ended.err);
    let next = replicas.first().context("there is no other replica")?;
    next.endpoints.until("/metrics", |page| page.contains(LEADING)).await?;
    ensure!(told.elapsed() < Duration::from_secs(3), "the lease would have run out by then: {:?}", told.elapsed());
    bench.create_all(small_pods(1..2)).await?;
    bench.all_bound_once(2).await
}

/// A scheduler without replicas crashes several times under load, and starts again.
pub(super) async fn crash_under_load(bench: &Bench) -> Result<()> {
    const N_PODS: usize = 300;
    let nodes: Vec<Value> = (0..20).map(|number| node(&format!("n{number:02}"), json!({}))).collect();
    bench.nodes(&nodes).await?;
    let crashing = async {
        for n_bound in [30, 100, 200] {
            let scheduler = bench.scheduler().await?;
            until_some_are_bound(bench, n_bound).await?;
            scheduler.process.kill();
        }
        bench.scheduler().await
    };
    let (_scheduler, ()) = tokio::try_join!(crashing, bench.create_all(small_pods(0..N_PODS)))?;
    bench.all_bound_once(N_PODS).await
}
