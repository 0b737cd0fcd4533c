//! The running server: it is started with options, reached by URL or kubeconfig, and stopped.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use berth_faults::Faults;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::api::context::Api;
use crate::api::router;
use crate::controllers::{kubelet, manager, namespaces};
use crate::objects::initial;
use crate::release::KubernetesRelease;
use crate::state::ClusterState;

/// The behaviour of a sandbox.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address to listen on. Port 0 stands for any free port.
    pub listen: SocketAddr,
    /// The time from the binding of a pod until it is running and ready.
    pub pod_start_delay: Duration,
    /// The time from the deletion of a bound pod until it is removed, and from the deletion of a namespace until it is
    /// emptied. The pod's own grace period is shown but has no effect.
    pub pod_stop_delay: Duration,
    /// Whether the controllers for volumes, device claims and disruption budgets run. If they do not run, volumes,
    /// claims and budgets keep the values that clients write, so that a client can act as a controller.
    pub controllers: bool,
    /// Whether deployments, replica sets and stateful sets get pods. The option has an effect only with `controllers`.
    pub workloads: bool,
    /// The release of Kubernetes that the API server emulates.
    pub release: KubernetesRelease,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            pod_start_delay: Duration::from_millis(50),
            pod_stop_delay: Duration::from_millis(50),
            controllers: true,
            workloads: true,
            release: KubernetesRelease::default(),
        }
    }
}

/// The reason why a sandbox did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}")]
    Listen {
        /// The requested address.
        address: SocketAddr,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The objects that every cluster has could not be created.
    #[error("cannot create the initial objects: {0}")]
    Initial(String),
}

/// A running Kubernetes API. If this value is dropped, the server also ends, but without waiting; see
/// [`Sandbox::stop`].
#[derive(Debug)]
pub struct Sandbox {
    address: SocketAddr,
    faults: Arc<Faults>,
    stopping: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Sandbox {
    /// Starts a server with empty collections, the usual namespaces and the system's priority classes.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let address = options.listen;
        let listen_error = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let (stopping, receiver) = watch::channel(false);
        let state = Arc::new(ClusterState::new(options.release));
        initial::create_initial(&state).map_err(|error| Error::Initial(format!("{:?}", error.to_status())))?;
        for kind in state.registry().kinds() {
            state.collection_of(&kind);
        }
        state.compact();
        let (start_delay, stop_delay) = (options.pod_start_delay, options.pod_stop_delay);
        let api = Arc::new(Api::new(Arc::clone(&state), receiver.clone()));
        let faults = Arc::new(Faults::default());
        let handler = move |request: Request| {
            let (parts, body) = request.into_parts();
            router::handle(Arc::clone(&api), parts, body)
        };
        let mut tasks = vec![
            tokio::spawn(kubelet::run(Arc::clone(&state), receiver.clone(), start_delay, stop_delay)),
            tokio::spawn(namespaces::run(Arc::clone(&state), receiver.clone(), stop_delay)),
            tokio::spawn(berth_faults::serve(listener, Arc::clone(&faults), receiver.clone(), handler)),
        ];
        if options.controllers {
            tasks.push(tokio::spawn(manager::run(state, receiver, options.workloads)));
        }
        Ok(Self { address, faults, stopping, tasks })
    }

    /// The address on which the server listens, with its actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The rules by which requests fail. Clients can change them at `/faults`. The list is empty at first.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// A kubeconfig file for `kubectl` and other clients, as YAML text.
    pub fn kubeconfig(&self) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: sandbox\nclusters:\n- name: sandbox\n  cluster:\n    server: {}\ncontexts:\n- name: sandbox\n  context:\n    cluster: sandbox\n    user: sandbox\n    namespace: default\nusers:\n- name: sandbox\n  user: {{}}\n",
            self.url()
        )
    }

    /// Ends all watches, lets running requests finish and stops listening.
    pub async fn stop(self) {
        self.stopping.send_replace(true);
        for task in self.tasks {
            // A task that panicked has already ended.
            let _ = task.await;
        }
    }
}
