//! The authority of a control plane. The authority makes the API server's certificate, the certificates of its users,
//! and the keys of service accounts.

use std::{fs, path::Path};

use anyhow::{Result, anyhow};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

/// Signs certificates. The authority exists only while the control plane is set up.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate with its key, both PEM.
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "kubernetes");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem })
    }

    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for a server on loopback.
    pub(crate) fn server(&self) -> Result<Signed> {
        let names = ["127.0.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// A certificate for this user in this group.
    pub(crate) fn user(&self, name: &str, group: Option<&str>) -> Result<Signed> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Signed> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Signed { certificate, key: key.serialize_pem() })
    }
}

/// Writes the key with which tokens of service accounts are signed, and its public half.
pub(crate) fn write_service_account_keys(dir: &Path) -> Result<()> {
    let key = KeyPair::generate()?;
    fs::write(dir.join("sa.key"), key.serialize_pem()).map_err(|error| anyhow!("sa.key: {error}"))?;
    fs::write(dir.join("sa.pub"), key.public_key_pem()).map_err(|error| anyhow!("sa.pub: {error}"))
}
