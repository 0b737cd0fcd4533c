//! Plugins from a directory, and the output of the operator's commands about a cluster.

use anyhow::{Context as _, Result, ensure};
use berth_test_control_plane::User;
use berth_test_processes::AdminSocket;
use serde_json::{Value, json};

use crate::{
    bench::Bench,
    objects::{node, pod},
};

/// A component replaces a built-in plugin, and the built-in serves again when the file is removed.
pub(super) async fn plugin_directory(bench: &Bench) -> Result<()> {
    bench.nodes(&[node("a", json!({})), node("b", json!({"disk": "ssd"}))]).await?;
    let plugins = bench.dir().join("plugins");
    std::fs::create_dir_all(&plugins)?;
    let folder = plugins.display().to_string();
    let common = ["--leader-elect=false", "--scheduler-name=default-scheduler", "--plugins-dir", &folder];
    let _scheduler = bench.scheduler_with(&common).await?;
    let admin = AdminSocket::in_home(bench.dir());
    let listed = |page: &str, is_component: bool| {
        let plugins: Value = serde_json::from_str(page).unwrap_or_default();
        let found = plugins.as_array().into_iter().flatten().find(|plugin| plugin["name"] == "NodeAffinity").cloned();
        found.is_some_and(|plugin| plugin["state"] != "absent" && (plugin["digest"] != "native") == is_component)
    };
    let until = async |what: &str, is_component: bool| {
        let look = async || Ok(listed(&admin.get("/admin/plugins")?, is_component).then_some(()));
        berth_test_processes::until(what, look).await
    };
    let file = plugins.join("NodeAffinity.wasm");
    let component = berth_components::COMPONENTS.iter().find(|component| component.name == "NodeAffinity");
    std::fs::write(&file, component.context("the component is not built in")?.bytes())?;
    until("the component serves", true).await?;
    bench.create(&pod("by-component", "100m", json!({"nodeSelector": {"disk": "ssd"}}))).await?;
    ensure!(bench.node_of("by-component").await? == "b", "the component filters");
    let told = bench.ended(&["plugin", "list"]).await?;
    ensure!(told.status.success() && told.out.contains("NodeAffinity"), "{}{}", told.out, told.err);
    std::fs::remove_file(&file)?;
    until("the built-in plugin runs natively", false).await?;
    bench.create(&pod("natively", "100m", json!({"nodeSelector": {"disk": "ssd"}}))).await?;
    ensure!(bench.node_of("natively").await? == "b", "the built-in filters");
    Ok(())
}

/// The doctor finds no problem with the rights that Kubernetes ships, nor with those that an administrator checks for the
/// service account.
pub(super) async fn doctor(bench: &Bench) -> Result<()> {
    bench.nodes(&[node("a", json!({}))]).await?;
    let config = bench.configuration(json!({"leaderElection": {"leaderElect": false}}))?;
    let kubeconfig = bench.kubeconfig(User::Scheduler);
    let told = bench.ended(&["doctor", "--kubeconfig", &kubeconfig, "--config", &config]).await?;
    ensure!(told.status.success(), "{}{}", told.out, told.err);
    let (admin, account) = (bench.kubeconfig(User::Admin), "system:serviceaccount:kube-system:berth");
    let told = bench.ended(&["doctor", "--kubeconfig", &admin, "--config", &config, "--as", account]).await?;
    let is_checked = told.out.contains(&format!("{account} has all "));
    ensure!(told.status.success() && is_checked, "{}{}", told.out, told.err);
    Ok(())
}
