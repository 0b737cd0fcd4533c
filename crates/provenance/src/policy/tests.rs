//! Tests of the rules: which binaries each rule allows.

use super::*;
use crate::{
    keys::PrivateKey,
    signature::{Signature, Signatures, simple_signing_payload},
};

fn key() -> PrivateKey {
    PrivateKey::from_pem(&PrivateKey::generate_pem().unwrap()).unwrap()
}

fn signer(name: &str, key: &PrivateKey) -> Signer {
    Signer { name: name.to_owned(), identity: SignerIdentity::Key(key.public()) }
}

fn rule(from: SourcePattern, signers: Vec<Signer>, unsigned: Unsigned) -> SourceRule {
    SourceRule { from, signers, unsigned }
}

fn registry(prefix: &str) -> SourcePattern {
    SourcePattern::Registry(prefix.to_owned())
}

fn pulled(reference: &str) -> Source {
    Source::Registry { reference: reference.parse().unwrap(), manifest: Digest::new([7; 32]) }
}

/// Examines and decides.
fn judge(policy: &Policy, source: &Source, file: &[u8], signatures: Vec<Signature>) -> Result<Trust, Refusal> {
    policy.decide(source, &policy.examine(source, Some(file), &Signatures::new(signatures)))
}

#[test]
fn without_a_policy_everything_runs() {
    let policy = Policy::default();
    assert_eq!(judge(&policy, &Source::Directory, b"x", Vec::new()), Ok(Trust::NotAsked));
    assert!(!policy.asks_about(&Source::Directory));
}

#[test]
fn with_a_policy_what_no_rule_is_about_is_refused() {
    let policy = Policy::new(vec![rule(registry("registry.example/team"), Vec::new(), Unsigned::Allow)]);
    let refusal = |source: &Source| judge(&policy, source, b"x", Vec::new()).unwrap_err().to_string();
    assert!(refusal(&Source::Directory).contains("the plugins directory, but no entry"));
    assert!(refusal(&pulled("registry.example/teams/zone:1")).contains("registry.example/teams/zone"));
    assert!(judge(&policy, &pulled("registry.example/team/zone:1"), b"x", Vec::new()).is_ok());
}

#[test]
fn a_file_needs_the_signature_of_a_signer() {
    let (release, other) = (key(), key());
    let policy = Policy::new(vec![rule(SourcePattern::Directory, vec![signer("release", &release)], Unsigned::Deny)]);
    let signed = |key: &PrivateKey, bytes: &[u8]| vec![Signature::Detached(key.sign(bytes).unwrap())];
    let judge = |signatures| judge(&policy, &Source::Directory, b"component", signatures);
    assert_eq!(judge(signed(&release, b"component")), Ok(Trust::Signed(vec!["release".to_owned()])));
    for (signatures, words) in [
        (Vec::new(), "has no signature; trusted signers for the plugins directory: release"),
        (
            signed(&other, b"component"),
            "has 1 signature(s), none by a trusted signer (release): the signature was made with another key",
        ),
        (signed(&release, b"c0mponent"), "none by a trusted signer (release)"),
    ] {
        let refusal = judge(signatures).unwrap_err().to_string();
        assert!(refusal.contains(words), "{refusal}");
    }
    let both = [signed(&other, b"component"), signed(&release, b"component")].concat();
    assert_eq!(judge(both), Ok(Trust::Signed(vec!["release".to_owned()])));
}

#[test]
fn a_manifest_needs_a_signature_that_names_it() {
    let release = key();
    let rules = vec![
        rule(registry(""), Vec::new(), Unsigned::Deny),
        rule(registry("registry.example/team"), vec![signer("release", &release)], Unsigned::Deny),
    ];
    let policy = Policy::new(rules);
    let signature = |manifest: Digest| {
        let payload = simple_signing_payload("registry.example/team/zone", manifest);
        let signature = release.sign(&payload).unwrap();
        vec![Signature::Simple { payload, signature, keyless: None }]
    };
    let source = pulled("registry.example/team/zone:1");
    assert!(judge(&policy, &source, b"", signature(Digest::new([7; 32]))).is_ok());
    let refusal = judge(&policy, &source, b"", signature(Digest::new([8; 32]))).unwrap_err().to_string();
    assert!(refusal.contains("the signature is for another binary"), "{refusal}");
    let detached = vec![Signature::Detached(release.sign(b"").unwrap())];
    assert!(judge(&policy, &source, b"", detached).is_err(), "the signed text must name the manifest");
    let elsewhere = pulled("other.example/zone:1");
    let refusal = judge(&policy, &elsewhere, b"", signature(Digest::new([7; 32]))).unwrap_err().to_string();
    assert!(refusal.contains("none by a trusted signer (none configured)"), "{refusal}");
}

#[test]
fn unsigned_binaries_are_tolerated_where_the_operator_says_so() {
    let policy = Policy::new(vec![rule(SourcePattern::Directory, vec![signer("release", &key())], Unsigned::Warn)]);
    let trust = judge(&policy, &Source::Directory, b"x", Vec::new()).unwrap();
    assert!(matches!(&trust, Trust::Tolerated { unsigned: Unsigned::Warn, reason } if reason.contains("release")));
}

#[test]
fn evidence_counts_as_long_as_its_signer_does() {
    let (old, new) = (key(), key());
    let policy = |key: &PrivateKey| {
        Policy::new(vec![rule(SourcePattern::Directory, vec![signer("release", key)], Unsigned::Deny)])
    };
    let signatures = Signatures::new(vec![Signature::Detached(old.sign(b"x").unwrap())]);
    let evidence = policy(&old).examine(&Source::Directory, Some(b"x"), &signatures);
    assert!(policy(&old).decide(&Source::Directory, &evidence).is_ok());
    assert!(policy(&new).decide(&Source::Directory, &evidence).is_err(), "the same name with another key");
}
