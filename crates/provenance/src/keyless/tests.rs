//! A deployment of sigstore with temporary keys: a root, a certificate for one signature, and a log.

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, SanType, date_time_ymd,
};
use serde_json::json;

use super::*;
use crate::{
    keys::PrivateKey,
    policy::{Policy, Refusal, Signer, SignerIdentity, Source, SourcePattern, SourceRule, Trust, Unsigned},
    signature::{Signature, Signatures},
};

const SUBJECT: &str = "https://ci.example/team/zone/release.yml@refs/tags/v1";
const OIDC: &str = "https://ci.example";
/// A time within the hour of the certificate.
const SIGNED_AT: u64 = 1_767_225_600 + 60;

struct Sigstore {
    root: String,
    leaf: String,
    leaf_der: Vec<u8>,
    key: PrivateKey,
    log: PrivateKey,
}

impl Sigstore {
    fn new() -> Self {
        let root_key = KeyPair::generate().unwrap();
        let mut root = CertificateParams::default();
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        root.distinguished_name = DistinguishedName::new();
        root.distinguished_name.push(rcgen::DnType::CommonName, "fulcio");
        let root_certificate = root.self_signed(&root_key).unwrap();
        let issuer = Issuer::new(root, root_key);
        let key = KeyPair::generate().unwrap();
        let mut leaf = CertificateParams::default();
        leaf.distinguished_name = DistinguishedName::new();
        leaf.subject_alt_names = vec![SanType::URI(SUBJECT.try_into().unwrap())];
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
        (leaf.not_before, leaf.not_after) = (date_time_ymd(2026, 1, 1), date_time_ymd(2026, 1, 2));
        // A UTF8String in DER.
        let der = [&[0x0c, u8::try_from(OIDC.len()).unwrap()], OIDC.as_bytes()].concat();
        leaf.custom_extensions = vec![CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 57264, 1, 8], der)];
        let leaf = leaf.signed_by(&key, &issuer).unwrap();
        Self {
            root: root_certificate.pem(),
            leaf: leaf.pem(),
            leaf_der: leaf.der().to_vec(),
            key: PrivateKey::from_pem(&key.serialize_pem()).unwrap(),
            log: PrivateKey::from_pem(include_str!("../../tests/keys/p256.pem")).unwrap(),
        }
    }

    fn identity(&self) -> KeylessIdentity {
        let roots = KeylessRoots::from_pem(&self.root, &self.log.public().to_pem()).unwrap();
        KeylessIdentity {
            roots: Arc::new(roots),
            issuer: OIDC.to_owned(),
            subject: SUBJECT.to_owned(),
            is_prefix: false,
        }
    }

    /// The output of `cosign sign-blob --bundle`.
    fn bundle(&self, file: &[u8], seconds: u64) -> Value {
        let signature = BASE64_STANDARD.encode(self.key.sign(file).unwrap());
        let body = json!({
            "apiVersion": "0.0.1",
            "kind": "hashedrekord",
            "spec": {
                "data": { "hash": { "algorithm": "sha256", "value": digest_of(file).to_string() } },
                "signature": { "content": signature, "publicKey": { "content": BASE64_STANDARD.encode(&self.leaf) } },
            },
        });
        let body = BASE64_STANDARD.encode(body.to_string());
        let log_id = self.log.public().id();
        let signed = format!(r#"{{"body":"{body}","integratedTime":{seconds},"logID":"{log_id}","logIndex":7}}"#);
        json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": { "rawBytes": BASE64_STANDARD.encode(&self.leaf_der) },
                "tlogEntries": [{
                    "logIndex": "7",
                    "logId": { "keyId": BASE64_STANDARD.encode(log_id.as_bytes()) },
                    "integratedTime": seconds.to_string(),
                    "inclusionPromise": {
                        "signedEntryTimestamp": BASE64_STANDARD.encode(self.log.sign(signed.as_bytes()).unwrap()),
                    },
                    "canonicalizedBody": body,
                }],
            },
            "messageSignature": { "signature": signature },
        })
    }
}

