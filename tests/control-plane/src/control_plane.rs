//! etcd and kube-apiserver as processes, the files that they need, and kubeconfigs for their users.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use berth_test_processes::{Process, free_addresses, until};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    Assets, AuditEntry,
    audit::POLICY,
    certificates::{Authority, Signed, write_service_account_keys},
};

/// There are no service accounts, because no controller would create their tokens. Nodes are ready as soon as they are
/// created.
const DISABLED_ADMISSION: &str = "ServiceAccount,TaintNodesByCondition";

/// The differences of a control plane from the default.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Additional flags for kube-apiserver.
    pub api_server_flags: Vec<String>,
    /// Whether a log of the requests of the schedulers' users is kept.
    pub audit: bool,
}

/// The user of a kubeconfig.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// A member of the group `system:masters`, which may do anything.
    Admin,
    /// `system:kube-scheduler`, with the rights that Kubernetes gives its scheduler.
    Scheduler,
    /// The service account `kube-system/berth`, with the rights that a test gives it.
    ServiceAccount,
}

/// Both processes and their folder. The processes end when this value is dropped.
#[derive(Debug)]
pub struct ControlPlane {
    assets: Assets,
    options: Options,
    /// The address of the API server.
    address: SocketAddr,
    etcd_address: SocketAddr,
    /// `None` between [`Self::kill_api_server`] and [`Self::start_api_server`].
    api_server: Option<Process>,
    etcd: Process,
    dir: TempDir,
}

impl User {
    const ALL: [Self; 3] = [Self::Admin, Self::Scheduler, Self::ServiceAccount];

    fn file(self) -> &'static str {
        match self {
            Self::Admin => "admin.kubeconfig",
            Self::Scheduler => "scheduler.kubeconfig",
            Self::ServiceAccount => "service-account.kubeconfig",
        }
    }

    fn name_and_group(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Admin => ("kubernetes-admin", Some("system:masters")),
            Self::Scheduler => ("system:kube-scheduler", None),
            Self::ServiceAccount => ("system:serviceaccount:kube-system:berth", None),
        }
    }
}

