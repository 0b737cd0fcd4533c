//! `berth demo`: create objects in a sandbox, schedule them, and say where each pod went.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use berth_cluster::{Client, WatchEvent, Watches, spawn_watches};
use berth_config::Usage;
use berth_model::{Release, api};
use berth_plugin_cli::{Output, block_on, table};
use berth_runtime::{Options, PlacementReason, Plan, Session, configuration::alone};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::{manifests, options::Demo, run::until_told_to_stop, sandbox_command};

/// The annotation of a pod that is not expected to be placed.
const EXPECT: &str = "demo.berth.dev/expect";

/// The kubeconfig file of a demo that keeps running.
const KUBECONFIG: &str = "berth.kubeconfig";

pub(crate) fn run(arguments: Demo) -> Result<()> {
    block_on(demo(arguments))
}

async fn demo(arguments: Demo) -> Result<()> {
    let objects = if arguments.manifests.is_empty() {
        manifests::demo()?
    } else {
        manifests::read(&arguments.manifests).map_err(|error| Usage(format!("{error:#}")))?
    };
    let (pods, others): (Vec<Value>, Vec<Value>) = objects.into_iter().partition(|object| object["kind"] == "Pod");
    if pods.is_empty() {
        bail!(Usage("the manifests contain no Pod to schedule".to_owned()));
    }
    let is_kept = arguments.keep || arguments.page.is_some();
    let mut options = Options { page: arguments.page, ..arguments.scheduling.clone().into() };
    let emulation = arguments.scheduling.emulation()?;
    let emulated = emulation.resolve(Release::default().into()).map_err(|error| Usage(error.to_string()))?;
    options.decide_as(emulated.gates);
    let kubeconfig = Kubeconfig::new(is_kept);
    let plan = Plan::new(&options, alone()).await?;
    let server = sandbox_command::start(berth_sandbox::Options::default()).await?;
    sandbox_command::write_kubeconfig(&server, &kubeconfig.0)?;
    let connection = sandbox_command::connection(&kubeconfig.0).await?;
    let client = connection.client();
    let (decided, mut reasons) = mpsc::unbounded_channel();
    let session = Session::start(connection, plan, &options, Some(decided)).await?;
    if let Some(address) = session.page() {
        write!(io::stderr(), "{}", sandbox_command::page_line(address))?;
    }
    let n_pods = pods.len();
    let work = async {
        for object in others {
            sandbox_command::create(&client, vec![object], "objects", 1).await?;
        }
        // The pods are created one after the other, so that the queue sees them in the order of the manifests.
        sandbox_command::create(&client, pods, "pods", 1).await?;
        let seen = watch_until_decided(&client, n_pods, arguments.timeout).await;
        let outcomes = outcomes(&seen, &mut reasons);
        show(&outcomes, arguments.output)?;
        if is_kept {
            writeln!(
                io::stderr(),
                "the sandbox keeps running: kubectl --kubeconfig {KUBECONFIG} get pods -o wide; stop with Ctrl-C"
            )?;
            until_told_to_stop().await?;
        }
        Ok(outcomes)
    };
    let outcomes = session.run_until(work).await?;
    server.stop().await;
    let unexpected: Vec<_> = outcomes.iter().filter(|pod| pod.node.is_none() && !pod.expected_pending).collect();
    if outcomes.len() < n_pods {
        bail!("the sandbox showed only {} of {n_pods} pods before --timeout", outcomes.len());
    }
    if !unexpected.is_empty() {
        let names: Vec<_> = unexpected.iter().map(|pod| pod.name.as_str()).collect();
        bail!("not every pod was placed: {}", names.join(", "));
    }
    Ok(())
}

/// The outcome of each pod, with the scheduler's reason.
fn outcomes(
    seen: &BTreeMap<(String, String), api::Pod>,
    reasons: &mut mpsc::UnboundedReceiver<PlacementReason>,
) -> Vec<Outcome> {
    let mut why = BTreeMap::new();
    while let Ok(reason) = reasons.try_recv() {
        why.insert((reason.namespace.clone(), reason.name.clone()), reason);
    }
    let pods = seen.iter();
    pods.map(|(key @ (namespace, name), pod)| Outcome::new(namespace, name, pod, why.get(key))).collect()
}

/// The kubeconfig file of the demo. The file is deleted when this value is dropped.
struct Kubeconfig(PathBuf);

impl Kubeconfig {
    fn new(keep: bool) -> Self {
        if keep {
            return Self(PathBuf::from(KUBECONFIG));
        }
        Self(std::env::temp_dir().join(format!("berth-demo-{}.kubeconfig", std::process::id())))
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        // After a failure, a file of a few lines stays in the temporary directory.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Returns each pod as the API server shows it, once the scheduler has decided about all of them.
async fn watch_until_decided(
    client: &Client,
    n_pods: usize,
    timeout: Duration,
) -> BTreeMap<(String, String), api::Pod> {
    let (sink, mut events) = mpsc::channel(256);
    let watches = spawn_watches(client, Watches { pods: true, ..Watches::default() }, &sink);
    let mut pods = BTreeMap::new();
    let all_decided = async {
        while let Some(event) = events.recv().await {
            if let WatchEvent::PodApplied(pod) = event {
                pods.insert((pod.metadata.namespace.clone(), pod.metadata.name.clone()), *pod);
            }
            if pods.len() >= n_pods && pods.values().all(is_decided) {
                return;
            }
        }
    };
    // A pod that is undecided after the timeout is shown in its present state.
    let _ = tokio::time::timeout(timeout, all_decided).await;
    watches.shutdown().await;
    pods
}

fn is_decided(pod: &api::Pod) -> bool {
    !pod.spec.node_name.is_empty() || condition(pod).is_some()
}

fn condition(pod: &api::Pod) -> Option<&api::Condition> {
    pod.status.conditions.iter().find(|it| it.type_ == "PodScheduled" && it.status == "False")
}

/// The outcome of one pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    namespace: String,
    name: String,
    node: Option<String>,
    why: String,
    /// Whether the manifest says that the pod stays pending.
    expected_pending: bool,
    #[serde(rename = "decision")]
    reason: Option<PlacementReason>,
}

impl Outcome {
    fn new(namespace: &str, name: &str, pod: &api::Pod, reason: Option<&PlacementReason>) -> Self {
        let node = (!pod.spec.node_name.is_empty()).then(|| pod.spec.node_name.clone());
        let why = match (&node, reason, condition(pod)) {
            (Some(_), Some(reason), _) => reason.choice.why(),
            (Some(_), None, _) => "named in its manifest".to_owned(),
            (None, _, Some(condition)) if condition.message.is_empty() => condition.reason.clone(),
            (None, _, Some(condition)) => condition.message.clone(),
            (None, _, None) => "no decision in time".to_owned(),
        };
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            node,
            why,
            expected_pending: pod.metadata.annotations.get(EXPECT).is_some_and(|expect| expect == "pending"),
            reason: reason.cloned(),
        }
    }
}

fn show(outcomes: &[Outcome], output: Output) -> Result<()> {
    let mut out = io::stdout().lock();
    match output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut out, &outcomes).context("cannot write the result")?;
            writeln!(out)?;
        }
        Output::Table => {
            let mut table = table::new();
            table.set_header(["POD", "NODE", "WHY"]);
            for pod in outcomes {
                table.add_row([&pod.name, pod.node.as_deref().unwrap_or("<pending>"), &pod.why]);
            }
            writeln!(out, "{}", table::text(&table))?;
        }
    }
    Ok(())
}
