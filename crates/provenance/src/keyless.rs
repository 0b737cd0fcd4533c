//! Keyless signatures: a short-lived certificate names the signer, and a transparency log records the time.
//!
//! Fulcio issues the certificate for an identity of an OpenID Connect issuer. Rekor signs that it saw the signature at
//! a time when the certificate was valid. Berth checks both without a network, with roots in files that the operator
//! names. A signature must have the log's signed entry timestamp, so signatures from logs without such timestamps
//! (Rekor 2) are refused. The certificate's own entry in a certificate transparency log is not checked.

use std::{fmt, sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use berth_model::Digest;
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm, UnixTime, pem::PemObject as _};
use serde::Deserialize;
use serde_json::Value;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert, ring};
use x509_parser::{
    certificate::X509Certificate, der_parser::asn1_rs::Utf8String, extensions::GeneralName, prelude::FromDer as _,
};

use crate::{
    artifact::digest_of,
    keys::{KeyError, PublicKey},
};

/// The extended key usage "code signing" (RFC 5280), which Fulcio puts into its certificates.
const CODE_SIGNING: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x03];
/// The extension in which Fulcio writes the OpenID Connect issuer (<https://github.com/sigstore/fulcio>,
/// `docs/oid-info.md`).
const ISSUER: &str = "1.3.6.1.4.1.57264.1.8";
/// The extension that Fulcio used before, without DER around the issuer.
const OLD_ISSUER: &str = "1.3.6.1.4.1.57264.1.1";

const ALGORITHMS: &[&dyn SignatureVerificationAlgorithm] = &[
    ring::ECDSA_P256_SHA256,
    ring::ECDSA_P256_SHA384,
    ring::ECDSA_P384_SHA256,
    ring::ECDSA_P384_SHA384,
    ring::ED25519,
];

/// The authorities that a deployment of sigstore trusts.
#[derive(Clone, PartialEq, Eq)]
pub struct KeylessRoots {
    certificates: Vec<CertificateDer<'static>>,
    log: PublicKey,
}

/// The identity that must have signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeylessIdentity {
    pub roots: Arc<KeylessRoots>,
    /// The OpenID Connect issuer, exactly.
    pub issuer: String,
    /// The mail address or URI in the certificate.
    pub subject: String,
    /// Whether any text may follow `subject`.
    pub is_prefix: bool,
}

/// The reason why files contain no usable roots.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootsError {
    #[error("contains no CERTIFICATE in PEM")]
    NoCertificate,
    #[error("contains a certificate that cannot be read: {0}")]
    Certificate(String),
    #[error(transparent)]
    LogKey(#[from] KeyError),
}

/// A transparency log's entry for a signature.
#[derive(Clone, Debug)]
pub(crate) struct LogEntry {
    /// The body in base64, in the form that the log signed.
    body: String,
    /// Seconds since 1970.
    integrated_time: u64,
    log_index: u64,
    /// The log's id in hexadecimal digits.
    log_id: String,
    timestamp: Vec<u8>,
}

/// The form in which the log describes the signed content.
#[derive(Debug)]
pub(crate) enum Body {
    /// The log has the hash of the signed content.
    HashedRekord,
    /// The log has the hash of the payload in the envelope.
    Dsse { payload: Vec<u8> },
}

/// The reason why an entry of a log cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signature's entry in the transparency log cannot be read: {0}")]
pub(crate) struct LogEntryError(String);

/// The reason why a keyless signature is not by the identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeylessError {
    #[error("the signature has no certificate")]
    NoCertificate,
    #[error("the signature has no signed entry timestamp from a transparency log")]
    NoLogEntry,
    #[error("the signature's entry in the transparency log is not signed with the key in rekorKeyFile")]
    Log,
    #[error("the signature's entry in the transparency log does not match the signature: {0}")]
    OtherEntry(&'static str),
    #[error("the signature's certificate is not valid under the roots in fulcioRootsFile: {0}")]
    Chain(String),
    #[error("the signature's certificate is for {subject:?} of the issuer {issuer:?}")]
    OtherIdentity { subject: String, issuer: String },
    #[error("the signature was not made with the key of its certificate")]
    Signature,
}

/// The parts of a signature that are checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeylessSignature<'a> {
    pub message: &'a [u8],
    pub signature: &'a [u8],
    /// The signer's certificate comes first.
    pub certificates: &'a [Vec<u8>],
    pub log_entry: Option<&'a LogEntry>,
    pub body: &'a Body,
}

