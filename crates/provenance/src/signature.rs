//! Signatures beside a file or in a registry, in the formats that `cosign` and `berth plugin sign` write.
//!
//! A signature has a meaning only together with its subject. [`Signature::claim`] compares the subject with the binary
//! and returns the message that must have been signed. `policy` then determines the signer.
//!
//! | where | what |
//! |---|---|
//! | `NAME.wasm.sig` | signatures of the file's bytes in base64, one a line |
//! | `NAME.wasm.sigstore.json` | a sigstore bundle with a signature of the file's bytes (`cosign sign-blob --bundle`) |
//! | the tag `sha256-….sig` | layers in cosign's "simple signing" format, which name a manifest's digest |
//! | a referrer of the manifest | a sigstore bundle with a DSSE envelope that names the manifest's digest |

use base64::{Engine as _, prelude::BASE64_STANDARD};
use berth_model::Digest;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    keyless::{Body, LogEntry, LogEntryError},
    reference::parse_digest,
};

/// The media type of a layer with the signed content, and the annotation with the signature.
pub(crate) const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
pub(crate) const SIMPLE_SIGNATURE: &str = "dev.cosignproject.cosign/signature";
/// The annotations for keyless signatures: the certificate, its chain, and the entry in the transparency log.
pub(crate) const SIMPLE_CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
pub(crate) const SIMPLE_CHAIN: &str = "dev.sigstore.cosign/chain";
pub(crate) const SIMPLE_LOG_ENTRY: &str = "dev.sigstore.cosign/bundle";
/// The beginning of the type of a sigstore bundle, of any version.
pub(crate) const BUNDLE: &str = "application/vnd.dev.sigstore.bundle";
/// The type that an in-toto statement must have to mean that the binary may run. Other types are bills of materials, or
/// scans.
const COSIGN_SIGN: &str = "https://sigstore.dev/cosign/sign/v1";
const IN_TOTO: &str = "application/vnd.in-toto+json";

/// A component has only a few signatures. A registry that sends more would waste time.
pub(crate) const MAX_SIGNATURES: usize = 16;
/// The maximum number of bytes in one signature with its certificate and log entry.
pub(crate) const MAX_SIGNATURE_BYTES: u64 = 1 << 20;

/// The signatures that came with a binary, unchecked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signatures(Vec<Signature>);

/// A signature, by its kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Signature {
    /// A signature of the component's bytes.
    Detached(Vec<u8>),
    /// A signature of a payload that names the manifest.
    Simple { payload: Vec<u8>, signature: Vec<u8>, keyless: Option<Keyless> },
    /// A sigstore bundle, as JSON.
    Bundle(String),
}

/// The additional parts of a keyless signature, in PEM and JSON as in cosign's annotations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keyless {
    pub(crate) certificate: String,
    pub(crate) chain: String,
    pub(crate) log_entry: String,
}

/// The reason why a file beside a component contains no signature. The text continues the file's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureFileError {
    #[error("contains no signature: a line is not base64; `berth plugin sign` and `cosign sign-blob` write such files")]
    NotBase64,
    #[error("is not a sigstore bundle (JSON): {0}")]
    NoBundle(String),
    #[error("holds more than {MAX_SIGNATURES} signatures")]
    TooMany,
}

/// The properties of a binary, with which signatures are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SignedSubject<'a> {
    /// The bytes that a detached signature signs; `None` if only manifests are signed.
    pub file: Option<&'a [u8]>,
    /// The digest of the manifest that names the component.
    pub manifest: Option<Digest>,
}

/// The message that must have been signed, with the signer's certificates and the log entry.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    pub message: std::borrow::Cow<'a, [u8]>,
    pub signature: Vec<u8>,
    pub certificates: Vec<Vec<u8>>,
    pub log_entry: Option<LogEntry>,
    pub body: Body,
}

/// The reason why a signature does not sign the binary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClaimError {
    #[error("the signature is for another binary")]
    OtherSubject,
    #[error("the signature was made for another purpose than running the binary ({0})")]
    OtherPurpose(String),
    #[error("the signature cannot be read: {0}")]
    Unreadable(String),
    #[error(transparent)]
    LogEntry(#[from] LogEntryError),
}

