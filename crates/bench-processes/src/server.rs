//! The API server of a run, and the objects in it.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use berth_cluster::{
    Client, ConnectOptions, Creator, ObjectRef, USER_AGENT, WatchEvent, Watches, WriteError, Writer, connect,
    spawn_watches,
};
use berth_config::Usage;
use berth_model::KindRef;
use berth_telemetry::chain;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;
use tokio::sync::mpsc;

/// Requests that may be under way at the same time.
const AT_A_TIME: usize = 16;

/// The place where pods are created.
#[derive(Clone, Debug)]
pub enum Server {
    /// A new sandbox for each run.
    Sandbox,
    /// The cluster of this kubeconfig.
    Cluster(PathBuf),
}

/// A server that is ready for one run.
pub(crate) struct RunningServer {
    dir: Folder,
    kubeconfig: PathBuf,
    client: Client,
    sandbox: Option<Killed>,
    /// The objects that were created in a cluster of the user's, in order.
    created: Mutex<Vec<Value>>,
}

/// A child process that is killed when this value is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // The process may already have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A temporary folder that is deleted when this value is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // After a failure, some files stay in the temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Server {
    /// # Errors
    /// The server cannot be started or reached, or belongs to a cluster with nodes.
    pub(crate) async fn start(&self) -> Result<RunningServer> {
        let dir = std::env::temp_dir().join(format!("berth-bench-{}", std::process::id()));
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let dir = Folder(dir);
        let (kubeconfig, sandbox) = match self {
            Self::Sandbox => {
                let kubeconfig = dir.0.join("kubeconfig");
                let process = start_sandbox(&kubeconfig)?;
                (kubeconfig, Some(process))
            }
            Self::Cluster(kubeconfig) => (kubeconfig.clone(), None),
        };
        let client = client(&kubeconfig).await?;
        if let Self::Cluster(kubeconfig) = self {
            refuse_nodes(&client, kubeconfig).await?;
        }
        Ok(RunningServer { dir, kubeconfig, client, sandbox, created: Mutex::default() })
    }
}

async fn client(kubeconfig: &Path) -> Result<Client> {
    let options = ConnectOptions {
        kubeconfig: Some(kubeconfig.to_owned()),
        user_agent: USER_AGENT.to_owned(),
        ..ConnectOptions::default()
    };
    let connection = connect(&options).await.map_err(|error| anyhow::anyhow!(chain(&error)))?;
    Ok(connection.client())
}

fn start_sandbox(kubeconfig: &Path) -> Result<Killed> {
    let mut child = Command::new(std::env::current_exe().context("cannot find the file of this program")?)
        .args(["sandbox", "--no-scheduler", "--log", "warn", "--kubeconfig"])
        .arg(kubeconfig)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start a sandbox")?;
    let output = child.stdout.take().context("the sandbox has no output")?;
    let sandbox = Killed(child);
    for line in BufReader::new(output).lines() {
        if line?.starts_with("serving ") {
            return Ok(sandbox);
        }
    }
    bail!("the sandbox ended before it served")
}

/// Refuses a cluster that has nodes, because such a cluster is in use.
async fn refuse_nodes(client: &Client, kubeconfig: &Path) -> Result<()> {
    let (sink, mut events) = mpsc::channel(16);
    let watches = spawn_watches(client, Watches { nodes: true, ..Watches::default() }, &sink);
    let mut n_nodes = 0;
    while let Some(event) = events.recv().await {
        match event {
            WatchEvent::NodeApplied(_) => n_nodes += 1,
            _ => break,
        }
        if n_nodes > 0 {
            break;
        }
    }
    watches.shutdown().await;
    if n_nodes > 0 {
        let text =
            format!("--kubeconfig {}: the cluster has nodes; measure in one that is empty", kubeconfig.display());
        bail!(Usage(text));
    }
    Ok(())
}

impl RunningServer {
    pub(crate) fn dir(&self) -> &Path {
        &self.dir.0
    }

    /// The admin socket of the scheduler that is measured.
    pub(crate) fn admin_socket(&self) -> PathBuf {
        self.dir().join("admin.sock")
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    pub(crate) fn objects(&self) -> Objects<'_> {
        let writer = Writer::new(self.client.clone());
        Objects { server: self, creator: Creator::new(self.client.clone()), writer }
    }

