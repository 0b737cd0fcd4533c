//! Certificates: the server's own, and the certificates that are trusted for clients.

use std::{fs, io, os::unix::fs::OpenOptionsExt as _, path::Path, sync::Arc};

use anyhow::{Context as _, Result, anyhow};
use berth_cluster::Caller;
use berth_config::Usage;
use rcgen::generate_simple_self_signed;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};
use x509_parser::{extensions::GeneralName, parse_x509_certificate};

use super::{Authorities, SecureServing, ServeHttp2, SniCertificate};

/// The name of the files in `--cert-dir`.
const NAME: &str = "kube-scheduler";

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The settings of TLS connections, and of the identification of their clients.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    pub(super) config: Arc<ServerConfig>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
    front_proxies: Option<Arc<dyn ClientCertVerifier>>,
}

/// The users that a connection's certificate names.
#[derive(Clone, Debug, Default)]
pub(super) struct Peer {
    /// A user with a certificate that the clients' authority signed.
    pub(super) client: Option<Caller>,
    /// The common name of a front proxy with a certificate from its authority.
    pub(super) front_proxy: Option<String>,
}

impl Tls {
    /// Reads all files that `serving` names.
    ///
    /// # Errors
    /// A file cannot be read, or does not contain the expected data.
    pub(super) fn read(serving: &SecureServing) -> Result<Self> {
        let provider = Arc::new(serving.tls_choices.provider());
        let versions = if serving.only_tls13 { &[&TLS13][..] } else { &[&TLS13, &TLS12] };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions)?;
        let mut all = RootCertStore::empty();
        let mut trust = |flag: &str, named: Option<&Authorities>| {
            let Some(named) = named else { return Ok(None) };
            let authorities = authorities(flag, named)?;
            all.extend(authorities.roots.iter().cloned());
            verifier(authorities, &provider).with_context(|| flag.to_owned()).map(Some)
        };
        let clients = trust("--client-ca-file", serving.client_ca.as_ref())?;
        let proxy = serving.front_proxy.as_ref().map(|proxy| &proxy.authority);
        let front_proxies = trust("--requestheader-client-ca-file", proxy)?;
        let builder = if all.is_empty() {
            builder.with_no_client_auth()
        } else {
            builder.with_client_cert_verifier(verifier(all, &provider)?)
        };
        let mut config = builder.with_cert_resolver(Arc::new(ServerNames::read(serving, &provider)?));
        if serving.http2 != ServeHttp2::No {
            config.alpn_protocols.push(b"h2".to_vec());
        }
        config.alpn_protocols.push(b"http/1.1".to_vec());
        Ok(Self { config: Arc::new(config), clients, front_proxies })
    }

    /// The users in this chain of certificates. The client's own certificate is the first.
    pub(super) fn peer(&self, chain: &[CertificateDer<'_>]) -> Peer {
        let Some((own, others)) = chain.split_first() else { return Peer::default() };
        let vouches = |verifier: &Option<Arc<dyn ClientCertVerifier>>| {
            let verifier = verifier.as_ref();
            verifier.is_some_and(|verifier| verifier.verify_client_cert(own, others, UnixTime::now()).is_ok())
        };
        let Some(caller) = subject(own) else { return Peer::default() };
        Peer {
            front_proxy: vouches(&self.front_proxies).then(|| caller.name().to_owned()),
            client: vouches(&self.clients).then_some(caller),
        }
    }
}

/// The server's certificates, by the name that a client requests.
#[derive(Debug)]
struct ServerNames {
    default: Arc<CertifiedKey>,
    /// The certificates with their names. The first certificate that has the name is used. `*.example.com` stands for
    /// one more label.
    named: Vec<(Vec<String>, Arc<CertifiedKey>)>,
}

impl ServerNames {
    fn read(serving: &SecureServing, provider: &CryptoProvider) -> Result<Self> {
        let key = |(certificates, key): Pair| {
            let key = CertifiedKey::from_der(certificates, key, provider);
            key.map(Arc::new)
                .map_err(|error| Usage(format!("the server's certificate and its key cannot be used: {error}")))
        };
        let default = match (&serving.certificate, &serving.certificate_dir) {
            (Some((certificate, key)), _) => read("--tls-cert-file", certificate, "--tls-private-key-file", key)?,
            (None, Some(dir)) => kept(dir, serving)?,
            (None, None) => {
                let (certificate, key) = self_signed(serving)?;
                parse(&certificate, &key)?
            }
        };
        let mut named = Vec::new();
        for SniCertificate { certificate, key: key_file, names } in &serving.sni_certificates {
            const FLAG: &str = "--tls-sni-cert-key";
            let pair = read(FLAG, certificate, FLAG, key_file)?;
            let names = if names.is_empty() { pair.0.first().map(names_in).unwrap_or_default() } else { names.clone() };
            named.push((names, key(pair)?));
        }
        Ok(Self { default: key(default)?, named })
    }
}

