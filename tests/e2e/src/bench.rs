//! The control plane that all scenarios share, and the operations that they need.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use berth_test_control_plane::{Assets, ControlPlane, Objects, Options, User};
use berth_test_processes::{Ended, Process, Scheduler, berth, beside, until};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use crate::objects::{condition, node_of};

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// The number of concurrent requests when many pods are created.
const CREATES: usize = 8;

/// Whether kubectl is on the path.
pub(crate) fn has_kubectl() -> bool {
    Command::new("kubectl").args(["version", "--client"]).output().is_ok()
}

pub(crate) struct Bench {
    pub(crate) control_plane: ControlPlane,
    /// The requests of an administrator.
    pub(crate) objects: Objects,
    berth: PathBuf,
}

impl Bench {
    pub(crate) async fn start(assets: &Assets) -> Result<Self> {
        let control_plane = ControlPlane::start(assets, Options { audit: true, ..Options::default() }).await?;
        let objects = Objects::new(control_plane.client(User::Admin).await?);
        let bench = Self { control_plane, objects, berth: beside("berth")? };
        bench.give_rights().await?;
        Ok(bench)
    }

    /// Gives the rights that `berth rbac` prints to the scheduler's account, and waits until the API server knows these
    /// rights.
    async fn give_rights(&self) -> Result<()> {
        let config = self.configuration(json!({"profiles": [{"schedulerName": "default-scheduler"}]}))?;
        let told = self.ended(&["rbac", "--config", &config, "-o", "json"]).await?;
        ensure!(told.status.success(), "{}", told.err);
        let list: Value = serde_json::from_str(&told.out)?;
        for object in list["items"].as_array().context("the answer is not a list")? {
            let kind = object["kind"].as_str().unwrap_or_default();
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            let collection = match kind {
                "ServiceAccount" => format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
                "ClusterRole" | "ClusterRoleBinding" => format!("{RBAC}/{}s", kind.to_lowercase()),
                kind => format!("{RBAC}/namespaces/{namespace}/{}s", kind.to_lowercase()),
            };
            self.objects.create(&collection, object).await?;
        }
        let kubeconfig = self.kubeconfig(User::ServiceAccount);
        until("the rights of the scheduler's account", async || {
            let told = self.ended(&["doctor", "--kubeconfig", &kubeconfig, "--config", &config]).await?;
            Ok(told.status.success().then_some(()))
        })
        .await
    }

    /// Deletes all nodes, pods and events.
    pub(crate) async fn clean(&self) -> Result<()> {
        for collection in [PODS, NODES, EVENTS] {
            self.objects.delete(collection).await?;
        }
        until("no pods", async || Ok(self.objects.list(PODS).await?.is_empty().then_some(()))).await
    }

    /// Fails if the API server has refused a right to the scheduler, or has rejected a request as malformed.
    pub(crate) fn check_requests(&self) -> Result<()> {
        let wrong =
            self.control_plane.audit()?.into_iter().find(|entry| [400, 401, 403, 415, 422].contains(&entry.code));
        ensure!(wrong.is_none(), "the API server did not like a request: {wrong:?}");
        Ok(())
    }

    /// A command that runs `berth`.
    pub(crate) fn berth(&self) -> Command {
        berth(&self.berth, self.control_plane.dir())
    }

    /// Runs `berth` with these arguments to its end.
    pub(crate) async fn ended(&self, arguments: &[&str]) -> Result<Ended> {
        let mut command = self.berth();
        command.args(arguments);
        Process::start(command)?.ended(berth_test_processes::DEADLINE).await
    }

    pub(crate) fn kubeconfig(&self, user: User) -> String {
        self.control_plane.kubeconfig(user).display().to_string()
    }

    /// A scheduler that has seen all objects. It is the only scheduler, for `default-scheduler`.
    pub(crate) async fn scheduler(&self) -> Result<Scheduler> {
        self.scheduler_with(&["--leader-elect=false", "--scheduler-name=default-scheduler"]).await
    }

    /// A scheduler that has seen all objects.
    pub(crate) async fn scheduler_with(&self, arguments: &[&str]) -> Result<Scheduler> {
        let kubeconfig = self.kubeconfig(User::ServiceAccount);
        let scheduler = Scheduler::start(self.berth(), [&["--kubeconfig", &kubeconfig], arguments].concat()).await?;
        scheduler.ready().await?;
        Ok(scheduler)
    }