    /// Ends a sandbox, or deletes the objects that were created in the user's cluster.
    ///
    /// # Errors
    /// An object cannot be deleted.
    pub(crate) async fn stop(self) -> Result<()> {
        let created = std::mem::take(&mut *self.created.lock().unwrap_or_else(PoisonError::into_inner));
        let objects = self.objects();
        // Pods are deleted before the objects that they need.
        let (pods, others): (Vec<Value>, Vec<Value>) = created.into_iter().partition(|object| object["kind"] == "Pod");
        for lot in [pods, others] {
            stream::iter(lot.iter())
                .map(|object| objects.delete(object))
                .buffer_unordered(AT_A_TIME)
                .try_collect()
                .await?
        }
        Ok(())
    }
}

/// Creates and deletes objects.
#[derive(Clone)]
pub(crate) struct Objects<'a> {
    server: &'a RunningServer,
    creator: Creator,
    writer: Writer,
}

impl Objects<'_> {
    pub(crate) fn client(&self) -> &Client {
        &self.server.client
    }

    /// Creates the objects one after the other.
    ///
    /// # Errors
    /// The server does not take an object.
    pub(crate) async fn create_each(&self, objects: &[Value]) -> Result<()> {
        let mut creator = self.creator.clone();
        for object in objects {
            self.create(&mut creator, object).await?;
        }
        Ok(())
    }

    /// Creates the objects, many at a time.
    ///
    /// # Errors
    /// The server does not take an object.
    pub(crate) async fn create_all(&self, objects: Vec<Value>) -> Result<()> {
        let Some(first) = objects.first() else { return Ok(()) };
        let mut creator = self.creator.clone();
        // The creator asks for the kind of the first object, and its clones then know the kind.
        self.create(&mut creator, first).await?;
        stream::iter(objects.iter().skip(1))
            .map(|object| {
                let mut creator = creator.clone();
                async move { self.create(&mut creator, object).await }
            })
            .buffer_unordered(AT_A_TIME)
            .try_collect()
            .await
    }

    /// Creates each object at its due time, counted from `started`, even if earlier requests have not returned.
    ///
    /// # Errors
    /// The server does not take an object.
    pub(crate) async fn create_at_rate(&self, objects: Vec<Value>, started: Instant, rate: f64) -> Result<()> {
        let mut creating = stream::FuturesUnordered::new();
        for (at, object) in objects.iter().enumerate() {
            let due = started + Duration::from_secs_f64(f64::from(u32::try_from(at)?) / rate);
            let mut due = std::pin::pin!(tokio::time::sleep_until(due.into()));
            loop {
                tokio::select! {
                    () = &mut due => break,
                    Some(created) = creating.next(), if !creating.is_empty() => created?,
                }
            }
            let mut creator = self.creator.clone();
            creating.push(async move { self.create(&mut creator, object).await });
        }
        creating.try_collect().await
    }

    async fn create(&self, creator: &mut Creator, object: &Value) -> Result<()> {
        let created = creator.create(object).await;
        created.map_err(|error| anyhow::anyhow!("cannot create {}: {}", object["kind"], chain(&error)))?;
        if self.server.sandbox.is_none() {
            let object = serde_json::json!({"apiVersion": object["apiVersion"], "kind": object["kind"],
                "metadata": {"name": object["metadata"]["name"], "namespace": object["metadata"]["namespace"]}});
            self.server.created.lock().unwrap_or_else(PoisonError::into_inner).push(object);
        }
        Ok(())
    }

    /// Deletes the object. It is not an error if the object is already gone.
    ///
    /// # Errors
    /// The server refuses the request.
    pub(crate) async fn delete(&self, object: &Value) -> Result<()> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = KindRef::of_kind(&text(&object["apiVersion"]), &text(&object["kind"]));
        let object = ObjectRef {
            plural: kind.likely_plural(),
            group: kind.group,
            version: kind.version,
            namespace: object["metadata"]["namespace"].as_str().map(str::to_owned),
            name: text(&object["metadata"]["name"]),
        };
        let deleted = match object.plural.as_str() {
            "pods" => self.writer.delete_at_once(&object).await,
            _ => self.writer.delete_object(&object, None).await,
        };
        match deleted {
            Ok(()) | Err(WriteError::NotFound { .. }) => Ok(()),
            Err(error) => Err(anyhow::anyhow!("cannot delete {} {}: {}", object.plural, object.name, chain(&error))),
        }
    }
}
