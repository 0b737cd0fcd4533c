//! The LeaseCandidate of this process, from which the API server's coordinator chooses the leader (KEP-4355).
//!
//! The candidate is written as client-go's `tools/leaderelection/leasecandidate.go` does. The coordinator asks with
//! `pingTime` whether the candidate still runs. The answer is a later `renewTime`. The candidate is also renewed from
//! time to time, because the coordinator deletes candidates that were not renewed for long. The process does not delete
//! its candidate when the process ends, as in client-go.

use std::time::Duration;

use berth_model::KindRef;
use http::Method;
use kube::Client;
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};
use tracing::{debug, warn};

use super::{AttemptError, Coordination, ElectionSettings, exchange};
use crate::{
    clock::{self, Time},
    object::{ObjectRef, collection_path},
    watch::{WatchEvent, Watches, spawn_watches},
};

/// The time between two renewals without a ping of the coordinator, as in client-go.
const RENEWED_EVERY: Duration = Duration::from_secs(300);

/// The time after which a write that failed is tried again.
const RETRIED_AFTER: Duration = Duration::from_secs(5);

/// The maximum time of a request. The coordinator waits five seconds for the answer to `pingTime`.
const REQUEST_LIMIT: Duration = Duration::from_secs(4);

/// The number of changes that may wait. Each change is small, and only the last change matters.
const CHANGES_BOUND: usize = 16;

const GROUP: &str = "coordination.k8s.io";
const VERSION: &str = "v1beta1";
const PLURAL: &str = "leasecandidates";

pub(super) struct Candidacy {
    client: Client,
    namespace: String,
    /// The name of the LeaseCandidate, which is the identity of the process.
    name: String,
    lease: String,
    coordination: Coordination,
}

impl Candidacy {
    pub(super) fn new(client: Client, settings: &ElectionSettings, coordination: Coordination) -> Self {
        let ElectionSettings { namespace, name, identity, .. } = settings.clone();
        Self { client, namespace, name: identity, lease: name, coordination }
    }

    /// Keeps the LeaseCandidate up to date until the future is dropped. `is_candidate` becomes true once the
    /// LeaseCandidate exists.
    pub(super) async fn run(self, is_candidate: watch::Sender<bool>) {
        let (sink, mut changes) = mpsc::channel(CHANGES_BOUND);
        let kind = KindRef {
            group: GROUP.to_owned(),
            version: VERSION.to_owned(),
            kind: "LeaseCandidate".to_owned(),
            plural: PLURAL.to_owned(),
        };
        // The handle ends the watch when this future is dropped.
        let _watching = spawn_watches(&self.client, Watches { kinds: vec![kind], ..Watches::default() }, &sink);
        let mut due = Instant::now();
        loop {
            tokio::select! {
                Some(change) = changes.recv() => {
                    if !self.is_asked(&change) {
                        continue;
                    }
                }
                () = sleep_until(due) => {}
            }
            due = match self.write().await {
                Ok(()) => {
                    is_candidate.send_replace(true);
                    Instant::now() + RENEWED_EVERY
                }
                Err(error) => {
                    let (namespace, name) = (&self.namespace, &self.name);
                    warn!(namespace, name, %error, "the LeaseCandidate was not written, and without it this replica does not lead; trying again");
                    Instant::now() + RETRIED_AFTER
                }
            };
        }
    }

    /// Whether the coordinator asks the candidate to show that it runs.
    fn is_asked(&self, change: &WatchEvent) -> bool {
        match change {
            WatchEvent::ObjectApplied { namespace, name, json, .. } => {
                *namespace == self.namespace && *name == self.name && is_pinged(&json["spec"])
            }
            _ => false,
        }
    }

    /// Creates the LeaseCandidate, or renews it.
    async fn write(&self) -> Result<(), AttemptError> {
        let now = clock::micros(clock::now());
        let object = ObjectRef {
            group: GROUP.into(),
            version: VERSION.into(),
            plural: PLURAL.into(),
            namespace: Some(self.namespace.clone()),
            name: self.name.clone(),
        };
        let path = object.path(None)?.to_string();
        match exchange(&self.client, REQUEST_LIMIT, Method::GET, &path, None).await {
            Ok(mut found) => {
                found["spec"]["renewTime"] = json!(now);
                exchange(&self.client, REQUEST_LIMIT, Method::PUT, &path, Some(&found)).await?;
                debug!(name = self.name, "renewed the LeaseCandidate");
            }
            Err(error) if error.code() == Some(404) => {
                let path = collection_path(GROUP, VERSION, Some(&self.namespace), PLURAL)?;
                exchange(&self.client, REQUEST_LIMIT, Method::POST, &path, Some(&self.candidate(&now))).await?;
                debug!(name = self.name, "created the LeaseCandidate");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn candidate(&self, now: &str) -> Value {
        let Coordination { binary_version, emulation_version } = &self.coordination;
        json!({
            "apiVersion": format!("{GROUP}/{VERSION}"),
            "kind": "LeaseCandidate",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "leaseName": self.lease,
                "binaryVersion": binary_version,
                "emulationVersion": emulation_version,
                "strategy": "OldestEmulationVersion",
                "renewTime": now,
            },
        })
    }
}

/// Whether the last ping is later than the last renewal.
fn is_pinged(spec: &Value) -> bool {
    let time = |field: &str| spec[field].as_str().and_then(|text| text.parse::<Time>().ok());
    match (time("pingTime"), time("renewTime")) {
        (Some(pinged), Some(renewed)) => pinged > renewed,
        (pinged, _) => pinged.is_some(),
    }
}
