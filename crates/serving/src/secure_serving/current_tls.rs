//! The TLS settings that connections use. [`CurrentTls`] owns them: it reads changed files again, and takes over the
//! authorities that the cluster publishes.
//!
//! New connections are made with the current settings. The certificates of a client are judged for each request, as in
//! kube-scheduler, because a connection may be older than the authorities.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use anyhow::Result;
use berth_file_watch::FileWatch;
use rustls::{
    ServerConfig,
    crypto::CryptoProvider,
    pki_types::CertificateDer,
    version::{TLS12, TLS13},
};
use tracing::{info, warn};

use super::{
    Authorities, SecureServing, ServeHttp2,
    certificates::{ServerNames, kept_files},
    trust::{Peer, Trust},
};

/// The owner of the settings.
#[derive(Debug)]
pub(super) struct CurrentTls {
    pub(super) serving: SecureServing,
    pub(super) provider: Arc<CryptoProvider>,
    /// The parts of the current settings. A change holds the lock from its beginning to its end.
    parts: Mutex<Parts>,
    tls: RwLock<Arc<Tls>>,
}

/// The settings of connections, and of the identification of their clients.
#[derive(Debug)]
pub(super) struct Tls {
    pub(super) config: Arc<ServerConfig>,
    trust: Trust,
}

#[derive(Debug)]
struct Parts {
    names: Arc<ServerNames>,
    trust: Trust,
}

/// The client of a connection, with the certificates that it has shown. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct ConnectedClient {
    certificates: Arc<[CertificateDer<'static>]>,
    tls: Arc<CurrentTls>,
}

impl CurrentTls {
    /// Reads all files that `serving` names.
    ///
    /// # Errors
    /// A file cannot be read, or does not contain the expected data.
    pub(super) fn read(serving: &SecureServing) -> Result<Self> {
        let provider = Arc::new(serving.tls_choices.provider());
        let names = Arc::new(ServerNames::read(serving, &provider, None)?);
        let parts = Parts { names, trust: Trust::read(serving, &provider)? };
        let tls = Tls::new(serving, &provider, &parts)?;
        let (parts, tls) = (Mutex::new(parts), RwLock::new(Arc::new(tls)));
        Ok(Self { serving: serving.clone(), provider, parts, tls })
    }

    pub(super) fn get(&self) -> Arc<Tls> {
        Arc::clone(&self.tls.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the trusted authorities. If they stay equal, the settings stay, too, and clients can resume their sessions.
    ///
    /// # Errors
    /// The server cannot use the authorities. Then nothing changes.
    pub(super) fn change_trust<T>(&self, change: impl FnOnce(&mut Trust) -> T) -> Result<T> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut trust = parts.trust.clone();
        let result = change(&mut trust);
        if trust != parts.trust {
            let names = Arc::clone(&parts.names);
            self.replace(&mut parts, Parts { names, trust })?;
        }
        Ok(result)
    }

    /// Reads changed certificates and authorities from their files.
    pub(super) fn follow_files(self: &Arc<Self>) -> Option<FileWatch> {
        let files = files(&self.serving);
        if files.is_empty() {
            return None;
        }
        let tls = Arc::clone(self);
        let changed = move || match tls.read_files_again() {
            Ok(()) => info!("using the new certificates"),
            Err(error) => {
                warn!(reason = format!("{error:#}"), "failed to load new certificates; keeping the previous ones");
            }
        };
        let watch = berth_file_watch::watch(files, changed);
        watch.inspect_err(|error| warn!(%error, "cannot watch the certificate files; a change needs a restart")).ok()
    }

    /// Reads all files again. Authorities that the cluster publishes stay.
    fn read_files_again(&self) -> Result<()> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let names = Arc::new(ServerNames::read(&self.serving, &self.provider, Some(&parts.names))?);
        let Trust { clients, front_proxies } = Trust::read(&self.serving, &self.provider)?;
        let trust = Trust {
            clients: clients.or_else(|| parts.trust.clients.clone()),
            front_proxies: front_proxies.or_else(|| parts.trust.front_proxies.clone()),
        };
        self.replace(&mut parts, Parts { names, trust })
    }

    fn replace(&self, parts: &mut Parts, new: Parts) -> Result<()> {
        let tls = Tls::new(&self.serving, &self.provider, &new)?;
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tls);
        *parts = new;
        Ok(())
    }
}

impl Tls {
    fn new(serving: &SecureServing, provider: &Arc<CryptoProvider>, parts: &Parts) -> Result<Self> {
        let versions = if serving.only_tls13 { &[&TLS13][..] } else { &[&TLS13, &TLS12] };
        let builder = ServerConfig::builder_with_provider(Arc::clone(provider)).with_protocol_versions(versions)?;
        let builder = match parts.trust.verifier(provider)? {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let names: Arc<ServerNames> = Arc::clone(&parts.names);
        let mut config = builder.with_cert_resolver(names);
        if serving.http2 != ServeHttp2::No {
            config.alpn_protocols.push(b"h2".to_vec());
        }
        config.alpn_protocols.push(b"http/1.1".to_vec());
        Ok(Self { config: Arc::new(config), trust: parts.trust.clone() })
    }
}

impl ConnectedClient {
    pub(super) fn new(certificates: &[CertificateDer<'static>], tls: Arc<CurrentTls>) -> Self {
        Self { certificates: certificates.into(), tls }
    }

    /// The users that the client's certificates name, according to the current authorities.
    pub(super) fn peer(&self) -> Peer {
        self.tls.get().trust.peer(&self.certificates)
    }
}

/// The files with certificates, keys and authorities.
fn files(serving: &SecureServing) -> Vec<PathBuf> {
    let kept = serving.certificate_dir.as_deref().map(kept_files);
    let own = serving.certificate.clone().or(kept);
    let named = serving.sni_certificates.iter().flat_map(|sni| [&sni.certificate, &sni.key]);
    let authorities = serving.client_ca.iter().chain(serving.front_proxy.iter().map(|proxy| &proxy.authority));
    let authorities = authorities.filter_map(|authorities| match authorities {
        Authorities::File(file) => Some(file),
        Authorities::Pem(_) => None,
    });
    let own = own.into_iter().flat_map(|(certificate, key)| [certificate, key]);
    own.chain(named.chain(authorities).cloned()).collect()
}
