//! The client side of HTTPS: a connection to a scheduler's port.

use std::{path::Path, sync::Arc};

use anyhow::{Context as _, Result, anyhow};
use axum::http::Uri;
use berth_config::Usage;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Connects to the host and port of `uri`. The server's certificate must come from an authority in the file, or be in
/// the file itself.
///
/// # Errors
/// The file cannot be used, the server does not answer, or another server answers.
pub async fn connect(uri: &Uri, authority: &Path) -> Result<TlsStream<TcpStream>> {
    let unusable =
        |error: &dyn std::fmt::Display| Usage(format!("--certificate-authority {}: {error}", authority.display()));
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(authority).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    for certificate in certificates.map_err(|error| unusable(&error))? {
        roots.add(certificate).map_err(|error| unusable(&error))?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let stream = TcpStream::connect((host.as_str(), uri.port_u16().unwrap_or(443))).await?;
    let name = ServerName::try_from(host).map_err(|error| anyhow!("{uri}: {error}"))?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.context("TLS")
}