fn judge(identity: KeylessIdentity, bundle: &Value, file: &[u8]) -> Result<Trust, Refusal> {
    let signer = Signer { name: "ci".to_owned(), identity: SignerIdentity::Keyless(identity) };
    let rule = SourceRule { from: SourcePattern::Directory, signers: vec![signer], unsigned: Unsigned::Deny };
    let policy = Policy::new(vec![rule]);
    let signatures = Signatures::new(vec![Signature::Bundle(bundle.to_string())]);
    policy.decide(&Source::Directory, &policy.examine(&Source::Directory, Some(file), &signatures))
}

fn refusal(identity: KeylessIdentity, bundle: &Value, file: &[u8]) -> String {
    judge(identity, bundle, file).unwrap_err().to_string()
}

#[test]
fn a_keyless_signature_by_the_identity_counts() {
    let sigstore = Sigstore::new();
    let bundle = sigstore.bundle(b"component", SIGNED_AT);
    assert_eq!(judge(sigstore.identity(), &bundle, b"component"), Ok(Trust::Signed(vec!["ci".to_owned()])));
    let prefix =
        KeylessIdentity { subject: "https://ci.example/team/zone/".to_owned(), is_prefix: true, ..sigstore.identity() };
    assert!(judge(prefix, &bundle, b"component").is_ok());
}

#[test]
fn one_of_another_identity_does_not() {
    let sigstore = Sigstore::new();
    let bundle = sigstore.bundle(b"component", SIGNED_AT);
    let other = KeylessIdentity { subject: "somebody@team.example".to_owned(), ..sigstore.identity() };
    assert!(refusal(other, &bundle, b"component").contains(SUBJECT));
    let other = KeylessIdentity { issuer: "https://other.example".to_owned(), ..sigstore.identity() };
    assert!(refusal(other, &bundle, b"component").contains("of the issuer \"https://ci.example\""));
}

#[test]
fn one_of_another_deployment_does_not() {
    let (sigstore, other) = (Sigstore::new(), Sigstore::new());
    let bundle = sigstore.bundle(b"component", SIGNED_AT);
    assert!(refusal(other.identity(), &bundle, b"component").contains("not valid under the roots in fulcioRootsFile"));
    let mut identity = sigstore.identity();
    let log = include_str!("../../tests/keys/ed25519.pub");
    identity.roots = Arc::new(KeylessRoots::from_pem(&sigstore.root, log).unwrap());
    assert!(refusal(identity, &bundle, b"component").contains("rekorKeyFile"));
}

#[test]
fn one_made_when_the_certificate_did_not_hold_does_not() {
    let sigstore = Sigstore::new();
    let bundle = sigstore.bundle(b"component", SIGNED_AT + 30 * 24 * 3600);
    let refusal = refusal(sigstore.identity(), &bundle, b"component");
    assert!(refusal.contains("not valid under the roots in fulcioRootsFile"), "{refusal}");
}

#[test]
fn one_of_another_file_or_without_a_log_does_not() {
    let sigstore = Sigstore::new();
    let mut bundle = sigstore.bundle(b"component", SIGNED_AT);
    assert!(refusal(sigstore.identity(), &bundle, b"c0mponent").contains("it has another hash"));
    // The owner of the certificate signs later, and presents the entry of another signature.
    let again = BASE64_STANDARD.encode(sigstore.key.sign(b"component").unwrap());
    bundle["messageSignature"]["signature"] = again.into();
    assert!(refusal(sigstore.identity(), &bundle, b"component").contains("it has another signature"));
    bundle["verificationMaterial"]["tlogEntries"] = json!([]);
    assert!(refusal(sigstore.identity(), &bundle, b"component").contains("no signed entry timestamp"));
}