impl KeylessRoots {
    /// Reads Fulcio's certificates, which may be several in one text, and Rekor's public key.
    ///
    /// # Errors
    /// The error says what is wrong with a certificate or the key.
    pub fn from_pem(fulcio: &str, rekor: &str) -> Result<Self, RootsError> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(fulcio.as_bytes()).collect();
        let certificates = certificates.map_err(|error| RootsError::Certificate(error.to_string()))?;
        if certificates.is_empty() {
            return Err(RootsError::NoCertificate);
        }
        for certificate in &certificates {
            anchor_from_trusted_cert(certificate).map_err(|error| RootsError::Certificate(error.to_string()))?;
        }
        Ok(Self { certificates, log: PublicKey::from_pem(rekor)? })
    }
}

impl fmt::Debug for KeylessRoots {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "KeylessRoots({} certificates, log {})", self.certificates.len(), self.log.id().short())
    }
}

impl KeylessIdentity {
    pub(crate) fn verify(&self, signature: KeylessSignature<'_>) -> Result<(), KeylessError> {
        let (leaf, intermediates) = signature.certificates.split_first().ok_or(KeylessError::NoCertificate)?;
        let entry = signature.log_entry.ok_or(KeylessError::NoLogEntry)?;
        entry.check_timestamp(&self.roots.log)?;
        entry.check_body(leaf, signature)?;
        self.check_chain(leaf, intermediates, entry.integrated_time)?;
        let certificate = self.check_identity(leaf)?;
        let key = PublicKey::from_der(certificate.public_key().raw).map_err(|_| KeylessError::Signature)?;
        if key.verifies(signature.message, signature.signature) { Ok(()) } else { Err(KeylessError::Signature) }
    }

    /// Checks that the roots vouch for the certificate at the time when the log saw the signature.
    fn check_chain(&self, leaf: &[u8], intermediates: &[Vec<u8>], seconds: u64) -> Result<(), KeylessError> {
        let refused = |error: webpki::Error| KeylessError::Chain(error.to_string());
        let leaf = CertificateDer::from(leaf);
        let leaf = EndEntityCert::try_from(&leaf).map_err(refused)?;
        let anchors: Result<Vec<_>, _> = self.roots.certificates.iter().map(anchor_from_trusted_cert).collect();
        let anchors = anchors.map_err(refused)?;
        let intermediates: Vec<CertificateDer<'_>> =
            intermediates.iter().map(|it| CertificateDer::from(it.as_slice())).collect();
        let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let usage = KeyUsage::required(CODE_SIGNING);
        leaf.verify_for_usage(ALGORITHMS, &anchors, &intermediates, time, usage, None, None).map_err(refused)?;
        Ok(())
    }

    fn check_identity<'a>(&self, leaf: &'a [u8]) -> Result<X509Certificate<'a>, KeylessError> {
        let (_, certificate) =
            X509Certificate::from_der(leaf).map_err(|error| KeylessError::Chain(error.to_string()))?;
        let (subject, issuer) = (subject(&certificate), issuer(&certificate));
        let is_subject = if self.is_prefix { subject.starts_with(&self.subject) } else { subject == self.subject };
        if is_subject && issuer == self.issuer {
            return Ok(certificate);
        }
        Err(KeylessError::OtherIdentity { subject, issuer })
    }
}

/// The only mail address or URI; empty if the certificate has no address or several addresses.
fn subject(certificate: &X509Certificate<'_>) -> String {
    let names = certificate.subject_alternative_name().ok().flatten();
    match names.map(|names| names.value.general_names.as_slice()) {
        Some([GeneralName::RFC822Name(name) | GeneralName::URI(name)]) => (*name).to_owned(),
        Some(_) | None => String::new(),
    }
}

fn issuer(certificate: &X509Certificate<'_>) -> String {
    let extension = |oid: &str| certificate.extensions().iter().find(|it| it.oid.to_id_string() == oid);
    if let Some(issuer) = extension(ISSUER) {
        return Utf8String::from_der(issuer.value).map(|(_, text)| text.string()).unwrap_or_default();
    }
    extension(OLD_ISSUER).map(|issuer| String::from_utf8_lossy(issuer.value).into_owned()).unwrap_or_default()
}

