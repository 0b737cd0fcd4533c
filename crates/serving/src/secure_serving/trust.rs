//! The authorities that vouch for clients and for front proxies, and the users that certificates name.

use std::{fmt, sync::Arc};

use anyhow::{Context as _, Result};
use berth_cluster::Caller;
use berth_config::Usage;
use rustls::{
    RootCertStore,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, UnixTime, pem::PemObject as _},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use x509_parser::parse_x509_certificate;

use super::{Authorities, FrontProxy, SecureServing};

/// The key of the clients' authorities in the cluster's ConfigMap. The flag for a file has the same name.
pub(super) const CLIENT_CA: &str = "client-ca-file";

/// The key of the front proxies' authorities in the cluster's ConfigMap. The flag for a file has the same name.
pub(super) const PROXY_CA: &str = "requestheader-client-ca-file";

/// The ConfigMap in which the API server publishes its authorities.
pub(super) const NAMESPACE: &str = "kube-system";
pub(super) const CONFIG_MAP: &str = "extension-apiserver-authentication";

/// The trusted authorities. `None` vouches for no certificate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trust {
    pub(super) clients: Option<Arc<TrustedAuthorities>>,
    pub(super) front_proxies: Option<TrustedProxies>,
}

/// Authorities that vouch for certificates. Authorities with the same certificates are equal.
#[derive(Debug)]
pub(super) struct TrustedAuthorities {
    roots: RootCertStore,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// Front proxies, and the headers in which they name users.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TrustedProxies {
    pub(super) authorities: Arc<TrustedAuthorities>,
    pub(super) settings: Arc<FrontProxy>,
}

/// The users that a client's certificate names.
#[derive(Clone, Debug, Default)]
pub(super) struct Peer {
    /// A user with a certificate that the clients' authority signed.
    pub(super) client: Option<Caller>,
    /// A front proxy with a certificate from its authority.
    pub(super) front_proxy: Option<KnownProxy>,
}

/// A front proxy with a verified certificate.
#[derive(Clone, Debug)]
pub(super) struct KnownProxy {
    /// The common name of the certificate.
    pub(super) name: String,
    pub(super) settings: Arc<FrontProxy>,
}

impl Trust {
    /// Reads the files that the flags name.
    ///
    /// # Errors
    /// A file cannot be read, or does not contain certificates.
    pub(super) fn read(serving: &SecureServing, provider: &Arc<CryptoProvider>) -> Result<Self> {
        let clients = serving.client_ca.as_ref().map(|named| TrustedAuthorities::read(CLIENT_CA, named, provider));
        let front_proxies = serving.front_proxy.as_ref().map(|proxy| {
            let authorities = TrustedAuthorities::read(PROXY_CA, &proxy.authority, provider)?;
            anyhow::Ok(TrustedProxies { authorities, settings: Arc::new(proxy.clone()) })
        });
        Ok(Self { clients: clients.transpose()?, front_proxies: front_proxies.transpose()? })
    }

    /// Accepts every certificate for which some authority vouches, and clients without a certificate; `None` if there
    /// are no authorities.
    pub(super) fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Option<Arc<dyn ClientCertVerifier>>> {
        let mut all = RootCertStore::empty();
        let proxies = self.front_proxies.as_ref().map(|proxies| &proxies.authorities);
        for authorities in self.clients.iter().chain(proxies) {
            all.extend(authorities.roots.roots.iter().cloned());
        }
        if all.is_empty() { Ok(None) } else { verifier(all, provider).map(Some) }
    }

    /// The users in this chain of certificates. The client's own certificate is the first.
    pub(super) fn peer(&self, chain: &[CertificateDer<'_>]) -> Peer {
        let Some((own, others)) = chain.split_first() else { return Peer::default() };
        let Some(caller) = subject(own) else { return Peer::default() };
        let proxies = self.front_proxies.as_ref().filter(|proxies| proxies.authorities.vouch_for(own, others));
        let front_proxy = proxies
            .map(|proxies| KnownProxy { name: caller.name().to_owned(), settings: Arc::clone(&proxies.settings) });
        let is_client = self.clients.as_ref().is_some_and(|clients| clients.vouch_for(own, others));
        Peer { client: is_client.then_some(caller), front_proxy }
    }
}

impl TrustedAuthorities {
    /// Reads authorities. `key` is their key in the ConfigMap, and the name of the flag for a file.
    ///
    /// # Errors
    /// The file cannot be read, or there are no certificates.
    pub(super) fn read(key: &str, named: &Authorities, provider: &Arc<CryptoProvider>) -> Result<Arc<Self>> {
        let origin = match named {
            Authorities::File(file) => format!("--{key} {}", file.display()),
            Authorities::Pem(_) => published_under(key),
        };
        let unusable = |error: &dyn fmt::Display| Usage(format!("{origin}: {error}"));
        let read: Result<Vec<CertificateDer<'static>>, _> = match named {
            Authorities::File(file) => CertificateDer::pem_file_iter(file).and_then(Iterator::collect),
            Authorities::Pem(text) => CertificateDer::pem_slice_iter(text.as_bytes()).collect(),
        };
        let mut roots = RootCertStore::empty();
        for certificate in read.map_err(|error| unusable(&error))? {
            roots.add(certificate).map_err(|error| unusable(&error))?;
        }
        if roots.is_empty() {
            return Err(unusable(&"it contains no certificate").into());
        }
        let verifier = verifier(roots.clone(), provider).context(origin)?;
        Ok(Arc::new(Self { roots, verifier }))
    }

    fn vouch_for(&self, own: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> bool {
        self.verifier.verify_client_cert(own, others, UnixTime::now()).is_ok()
    }
}

impl PartialEq for TrustedAuthorities {
    fn eq(&self, other: &Self) -> bool {
        self.roots.roots == other.roots.roots
    }
}

/// The place of published authorities, for messages.
pub(super) fn published_under(key: &str) -> String {
    format!("the ConfigMap {NAMESPACE}/{CONFIG_MAP}, key {key}")
}

fn verifier(authorities: RootCertStore, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>> {
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), Arc::clone(provider));
    Ok(builder.allow_unauthenticated().build()?)
}

/// The user in a client's verified certificate. As in Kubernetes, the name is the common name, and the groups are the
/// organisations.
fn subject(certificate: &CertificateDer<'_>) -> Option<Caller> {
    let (_, certificate) = parse_x509_certificate(certificate).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups = subject.iter_organization().filter_map(|it| it.as_str().ok()).map(str::to_owned).collect();
    Some(Caller::named(name, groups))
}
