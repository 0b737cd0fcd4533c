//! The manifests of `deploy`.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use crate::{
    bench::{Bench, has_kubectl},
    objects::{node, pod},
};

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");

/// The kinds of all objects that an installation could leave behind.
const KINDS: &str = "configmaps,secrets,serviceaccounts,services,deployments,statefulsets,persistentvolumeclaims,\
                     poddisruptionbudgets,networkpolicies,roles,rolebindings,clusterroles,clusterrolebindings,priorityclasses,\
                     customresourcedefinitions,leases";

/// The API server takes every object. With the rights and the configuration of the base, a replica schedules. Nothing is
/// left after the deletion, so this scenario is the last one: the account of the other scenarios has no rights then.
pub(super) async fn manifests(bench: &Bench) -> Result<()> {
    if !has_kubectl() {
        println!("manifests: kubectl is not on the path, skipped");
        return Ok(());
    }
    accepts(bench)?;
    let base = format!("{DEPLOY}/kustomize/base");
    bench.kubectl(&["apply", "-k", &base])?;
    let map = ["get", "configmap", "berth", "--namespace=kube-system", "-o", "jsonpath={.data.scheduler\\.yaml}"];
    let config = bench.dir().join("base.yaml");
    fs::write(&config, bench.kubectl(&map)?)?;
    bench.nodes(&[node("a", json!({}))]).await?;
    let scheduler = bench.scheduler_with(&["--config", &config.display().to_string()]).await?;
    bench.create(&pod("web", "100m", json!({"schedulerName": "berth"}))).await?;
    ensure!(bench.node_of("web").await? == "a", "the only node");
    scheduler.process.terminate()?;
    let ended = scheduler.process.ended(Duration::from_secs(10)).await?;
    ensure!(ended.status.success(), "{}", ended.err);
    bench.kubectl(&["delete", "-k", &base])?;
    let names = bench.kubectl(&["get", KINDS, "--all-namespaces", "-o", "name"])?;
    let left: Vec<&str> = names.lines().filter(|name| name.contains("berth")).collect();
    ensure!(left.is_empty(), "left behind: {}", left.join(", "));
    Ok(())
}

/// Asks the API server about the objects of each overlay, and about the static pods. The API server does not have the
/// kind that the overlay `monitoring` adds.
fn accepts(bench: &Bench) -> Result<()> {
    for (flag, folder) in [("-k", "kustomize/overlays"), ("-f", "static-pod")] {
        let folder = format!("{DEPLOY}/{folder}");
        for entry in fs::read_dir(&folder).with_context(|| folder.clone())? {
            let path = entry?.path();
            if !path.ends_with("monitoring") {
                bench.kubectl(&["apply", "--dry-run=server", flag, &path.display().to_string()])?;
            }
        }
    }
    Ok(())
}
