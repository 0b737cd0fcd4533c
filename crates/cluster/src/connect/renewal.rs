//! Credentials that are replaced on disk while the process runs.
//!
//! `kube` itself renews token files and the tokens of a credential plugin. `kube` reads everything else only once: the
//! kubeconfig, certificates, keys and authorities. After a change of these files, this module makes a new client, which
//! serves every later request. Open watches end as usual, and continue with the new client from their last version.

use std::{
    ops::Range,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use http::{Request, StatusCode};
use kube::{client::Body, config::Kubeconfig};
use tokio::sync::Notify;
use tower::service_fn;

use crate::{
    clock,
    transport::{Transport, Validity},
};

use super::{ConnectError, ConnectOptions, Connection, Environment, Origin, connect_in, read};

/// The file with which a pod verifies the API server.
const SERVICE_ACCOUNT_CA: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// The time before its end at which a certificate is replaced. If the new certificate has less time left, it is used
/// for half of this time.
const EARLY: Duration = Duration::from_secs(60);

/// Makes new clients for a long-lived connection when its credentials change.
pub struct Renewal {
    options: ConnectOptions,
    /// The API server's address.
    server: String,
    origin: Origin,
    current: Arc<RwLock<Transport>>,
    refused: Arc<Notify>,
}

/// The reason why the previous client stays in use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenewalError {
    /// The files cannot be used at the moment.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The files name another server. All data of the process is about the cluster with which the process started.
    #[error("{origin} names another API server, {new} instead of {old}: restart to use it")]
    OtherServer {
        /// The source of the new address.
        origin: Origin,
        /// The address of the previous client, which stays in use.
        old: String,
        /// The new address in the files.
        new: String,
    },
}

impl std::fmt::Debug for Renewal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Renewal").field("origin", &self.origin).field("server", &self.server).finish_non_exhaustive()
    }
}

/// Connects as [`super::connect`] does. The client uses other credentials after each [`Renewal::renew`].
///
/// This must be called inside a tokio runtime.
///
/// # Errors
/// Fails as [`super::connect`] does.
pub async fn connect_for_long(options: &ConnectOptions) -> Result<(Connection, Renewal), ConnectError> {
    let Connection { transport, origin, server } = connect_in(options, Environment::of_process()).await?;
    let current = Arc::new(RwLock::new(transport.clone()));
    let refused = Arc::new(Notify::new());
    let renewal = Renewal {
        options: options.clone(),
        server: server.clone(),
        origin: origin.clone(),
        current: Arc::clone(&current),
        refused: Arc::clone(&refused),
    };
    let transport = transport.with_service(service_fn(move |request: Request<Body>| {
        let current = current.read().unwrap_or_else(PoisonError::into_inner).clone();
        let refused = Arc::clone(&refused);
        async move {
            let answer = current.send(request).await?;
            if answer.status() == StatusCode::UNAUTHORIZED {
                refused.notify_one();
            }
            Ok(answer)
        }
    }));
    Ok((Connection { transport, origin, server }, renewal))
}

impl Renewal {
    /// The files from which the client is made, except the files that `kube` reads again itself. The files that the
    /// kubeconfig names may change with each renewal.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = self.origin.files().to_vec();
        if self.origin == Origin::InCluster {
            files.push(SERVICE_ACCOUNT_CA.into());
        }
        if let Ok(kubeconfig) = read(&self.origin) {
            files.extend(named_files(&kubeconfig));
        }
        files
    }

    /// Makes a client from the present content of the files.
    ///
    /// # Errors
    /// The files cannot be used, or name another cluster. The previous client then stays in use.
    pub async fn renew(&self) -> Result<(), RenewalError> {
        let Connection { transport, server, .. } = connect_in(&self.options, Environment::of_process()).await?;
        if server != self.server {
            let (origin, old) = (self.origin.clone(), self.server.clone());
            return Err(RenewalError::OtherServer { origin, old, new: server });
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = transport;
        Ok(())
    }

    /// The time in which the certificate of a credential plugin is valid; `None` if there is no such certificate.
    #[must_use]
    pub fn plugin_certificate(&self) -> Option<Range<SystemTime>> {
        self.validity().map(|Validity { from, until }| from.into()..until.into())
    }

    fn validity(&self) -> Option<Validity> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).certificate()
    }

    /// Waits until a certificate of a credential plugin is about to expire. Waits for ever if there is no such
    /// certificate.
    pub async fn runs_out(&self) {
        let Some(certificate) = self.validity() else { return std::future::pending().await };
        let left = Duration::try_from(certificate.until.duration_since(clock::now())).unwrap_or_default();
        tokio::time::sleep(left.saturating_sub(EARLY).max(EARLY / 2)).await;
    }

    /// Waits until the API server answers 401 Unauthorized. The caller should then renew the credentials, as client-go
    /// does.
    pub async fn refused(&self) {
        self.refused.notified().await;
    }
}

/// The files in all contexts, used or not.
fn named_files(kubeconfig: &Kubeconfig) -> Vec<PathBuf> {
    let clusters = kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref());
    let authorities = clusters.filter_map(|cluster| cluster.certificate_authority.clone());
    let users = kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    let pairs = users.flat_map(|user| [user.client_certificate.clone(), user.client_key.clone()]).flatten();
    authorities.chain(pairs).map(PathBuf::from).collect()
}
