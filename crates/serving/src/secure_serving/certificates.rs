//! The server's own certificates.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result, anyhow};
use berth_config::Usage;
use rcgen::generate_simple_self_signed;
use rustls::{
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use x509_parser::{extensions::GeneralName, parse_x509_certificate};

use super::{SecureServing, SniCertificate};

/// The name of the files in `--cert-dir`.
const NAME: &str = "kube-scheduler";

type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The server's certificates, by the name that a client requests.
#[derive(Debug)]
pub(super) struct ServerNames {
    default: Arc<CertifiedKey>,
    /// The certificates with their names. The first certificate that has the name is used. `*.example.com` stands for
    /// one more label.
    named: Vec<(Vec<String>, Arc<CertifiedKey>)>,
}

impl ServerNames {
    /// Reads the certificates. `previous` has the certificates that are in use; `None` if the server starts.
    ///
    /// # Errors
    /// A file cannot be read, or does not contain the expected data.
    pub(super) fn read(serving: &SecureServing, provider: &CryptoProvider, previous: Option<&Self>) -> Result<Self> {
        let key = |(certificates, key): Pair| {
            let key = CertifiedKey::from_der(certificates, key, provider);
            key.map(Arc::new)
                .map_err(|error| Usage(format!("the server's certificate and its key cannot be used: {error}")))
        };
        let default = match (&serving.certificate, &serving.certificate_dir, previous) {
            (Some((certificate, key_file)), ..) => {
                key(read("--tls-cert-file", certificate, "--tls-private-key-file", key_file)?)?
            }
            (None, Some(dir), None) => key(kept(dir, serving)?)?,
            // A pair that is replaced may be missing for a moment, so no pair is created.
            (None, Some(dir), Some(_)) => key(read_kept(dir)?)?,
            (None, None, None) => {
                let (certificate, key_pem) = self_signed(serving)?;
                key(parse(&certificate, &key_pem)?)?
            }
            (None, None, Some(previous)) => Arc::clone(&previous.default),
        };
        let mut named = Vec::new();
        for SniCertificate { certificate, key: key_file, names } in &serving.sni_certificates {
            const FLAG: &str = "--tls-sni-cert-key";
            let pair = read(FLAG, certificate, FLAG, key_file)?;
            let names = if names.is_empty() { pair.0.first().map(names_in).unwrap_or_default() } else { names.clone() };
            named.push((names, key(pair)?));
        }
        Ok(Self { default, named })
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
    let (certificate, key) = kept_files(dir);
    if !certificate.exists() || !key.exists() {
        let (certificate_pem, key_pem) = self_signed(serving)?;
        let written = fs::create_dir_all(dir)
            .and_then(|()| fs::write(&certificate, certificate_pem))
            .and_then(|()| write_private(&key, &key_pem));
        written
            .with_context(|| format!("--cert-dir {}: the self-signed certificate cannot be written", dir.display()))?;
    }
    read_kept(dir)
}

fn read_kept(dir: &Path) -> Result<Pair> {
    let (certificate, key) = kept_files(dir);
    read("--cert-dir", &certificate, "--cert-dir", &key)
}

/// The files of the certificate and of its key in `--cert-dir`.
pub(super) fn kept_files(dir: &Path) -> (PathBuf, PathBuf) {
    (dir.join(format!("{NAME}.crt")), dir.join(format!("{NAME}.key")))
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
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    /// Clients may have stored the certificate.
    #[test]
    fn a_self_signed_certificate_in_memory_stays_until_the_end() {
        let serving = SecureServing::on(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let provider = serving.tls_choices.provider();
        let first = ServerNames::read(&serving, &provider, None).expect("a new certificate");
        let second = ServerNames::read(&serving, &provider, Some(&first)).expect("the same certificate");
        assert!(Arc::ptr_eq(&first.default, &second.default));
    }

    #[test]
    fn a_pair_that_is_replaced_in_its_folder_is_read_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut serving = SecureServing::on(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        serving.certificate_dir = Some(dir.path().to_owned());
        let provider = serving.tls_choices.provider();
        let first = ServerNames::read(&serving, &provider, None).expect("a pair is created");
        let (certificate, key) = kept_files(dir.path());
        fs::remove_file(&certificate).expect("a file");
        ServerNames::read(&serving, &provider, Some(&first)).expect_err("half a pair");
        assert!(!certificate.exists(), "another program replaces the pair");
        let (certificate_pem, key_pem) = self_signed(&serving).expect("another pair");
        fs::write(&certificate, certificate_pem).expect("a file");
        fs::write(&key, key_pem).expect("a file");
        let second = ServerNames::read(&serving, &provider, Some(&first)).expect("the new pair");
        assert_ne!(first.default.cert, second.default.cert);
    }

    #[test]
    fn a_star_stands_for_one_label() {
        assert!(is_for("*.example.com", "a.example.com") && is_for("a.example.com", "A.Example.com"));
        assert!(!is_for("*.example.com", "example.com") && !is_for("*.example.com", "a.b.example.com"));
    }
}
