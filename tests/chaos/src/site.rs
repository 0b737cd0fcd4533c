//! The place of a run: a sandbox, or a real control plane behind a proxy with faults.
//!
//! The harness uses the API server without faults. Only the schedulers meet faults.

use std::{path::PathBuf, process::Command, sync::Arc};

use anyhow::{Context as _, Result};
use axum::{body::Body, response::Response};
use berth_faults::Faults;
use berth_test_control_plane::{Assets, ControlPlane, Options, User};
use berth_test_processes::{Process, berth, beside};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{Request, StatusCode, header};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, Config,
    api::{ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{net::TcpListener, sync::watch};

/// The number of concurrent requests when nodes are created.
const CREATES: usize = 16;

/// The API server, and the schedulers' way to it. The server and the relays end when this value is dropped.
pub(crate) struct Site {
    /// The harness's own client.
    pub(crate) client: Client,
    /// Whether pods that are deleted gracefully are removed without the harness.
    pub(crate) has_kubelets: bool,
    /// The kubeconfig of the schedulers.
    kubeconfig: PathBuf,
    /// The client for the rules.
    faults: Client,
    dir: TempDir,
    _server: Server,
}

/// The server, which must exist until the end.
enum Server {
    Sandbox { _process: Process },
    Real { _control_plane: Box<ControlPlane>, _proxy: watch::Sender<bool> },
}

impl Site {
    /// A sandbox with this number of nodes, in a separate process.
    pub(crate) async fn sandbox(n_nodes: u32) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let kubeconfig = dir.path().join("kubeconfig");
        let mut command = berth(&beside("berth")?, dir.path());
        command.args(["sandbox", "--no-scheduler", "--log", "warn", "--nodes", &n_nodes.to_string(), "--kubeconfig"]);
        command.arg(&kubeconfig);
        let process = Process::start(command)?;
        process.line("serving ").await?;
        let client = client(Kubeconfig::read_from(&kubeconfig)?).await?;
        let server = Server::Sandbox { _process: process };
        Ok(Self { faults: client.clone(), client, has_kubelets: true, kubeconfig, dir, _server: server })
    }

    /// etcd and kube-apiserver, and a proxy between them and the schedulers.
    pub(crate) async fn real(n_nodes: u32) -> Result<Self> {
        let assets = Assets::from_environment()?
            .context("KUBEBUILDER_ASSETS is not set: name the folder of etcd and kube-apiserver there")?;
        // The flags make requests as fast as the machine allows, because the program does not test API Priority and
        // Fairness.
        let flags = ["--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000"].map(str::to_owned);
        let control_plane =
            ControlPlane::start(&assets, Options { api_server_flags: flags.into(), audit: false }).await?;
        let client = control_plane.client(User::Admin).await?;
        create_nodes(&client, n_nodes).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let (stopping, receiver) = watch::channel(false);
        let behind = control_plane.client(User::Scheduler).await?;
        let forward = move |request| forward(behind.clone(), request);
        tokio::spawn(berth_faults::serve(listener, Arc::new(Faults::default()), receiver, forward));
        let dir = tempfile::tempdir()?;
        let kubeconfig = dir.path().join("kubeconfig");
        let text = kubeconfig_of(&url).to_string();
        std::fs::write(&kubeconfig, &text)?;
        let faults = self::client(Kubeconfig::from_yaml(&text)?).await?;
        let server = Server::Real { _control_plane: Box::new(control_plane), _proxy: stopping };
        Ok(Self { faults, client, has_kubelets: false, kubeconfig, dir, _server: server })
    }

    /// The command line of `berth run`, without the part that a replica adds.
    pub(crate) fn scheduler(&self) -> Result<(Command, PathBuf)> {
        Ok((berth(&beside("berth")?, self.dir.path()), self.kubeconfig.clone()))
    }

    /// The configuration file of the schedulers.
    pub(crate) fn write_config(&self, text: &str) -> Result<PathBuf> {
        let path = self.dir.path().join("scheduler.yaml");
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// Adds rules.
    pub(crate) async fn add_faults(&self, rules: &Value) -> Result<()> {
        self.ask("POST", rules.to_string()).await.map(drop)
    }

    /// Removes all rules, and returns them with the number of their hits.
    pub(crate) async fn end_faults(&self) -> Result<Value> {
        let rules = self.ask("GET", String::new()).await?;
        self.ask("DELETE", String::new()).await?;
        Ok(rules)
    }

    async fn ask(&self, method: &str, body: String) -> Result<Value> {
        let request = Request::builder().method(method).uri("/faults").body(body.into_bytes())?;
        self.faults.request(request).await.with_context(|| format!("{method} /faults"))
    }

    /// The names of all nodes.
    pub(crate) async fn nodes(&self) -> Result<Vec<String>> {
        let nodes = Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await?;
        Ok(nodes.items.into_iter().filter_map(|node| node.metadata.name).collect())
    }
}

/// Passes a request on. The answer is passed back while it arrives.
async fn forward(behind: Client, request: Request<Body>) -> Response {
    let (mut parts, body) = request.into_parts();
    parts.headers.remove(header::HOST);
    let sent = async {
        let body = axum::body::to_bytes(body, usize::MAX).await?;
        let answer = behind.send(Request::from_parts(parts, body.into())).await?;
        anyhow::Ok(answer.map(Body::new))
    };
    sent.await.unwrap_or_else(|error| {
        let mut answer = Response::new(Body::from(error.to_string()));
        *answer.status_mut() = StatusCode::BAD_GATEWAY;
        answer
    })
}

async fn client(kubeconfig: Kubeconfig) -> Result<Client> {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

fn kubeconfig_of(url: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "proxy", "cluster": {"server": url}}],
        "users": [{"name": "user", "user": {}}],
        "contexts": [{"name": "default", "context": {"cluster": "proxy", "user": "user"}}],
        "current-context": "default",
    })
}

async fn create_nodes(client: &Client, n_nodes: u32) -> Result<()> {
    let api: Api<Node> = Api::all(client.clone());
    stream::iter(berth_sandbox::nodes(usize::try_from(n_nodes)?, 3))
        .map(|node| {
            let api = api.clone();
            async move { anyhow::Ok(api.create(&PostParams::default(), &serde_json::from_value(node)?).await?) }
        })
        .buffer_unordered(CREATES)
        .try_for_each(|_| async { Ok(()) })
        .await
        .context("cannot create nodes")
}