impl ControlPlane {
    /// Starts both on free ports and waits until the API server is ready.
    pub async fn start(assets: &Assets, options: Options) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let [address, etcd_address, peer_address] = free_addresses()?;
        write_files(dir.path(), address)?;
        let (client_url, peer_url) = (format!("http://{etcd_address}"), format!("http://{peer_address}"));
        let mut etcd = Command::new(assets.etcd());
        etcd.arg("--data-dir").arg(dir.path().join("etcd"));
        etcd.args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url]);
        etcd.args(["--listen-peer-urls", &peer_url]).env("ETCD_UNSAFE_NO_FSYNC", "true");
        let etcd = Process::start(etcd)?;
        let assets = assets.clone();
        let mut started = Self { assets, options, address, etcd_address, api_server: None, etcd, dir };
        started.start_api_server().await?;
        Ok(started)
    }

    /// The folder of its files. The caller may add files. The folder is removed when this value is dropped.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The API server's URL, as in `https://127.0.0.1:6443`.
    #[must_use]
    pub fn server(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The address on which the API server listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    #[must_use]
    pub fn kubeconfig(&self, user: User) -> PathBuf {
        self.dir.path().join(user.file())
    }

    /// A client for this user.
    pub async fn client(&self, user: User) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig(user))?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// Starts the API server and waits until it is ready. A restarted server has the same port and the same data.
    pub async fn start_api_server(&mut self) -> Result<()> {
        let mut process = Process::start(self.api_server_command())?;
        let client = self.client(User::Admin).await?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        until("kube-apiserver ready", async || {
            if process.has_ended()? {
                bail!("kube-apiserver ended:\n{}", process.last_lines(5));
            }
            let request = http::Request::get("/readyz").body(Vec::new())?;
            let is_ready = client.request_text(request).await.is_ok_and(|answer| answer == "ok");
            if !is_ready {
                return Ok(None);
            }
            let (default, system) = (namespaces.get_opt("default").await, namespaces.get_opt("kube-system").await);
            Ok(default.ok().flatten().zip(system.ok().flatten()))
        })
        .await
        .with_context(|| process.last_lines(5))?;
        self.api_server = Some(process);
        Ok(())
    }

    /// Ends the API server as in a crash. etcd continues to run.
    pub fn kill_api_server(&mut self) {
        if let Some(process) = self.api_server.take() {
            process.kill();
        }
    }

    /// The API server's process, which can be stopped and continued; `None` while it is killed.
    #[must_use]
    pub fn api_server(&self) -> Option<&Process> {
        self.api_server.as_ref()
    }

    /// The process of etcd, which can be stopped and continued.
    #[must_use]
    pub fn etcd(&self) -> &Process {
        &self.etcd
    }

    /// All requests of the schedulers' users, if [`Options::audit`] is set. A watch is included once it has ended.
    pub fn audit(&self) -> Result<Vec<AuditEntry>> {
        let log = fs::read_to_string(self.dir.path().join("audit.log")).context("cannot read the audit log")?;
        // The API server may still be writing the last line.
        let whole_lines = log.rsplit_once('\n').map_or("", |(lines, _)| lines);
        whole_lines.lines().map(AuditEntry::read).collect()
    }

    fn api_server_command(&self) -> Command {
        let dir = self.dir.path();
        let mut command = Command::new(self.assets.kube_apiserver());
        command.arg(format!("--etcd-servers=http://{}", self.etcd_address));
        command.arg("--bind-address=127.0.0.1").arg(format!("--secure-port={}", self.address.port()));
        let files = [
            ("--cert-dir", "certs"),
            ("--tls-cert-file", "server.crt"),
            ("--tls-private-key-file", "server.key"),
            ("--client-ca-file", "ca.crt"),
            ("--service-account-key-file", "sa.pub"),
            ("--service-account-signing-key-file", "sa.key"),
        ];
        for (flag, file) in files {
            command.arg(flag).arg(dir.join(file));
        }
        command.args(["--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=RBAC"]);
        command.args(["--service-cluster-ip-range=10.0.0.0/16", "--allow-privileged=true"]);
        command.arg(format!("--disable-admission-plugins={DISABLED_ADMISSION}"));
        if self.options.audit {
            command.arg("--audit-policy-file").arg(dir.join("audit-policy.json"));
            command.arg("--audit-log-path").arg(dir.join("audit.log"));
        }
        command.args(&self.options.api_server_flags);
        command
    }
}

fn write_files(dir: &Path, address: SocketAddr) -> Result<()> {
    let write = |name: &str, text: &str| fs::write(dir.join(name), text).with_context(|| name.to_owned());
    let authority = Authority::new()?;
    let server = authority.server()?;
    write("ca.crt", authority.pem())?;
    write("server.crt", &server.certificate)?;
    write("server.key", &server.key)?;
    write("audit-policy.json", POLICY)?;
    write_service_account_keys(dir)?;
    for user in User::ALL {
        let (name, group) = user.name_and_group();
        write(user.file(), &kubeconfig(address, authority.pem(), &authority.user(name, group)?))?;
    }
    Ok(())
}

/// A kubeconfig in the form of kubeadm, which contains the certificates.
fn kubeconfig(address: SocketAddr, authority: &str, user: &Signed) -> String {
    let cluster = json!({
        "server": format!("https://{address}"),
        "certificate-authority-data": STANDARD.encode(authority),
    });
    let user = json!({
        "client-certificate-data": STANDARD.encode(&user.certificate),
        "client-key-data": STANDARD.encode(&user.key),
    });
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "kubernetes", "cluster": cluster}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "default", "context": {"cluster": "kubernetes", "user": "user"}}],
        "current-context": "default",
    });
    kubeconfig.to_string()
}
