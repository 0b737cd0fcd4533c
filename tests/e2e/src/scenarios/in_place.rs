//! Berth in kube-scheduler's place, with kube-scheduler's command line.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use berth_test_control_plane::User;
use berth_test_processes::{Process, free_addresses};
use serde_json::json;

use crate::{
    bench::Bench,
    objects::{node, pod},
};

/// The path of a link to `berth` with kube-scheduler's name.
pub(super) fn berth_as_kube_scheduler(bench: &Bench) -> Result<PathBuf> {
    let program = bench.dir().join("kube-scheduler");
    if !program.exists() {
        std::os::unix::fs::symlink(bench.berth().get_program(), &program)?;
    }
    Ok(program)
}

/// The flags of kubeadm's static pod.
pub(super) async fn in_place_of_kube_scheduler(bench: &Bench) -> Result<()> {
    bench.nodes(&[node("a", json!({}))]).await?;
    let kubeconfig = bench.kubeconfig(User::Scheduler);
    let [address] = free_addresses()?;
    let program = berth_as_kube_scheduler(bench)?;
    let mut command = berth_test_processes::berth(&program, bench.dir());
    for flag in ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"] {
        command.arg(format!("--{flag}={kubeconfig}"));
    }
    command.args(["--bind-address=127.0.0.1", "--leader-elect=true"]);
    command.arg(format!("--secure-port={}", address.port()));
    let process = Process::start(command)?;
    process.line("serving HTTPS").await?;
    bench.create(&pod("first", "100m", json!({}))).await?;
    ensure!(bench.node_of("first").await? == "a", "the only node");
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";
    let lease = bench.objects.get(lease).await?.unwrap_or_default();
    ensure!(lease["spec"]["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty()), "{lease}");
    process.terminate()?;
    let ended = process.ended(berth_test_processes::DEADLINE).await?;
    ensure!(ended.status.success(), "{}", ended.err);
    Ok(())
}