impl Signatures {
    #[must_use]
    pub fn new(signatures: Vec<Signature>) -> Self {
        Self(signatures)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Signature> {
        self.0.iter().take(MAX_SIGNATURES)
    }

    /// Reads the signatures beside a file: `NAME.wasm.sig` and `NAME.wasm.sigstore.json`, each if it exists.
    ///
    /// # Errors
    /// The error names the file that contains something else, and says what is wrong with it.
    pub fn beside_file(
        detached: Option<&[u8]>,
        bundle: Option<&[u8]>,
    ) -> Result<Self, (&'static str, SignatureFileError)> {
        let mut signatures = Vec::new();
        for line in String::from_utf8_lossy(detached.unwrap_or_default()).lines().filter(|line| !line.trim().is_empty())
        {
            let bytes = BASE64_STANDARD.decode(line.trim()).map_err(|_| ("sig", SignatureFileError::NotBase64))?;
            signatures.push(Signature::Detached(bytes));
        }
        if let Some(bundle) = bundle {
            let text = std::str::from_utf8(bundle).map_err(|error| error.to_string());
            let text = text.and_then(|text| {
                serde_json::from_str::<Value>(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
            });
            let text = text.map_err(|error| ("sigstore.json", SignatureFileError::NoBundle(error)))?;
            signatures.push(Signature::Bundle(text));
        }
        if signatures.len() > MAX_SIGNATURES {
            return Err(("sig", SignatureFileError::TooMany));
        }
        Ok(Self(signatures))
    }
}

/// A line of `NAME.wasm.sig`.
#[must_use]
pub fn detached_text(signature: &[u8]) -> String {
    format!("{}\n", BASE64_STANDARD.encode(signature))
}

/// The payload that is signed to say that a manifest may run.
#[must_use]
pub fn simple_signing_payload(repository: &str, manifest: Digest) -> Vec<u8> {
    let payload = json!({
        "critical": {
            "identity": { "docker-reference": repository },
            "image": { "docker-manifest-digest": format!("sha256:{manifest}") },
            "type": "cosign container image signature",
        },
        "optional": null,
    });
    payload.to_string().into_bytes()
}

impl Keyless {
    /// The certificates; the signer's comes first.
    fn certificates(&self) -> Result<Vec<Vec<u8>>, ClaimError> {
        let all = [self.certificate.as_str(), "\n", self.chain.as_str()].concat();
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(all.as_bytes()).collect();
        let certificates = certificates.map_err(|error| unreadable(&error.to_string()))?;
        Ok(certificates.into_iter().map(|certificate| certificate.to_vec()).collect())
    }
}

impl Signature {
    /// The claim that must hold for the signature to be about `subject`.
    pub(crate) fn claim<'a>(&'a self, subject: SignedSubject<'a>) -> Result<Claim<'a>, ClaimError> {
        match self {
            Signature::Detached(signature) => {
                let message = subject.file.ok_or(ClaimError::OtherSubject)?.into();
                let signature = signature.clone();
                Ok(Claim { message, signature, certificates: Vec::new(), log_entry: None, body: Body::HashedRekord })
            }
            Signature::Simple { payload, signature, keyless } => {
                check_simple_payload(payload, subject)?;
                let (certificates, log_entry) = match keyless {
                    None => (Vec::new(), None),
                    Some(keyless) => (keyless.certificates()?, Some(LogEntry::of_annotation(&keyless.log_entry)?)),
                };
                let (message, signature) = (payload.into(), signature.clone());
                Ok(Claim { message, signature, certificates, log_entry, body: Body::HashedRekord })
            }
            Signature::Bundle(text) => claim_of_bundle(text, subject),
        }
    }
}

fn unreadable(what: &str) -> ClaimError {
    ClaimError::Unreadable(what.to_owned())
}

fn check_simple_payload(payload: &[u8], subject: SignedSubject<'_>) -> Result<(), ClaimError> {
    let payload: Value = serde_json::from_slice(payload).map_err(|error| unreadable(&error.to_string()))?;
    let text = |pointer: &str| payload.pointer(pointer).and_then(Value::as_str);
    let digest = text("/critical/image/docker-manifest-digest").and_then(parse_digest);
    if digest.is_none() || digest != subject.manifest {
        return Err(ClaimError::OtherSubject);
    }
    match text("/critical/type") {
        Some("cosign container image signature" | COSIGN_SIGN) => Ok(()),
        other => Err(ClaimError::OtherPurpose(other.unwrap_or("no type").to_owned())),
    }
}

/// Reads a bundle (<https://github.com/sigstore/protobuf-specs>, `sigstore_bundle.proto`) of version 0.1 to 0.3.
fn claim_of_bundle<'a>(text: &str, subject: SignedSubject<'a>) -> Result<Claim<'a>, ClaimError> {
    let bundle: Value = serde_json::from_str(text).map_err(|error| unreadable(&error.to_string()))?;
    let media_type = bundle.get("mediaType").and_then(Value::as_str).unwrap_or_default();
    if !media_type.starts_with(BUNDLE) {
        return Err(unreadable(&format!("unknown mediaType {media_type:?}: expected a sigstore bundle")));
    }
    let certificates = certificates_of_bundle(&bundle)?;
    let log_entry = match bundle.pointer("/verificationMaterial/tlogEntries/0") {
        Some(entry) if !certificates.is_empty() => Some(LogEntry::of_bundle(entry)?),
        Some(_) | None => None,
    };
    if let Some(signature) = bundle.pointer("/messageSignature/signature") {
        let message = subject.file.ok_or(ClaimError::OtherSubject)?.into();
        let signature = decoded(Some(signature), "messageSignature.signature")?;
        return Ok(Claim { message, signature, certificates, log_entry, body: Body::HashedRekord });
    }
    let envelope = bundle.get("dsseEnvelope").ok_or_else(|| unreadable("it contains no signature"))?;
    let payload = decoded(envelope.get("payload"), "dsseEnvelope.payload")?;
    let payload_type = envelope.get("payloadType").and_then(Value::as_str).unwrap_or_default();
    if payload_type != IN_TOTO {
        return Err(ClaimError::OtherPurpose(payload_type.to_owned()));
    }
    check_statement(&payload, subject)?;
    let signature = decoded(envelope.pointer("/signatures/0/sig"), "dsseEnvelope.signatures[0].sig")?;
    let message = pre_authentication_encoding(payload_type, &payload).into();
    Ok(Claim { message, signature, certificates, log_entry, body: Body::Dsse { payload } })
}