impl ResolvesServerCert for ServerNames {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = client_hello.server_name().unwrap_or_default();
        let found = self.named.iter().find(|(names, _)| names.iter().any(|name| is_for(name, asked)));
        Some(Arc::clone(found.map_or(&self.default, |(_, key)| key)))
    }
}

fn is_for(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(domain) => name.split_once('.').is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(domain)),
        None => pattern.eq_ignore_ascii_case(name),
    }
}

/// The names of hosts in a certificate.
fn names_in(certificate: &CertificateDer<'static>) -> Vec<String> {
    let Ok((_, certificate)) = parse_x509_certificate(certificate) else { return Vec::new() };
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.into_iter().flat_map(|extension| &extension.value.general_names);
    let dns = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    });
    dns.collect()
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

/// Reads authorities. `flag` is the flag that names a file.
fn authorities(flag: &str, named: &Authorities) -> Result<RootCertStore> {
    let origin = match named {
        Authorities::File(file) => format!("{flag} {}", file.display()),
        Authorities::Pem(_) => "the ConfigMap kube-system/extension-apiserver-authentication".to_owned(),
    };
    let unusable = |error: &dyn std::fmt::Display| Usage(format!("{origin}: {error}"));
    let read: Result<Vec<CertificateDer<'static>>, _> = match named {
        Authorities::File(file) => CertificateDer::pem_file_iter(file).and_then(Iterator::collect),
        Authorities::Pem(text) => CertificateDer::pem_slice_iter(text.as_bytes()).collect(),
    };
    let mut store = RootCertStore::empty();
    for certificate in read.map_err(|error| unusable(&error))? {
        store.add(certificate).map_err(|error| unusable(&error))?;
    }
    if store.is_empty() {
        return Err(unusable(&"it contains no certificate").into());
    }
    Ok(store)
}

fn read(certificate_flag: &str, certificate: &Path, key_flag: &str, key: &Path) -> Result<Pair> {
    let unusable =
        |flag: &str, file: &Path, error: &dyn std::fmt::Display| Usage(format!("{flag} {}: {error}", file.display()));
    let certificates = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| unusable(certificate_flag, certificate, &error))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key_flag, key, &error))?;
    Ok((certificates, key))
}

/// The pair in the directory. A missing pair is created.
fn kept(dir: &Path, serving: &SecureServing) -> Result<Pair> {
    let (certificate, key) = (dir.join(format!("{NAME}.crt")), dir.join(format!("{NAME}.key")));
    if !certificate.exists() || !key.exists() {
        let (certificate_pem, key_pem) = self_signed(serving)?;
        let written = fs::create_dir_all(dir)
            .and_then(|()| fs::write(&certificate, certificate_pem))
            .and_then(|()| write_private(&key, &key_pem));
        written
            .with_context(|| format!("--cert-dir {}: the self-signed certificate cannot be written", dir.display()))?;
    }
    read("--cert-dir", &certificate, "--cert-dir", &key)
}

fn write_private(file: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(file)?;
    io::Write::write_all(&mut file, text.as_bytes())
}

/// A certificate and its key, as PEM, for this machine's loopback names and the served address.
fn self_signed(serving: &SecureServing) -> Result<(String, String)> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let address = serving.address.ip();
    if !address.is_unspecified() && !address.is_loopback() {
        names.push(address.to_string());
    }
    let rcgen::CertifiedKey { cert, signing_key } = generate_simple_self_signed(names)
        .map_err(|error| anyhow!("cannot create a self-signed certificate: {error}"))?;
    Ok((cert.pem(), signing_key.serialize_pem()))
}

fn parse(certificate: &str, key: &str) -> Result<Pair> {
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())?;
    Ok((vec![certificate], PrivateKeyDer::from_pem_slice(key.as_bytes())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_one_label() {
        assert!(is_for("*.example.com", "a.example.com") && is_for("a.example.com", "A.Example.com"));
        assert!(!is_for("*.example.com", "example.com") && !is_for("*.example.com", "a.b.example.com"));
    }
}
