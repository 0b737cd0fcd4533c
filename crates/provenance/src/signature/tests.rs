//! Tests of the claims of each kind of signature, and of their subjects.

use super::*;
use crate::keys::PublicKey;

const MANIFEST: Digest = Digest::new([7; 32]);

fn of_manifest() -> SignedSubject<'static> {
    SignedSubject { file: None, manifest: Some(MANIFEST) }
}

fn of_file() -> SignedSubject<'static> {
    SignedSubject { file: Some(b"component"), manifest: None }
}

fn envelope(payload_type: &str, predicate_type: &str, digest: Digest) -> Signature {
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{ "digest": { "sha256": digest.to_string() } }],
        "predicateType": predicate_type,
    });
    let bundle = json!({
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": { "publicKey": { "hint": "x" } },
        "dsseEnvelope": {
            "payload": BASE64_STANDARD.encode(statement.to_string()),
            "payloadType": payload_type,
            "signatures": [{ "sig": BASE64_STANDARD.encode("signature") }],
        },
    });
    Signature::Bundle(bundle.to_string())
}

#[test]
fn files_hold_one_signature_a_line_and_a_bundle() {
    let text = [detached_text(b"a"), detached_text(b"b")].concat();
    let signatures = Signatures::beside_file(Some(text.as_bytes()), None).unwrap();
    assert_eq!(signatures.0, [Signature::Detached(b"a".to_vec()), Signature::Detached(b"b".to_vec())]);
    assert!(Signatures::beside_file(None, None).unwrap().is_empty());
    let error = Signatures::beside_file(Some(b"\xff\n"), None).unwrap_err();
    assert_eq!(error, ("sig", SignatureFileError::NotBase64));
    assert!(matches!(
        Signatures::beside_file(None, Some(b"{")),
        Err(("sigstore.json", SignatureFileError::NoBundle(_)))
    ));
    let many = detached_text(b"a").repeat(MAX_SIGNATURES + 1);
    assert_eq!(Signatures::beside_file(Some(many.as_bytes()), None).unwrap_err().1, SignatureFileError::TooMany);
}

#[test]
fn a_bundle_of_a_file_claims_its_bytes() {
    let bundle = json!({
        "mediaType": "application/vnd.dev.sigstore.bundle+json;version=0.2",
        "messageSignature": { "signature": BASE64_STANDARD.encode("signature") },
    });
    let signature = Signature::Bundle(bundle.to_string());
    let claim = signature.claim(of_file()).unwrap();
    assert_eq!((claim.message.as_ref(), claim.signature.as_slice()), (&b"component"[..], &b"signature"[..]));
    assert_eq!(signature.claim(of_manifest()).unwrap_err(), ClaimError::OtherSubject);
}

/// A bundle beside the checksums of a release, which openssl signed (`xtask/src/release/signature.rs`).
#[test]
fn a_bundle_of_checksums_verifies_with_the_public_key() {
    let public = PublicKey::from_pem(include_str!("../../tests/keys/release.pub")).unwrap();
    let signature = Signature::Bundle(include_str!("../../tests/keys/release.sigstore.json").to_owned());
    let checksums = SignedSubject { file: Some(b"0000  berth.tgz\n"), manifest: None };
    let claim = signature.claim(checksums).unwrap();
    assert!(public.verifies(&claim.message, &claim.signature));
    assert!(!public.verifies(b"0001  berth.tgz\n", &claim.signature));
}

#[test]
fn an_envelope_claims_its_payload_if_it_names_the_manifest() {
    let signature = envelope(IN_TOTO, COSIGN_SIGN, MANIFEST);
    let claim = signature.claim(of_manifest()).unwrap();
    assert!(claim.message.starts_with(b"DSSEv1 28 application/vnd.in-toto+json "));
    assert_eq!(signature.claim(of_file()).unwrap_err(), ClaimError::OtherSubject);
    let other = envelope(IN_TOTO, COSIGN_SIGN, Digest::new([8; 32]));
    assert_eq!(other.claim(of_manifest()).unwrap_err(), ClaimError::OtherSubject);
}

#[test]
fn a_bill_of_materials_is_no_leave_to_run() {
    let signature = envelope(IN_TOTO, "https://spdx.dev/Document", MANIFEST);
    let error = signature.claim(of_manifest()).unwrap_err();
    assert_eq!(error, ClaimError::OtherPurpose("https://spdx.dev/Document".to_owned()));
    assert!(matches!(
        envelope("text/plain", COSIGN_SIGN, MANIFEST).claim(of_manifest()),
        Err(ClaimError::OtherPurpose(_))
    ));
}

#[test]
fn a_payload_must_name_the_manifest_and_its_purpose() {
    let signature = |payload: Vec<u8>| Signature::Simple { payload, signature: Vec::new(), keyless: None };
    assert!(signature(simple_signing_payload("registry.example/zone", MANIFEST)).claim(of_manifest()).is_ok());
    let error = |signature: Signature| signature.claim(of_manifest()).unwrap_err();
    let other = signature(simple_signing_payload("registry.example/zone", Digest::new([8; 32])));
    assert_eq!(error(other), ClaimError::OtherSubject);
    let digest = json!({ "critical": { "image": { "docker-manifest-digest": format!("sha256:{MANIFEST}") }, "type": "atomic container signature" } });
    assert!(matches!(error(signature(digest.to_string().into_bytes())), ClaimError::OtherPurpose(_)));
    assert!(matches!(error(signature(b"{".to_vec())), ClaimError::Unreadable(_)));
    assert_eq!(error(signature(b"{}".to_vec())), ClaimError::OtherSubject);
}