#[derive(Deserialize)]
struct Annotation {
    #[serde(rename = "SignedEntryTimestamp")]
    timestamp: String,
    #[serde(rename = "Payload")]
    payload: AnnotationPayload,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnnotationPayload {
    body: String,
    integrated_time: u64,
    log_index: u64,
    #[serde(rename = "logID")]
    log_id: String,
}

impl LogEntry {
    /// Reads an entry from an annotation that cosign writes beside a signature.
    pub(crate) fn of_annotation(text: &str) -> Result<Self, LogEntryError> {
        let Annotation { timestamp, payload } =
            serde_json::from_str(text).map_err(|error| LogEntryError(error.to_string()))?;
        let AnnotationPayload { body, integrated_time, log_index, log_id } = payload;
        let timestamp = BASE64_STANDARD.decode(timestamp).map_err(|error| LogEntryError(error.to_string()))?;
        Ok(Self { body, integrated_time, log_index, log_id, timestamp })
    }

    /// Reads an entry from an element of `tlogEntries` in a bundle.
    pub(crate) fn of_bundle(entry: &Value) -> Result<Self, LogEntryError> {
        let text = |pointer: &str| {
            let value = entry.pointer(pointer).and_then(Value::as_str);
            value.ok_or_else(|| LogEntryError(format!("tlogEntries[0]{pointer} is missing")))
        };
        let number = |pointer: &str| {
            text(pointer)?.parse::<u64>().map_err(|_| LogEntryError(format!("tlogEntries[0]{pointer} is not a number")))
        };
        let bytes = |pointer: &str| {
            let bytes = BASE64_STANDARD.decode(text(pointer)?);
            bytes.map_err(|_| LogEntryError(format!("tlogEntries[0]{pointer} is not base64")))
        };
        let log_id: String = bytes("/logId/keyId")?.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self {
            body: text("/canonicalizedBody")?.to_owned(),
            integrated_time: number("/integratedTime")?,
            log_index: number("/logIndex")?,
            log_id,
            timestamp: bytes("/inclusionPromise/signedEntryTimestamp")?,
        })
    }

    fn check_timestamp(&self, log: &PublicKey) -> Result<(), KeylessError> {
        let Self { body, integrated_time, log_index, log_id, timestamp } = self;
        // Canonical JSON (RFC 8785). Base64 and hexadecimal digits need no escapes, and with any other text the
        // verification fails.
        let signed = format!(
            r#"{{"body":"{body}","integratedTime":{integrated_time},"logID":"{log_id}","logIndex":{log_index}}}"#
        );
        if log_id == &log.id().to_string() && log.verifies(signed.as_bytes(), timestamp) {
            return Ok(());
        }
        Err(KeylessError::Log)
    }

    /// Checks that the entry records this signature with this certificate.
    fn check_body(&self, leaf: &[u8], signature: KeylessSignature<'_>) -> Result<(), KeylessError> {
        let other = KeylessError::OtherEntry;
        let body = BASE64_STANDARD.decode(&self.body).map_err(|_| other("it is not base64"))?;
        let body: Value = serde_json::from_slice(&body).map_err(|_| other("it is not JSON"))?;
        let (kind, hash, made, verifier, digest) = match signature.body {
            Body::HashedRekord => (
                "hashedrekord",
                "/spec/data/hash",
                "/spec/signature/content",
                "/spec/signature/publicKey/content",
                digest_of(signature.message),
            ),
            Body::Dsse { payload } => (
                "dsse",
                "/spec/payloadHash",
                "/spec/signatures/0/signature",
                "/spec/signatures/0/verifier",
                digest_of(payload),
            ),
        };
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
        let decoded = |pointer: &str| text(pointer).and_then(|text| BASE64_STANDARD.decode(text).ok());
        if text("/kind") != Some(kind) {
            return Err(other("it is of another kind"));
        }
        let logged = text(&format!("{hash}/value")).and_then(|text| text.parse::<Digest>().ok());
        if text(&format!("{hash}/algorithm")) != Some("sha256") || logged != Some(digest) {
            return Err(other("it has another hash"));
        }
        if decoded(made).as_deref() != Some(signature.signature) {
            return Err(other("it has another signature"));
        }
        let certificate = decoded(verifier).and_then(|pem| CertificateDer::from_pem_slice(&pem).ok());
        if certificate.as_ref().map(AsRef::as_ref) != Some(leaf) {
            return Err(other("it has another certificate"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