/// The certificates; the signer's comes first.
fn certificates_of_bundle(bundle: &Value) -> Result<Vec<Vec<u8>>, ClaimError> {
    let Some(material) = bundle.get("verificationMaterial") else { return Ok(Vec::new()) };
    let chain = material.pointer("/x509CertificateChain/certificates").and_then(Value::as_array);
    let certificates =
        chain.map_or_else(|| material.get("certificate").into_iter().collect(), |it| it.iter().collect());
    let certificates: Vec<&Value> = certificates;
    certificates.into_iter().take(MAX_SIGNATURES).map(|it| decoded(it.get("rawBytes"), "rawBytes")).collect()
}

/// Checks that an in-toto statement says that the manifest, or the file, may run.
fn check_statement(payload: &[u8], subject: SignedSubject<'_>) -> Result<(), ClaimError> {
    let statement: Value = serde_json::from_slice(payload).map_err(|error| unreadable(&error.to_string()))?;
    let predicate = statement.get("predicateType").and_then(Value::as_str).unwrap_or_default();
    if predicate != COSIGN_SIGN {
        return Err(ClaimError::OtherPurpose(predicate.to_owned()));
    }
    let wanted = subject.manifest.or_else(|| subject.file.map(crate::artifact::digest_of));
    let subjects = statement.get("subject").and_then(Value::as_array).into_iter().flatten();
    let mut digests = subjects.filter_map(|it| it.pointer("/digest/sha256")?.as_str()?.parse::<Digest>().ok());
    if digests.any(|digest| Some(digest) == wanted) { Ok(()) } else { Err(ClaimError::OtherSubject) }
}

/// The message that DSSE signs (<https://github.com/secure-systems-lab/dsse>, `protocol.md`).
fn pre_authentication_encoding(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let header = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len());
    [header.as_bytes(), payload].concat()
}

fn decoded(value: Option<&Value>, field: &str) -> Result<Vec<u8>, ClaimError> {
    let text = value.and_then(Value::as_str).ok_or_else(|| unreadable(&format!("{field} is missing")))?;
    BASE64_STANDARD.decode(text).map_err(|_| unreadable(&format!("{field} is not base64")))
}

#[cfg(test)]
mod tests;