    /// Writes a `KubeSchedulerConfiguration` with these fields, and returns the path of the file.
    pub(crate) fn configuration(&self, fields: Value) -> Result<String> {
        let mut document = fields;
        document["apiVersion"] = json!("kubescheduler.config.k8s.io/v1");
        document["kind"] = json!("KubeSchedulerConfiguration");
        let path = self.dir().join("scheduler.json");
        fs::write(&path, document.to_string())?;
        Ok(path.display().to_string())
    }

    /// Runs kubectl as an administrator, and returns its output.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let kubeconfig = self.kubeconfig(User::Admin);
        let mut command = Command::new("kubectl");
        command.args(["--kubeconfig", &kubeconfig, "--request-timeout=20s"]).args(arguments).env("HOME", self.dir());
        let output = command.output().context("kubectl")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.success(), "kubectl {arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        Ok(text)
    }

    pub(crate) fn dir(&self) -> &Path {
        self.control_plane.dir()
    }

    pub(crate) async fn nodes(&self, nodes: &[Value]) -> Result<()> {
        for node in nodes {
            self.objects.create(NODES, node).await?;
        }
        Ok(())
    }

    pub(crate) async fn change_node(&self, name: &str, patch: Value) -> Result<()> {
        self.objects.merge(&format!("{NODES}/{name}"), &patch).await.map(drop)
    }

    pub(crate) async fn create(&self, pod: &Value) -> Result<Value> {
        self.objects.create(PODS, pod).await
    }

    /// Creates many pods, several at a time.
    pub(crate) async fn create_all(&self, pods: impl IntoIterator<Item = Value>) -> Result<()> {
        stream::iter(pods).map(Ok).try_for_each_concurrent(CREATES, async |pod| self.create(&pod).await.map(drop)).await
    }

    pub(crate) async fn delete(&self, pod: &str) -> Result<()> {
        self.objects.delete(&format!("{PODS}/{pod}")).await
    }

    pub(crate) async fn pod(&self, name: &str) -> Result<Option<Value>> {
        self.objects.get(&format!("{PODS}/{name}")).await
    }

    /// Waits until a pod is in the expected state.
    pub(crate) async fn until_pod(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        let mut last = Value::Null;
        let what = format!("{name}: {what}");
        let waited = until(&what, async || {
            let pod = self.pod(name).await?.unwrap_or_default();
            last = pod["status"].clone();
            Ok(is_so(&pod).then_some(pod))
        });
        waited.await.with_context(|| last.to_string())
    }

    /// Waits until a pod is bound, and returns its node.
    pub(crate) async fn node_of(&self, name: &str) -> Result<String> {
        let pod = self.until_pod(name, "bound", |pod| node_of(pod).is_some()).await?;
        Ok(node_of(&pod).unwrap_or_default().to_owned())
    }

    /// Waits until a pod could not be scheduled, and returns the text of its condition.
    pub(crate) async fn message_of(&self, name: &str) -> Result<String> {
        let is_told = |pod: &Value| condition(pod, "PodScheduled")["reason"] == "Unschedulable";
        let pod = self.until_pod(name, "unschedulable", is_told).await?;
        Ok(condition(&pod, "PodScheduled")["message"].as_str().unwrap_or_default().to_owned())
    }

    /// Waits for an event about a pod.
    pub(crate) async fn event(&self, pod: &str, reason: &str) -> Result<Value> {
        until(&format!("{pod}: event {reason}"), async || {
            let events = self.objects.list(EVENTS).await?;
            Ok(events.into_iter().find(|event| event["regarding"]["name"] == pod && event["reason"] == reason))
        })
        .await
    }

    /// Waits until this number of pods is bound, and checks that the API server accepted no two bindings of one pod. An
    /// answer is not recorded if the scheduler was killed before the answer.
    pub(crate) async fn all_bound_once(&self, n_pods: usize) -> Result<()> {
        until(&format!("{n_pods} bound pods"), async || {
            let pods = self.objects.list(PODS).await?;
            Ok((pods.len() == n_pods && pods.iter().all(|pod| node_of(pod).is_some())).then_some(()))
        })
        .await?;
        let mut bindings: BTreeMap<String, u32> = BTreeMap::new();
        for pod in self.objects.list(PODS).await? {
            bindings.insert(pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned(), 0);
        }
        for entry in self.control_plane.audit()?.iter().filter(|entry| entry.resource == "pods/binding") {
            let uid = entry.body["metadata"]["uid"].as_str().unwrap_or_default();
            if let Some(count) = bindings.get_mut(uid).filter(|_| entry.code == 201) {
                *count += 1;
            }
        }
        let odd: Vec<_> = bindings.iter().filter(|(_, count)| **count > 1).collect();
        ensure!(odd.is_empty(), "uids of pods, and how often each was bound: {odd:?}");
        Ok(())
    }
}
