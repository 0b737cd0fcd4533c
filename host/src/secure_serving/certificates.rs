//! Certificates: the server's own, and what is trusted of clients.

use std::{fs, io, os::unix::fs::OpenOptionsExt as _, path::Path, sync::Arc};

use anyhow::{Context as _, Result, anyhow};
use berth_cluster::Caller;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
    version::{TLS12, TLS13},
};
use x509_parser::parse_x509_certificate;

use super::SecureServing;
use crate::failure::Usage;

/// The files in `--cert-dir`.
const NAME: &str = "kube-scheduler";

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// What TLS connections are made with.
///
/// # Errors
/// A file cannot be read, or does not hold what it should.
pub(super) fn server_config(serving: &SecureServing) -> Result<ServerConfig> {
    let (certificates, key) = match (&serving.certificate, &serving.certificate_dir) {
        (Some((certificate, key)), _) => read(certificate, key)?,
        (None, Some(dir)) => kept(dir, serving)?,
        (None, None) => parse(&self_signed(serving)?)?,
    };
    let versions = if serving.only_tls13 { &[&TLS13][..] } else { &[&TLS13, &TLS12] };
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions)?;
    let builder = match &serving.client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities(file)?), provider)
                .allow_unauthenticated()
                .build()
                .with_context(|| format!("--client-ca-file {}", file.display()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let config = builder.with_single_cert(certificates, key);
    let mut config = config.map_err(|error| Usage(format!("the server's certificate and its key: {error}")))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Who a client's verified certificate says it is: Kubernetes takes the name from the common name, the groups from the
/// organisations.
pub(super) fn subject(certificate: &CertificateDer<'_>) -> Option<Caller> {
    let (_, certificate) = parse_x509_certificate(certificate).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups = subject.iter_organization().filter_map(|it| it.as_str().ok()).map(str::to_owned).collect();
    Some(Caller::named(name, groups))
}

fn authorities(file: &Path) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    let unusable = |error: &dyn std::fmt::Display| Usage(format!("--client-ca-file {}: {error}", file.display()));
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unusable(&error))? {
        let certificate = certificate.map_err(|error| unusable(&error))?;
        store.add(certificate).map_err(|error| unusable(&error))?;
    }
    if store.is_empty() {
        return Err(unusable(&"there is no certificate in it").into());
    }
    Ok(store)
}

fn read(certificate: &Path, key: &Path) -> Result<Pair> {
    let unusable =
        |flag: &str, file: &Path, error: &dyn std::fmt::Display| Usage(format!("{flag} {}: {error}", file.display()));
    let certificates = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| unusable("--tls-cert-file", certificate, &error))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable("--tls-private-key-file", key, &error))?;
    Ok((certificates, key))
}

/// The pair in the directory, which is made if it is not there.
fn kept(dir: &Path, serving: &SecureServing) -> Result<Pair> {
    let (certificate, key) = (dir.join(format!("{NAME}.crt")), dir.join(format!("{NAME}.key")));
    if !certificate.exists() || !key.exists() {
        let (certificate_pem, key_pem) = self_signed(serving)?;
        let written = fs::create_dir_all(dir)
            .and_then(|()| fs::write(&certificate, certificate_pem))
            .and_then(|()| write_private(&key, &key_pem));
        written.with_context(|| format!("--cert-dir {}: the self-signed certificate cannot be kept", dir.display()))?;
    }
    read(&certificate, &key)
}

fn write_private(file: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(file)?;
    io::Write::write_all(&mut file, text.as_bytes())
}

/// A certificate and its key, as PEM, for this machine's loopback names and the address that is served.
fn self_signed(serving: &SecureServing) -> Result<(String, String)> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let address = serving.address.ip();
    if !address.is_unspecified() && !address.is_loopback() {
        names.push(address.to_string());
    }
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(names).map_err(|error| anyhow!("no self-signed certificate: {error}"))?;
    Ok((cert.pem(), signing_key.serialize_pem()))
}

fn parse((certificate, key): &(String, String)) -> Result<Pair> {
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes())?;
    Ok((vec![certificate], PrivateKeyDer::from_pem_slice(key.as_bytes())?))
}
