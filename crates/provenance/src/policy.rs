//! The signers that must have signed the binaries of each source, and the consequence of a missing signature.
//!
//! There are two steps, so that a change of the policy can be applied without the bytes. [`Policy::examine`] determines
//! which of the source's signers signed a binary. [`Policy::decide`] admits the binary or refuses it.

use std::fmt;

use berth_model::Digest;

use crate::{
    keyless::{KeylessError, KeylessIdentity, KeylessSignature},
    keys::PublicKey,
    reference::Reference,
    signature::{Claim, ClaimError, Signature, Signatures, SignedSubject},
};

/// The operator's decisions. Without rules, everything may run. With rules, only binaries from a source with a rule may
/// run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<SourceRule>,
}

/// The rule for binaries from one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRule {
    pub from: SourcePattern,
    /// The signers. One of these signers must have signed the binary.
    pub signers: Vec<Signer>,
    pub unsigned: Unsigned,
}

/// The source of binaries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourcePattern {
    /// The plugins directory.
    Directory,
    /// Repositories with this name, including the registry, or with a name that begins with this text and a slash. An
    /// empty text stands for all repositories.
    Registry(String),
}

/// The consequence if none of the signers signed a binary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unsigned {
    #[default]
    Deny,
    /// The binaries run, and a line in the log says so.
    Warn,
    Allow,
}

/// A signer that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// The name that the operator gives the signer.
    pub name: String,
    pub identity: SignerIdentity,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignerIdentity {
    Key(PublicKey),
    Keyless(KeylessIdentity),
}

/// The source of a binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Directory,
    Registry {
        reference: Reference,
        /// The digest of the manifest that the reference named.
        manifest: Digest,
    },
}

/// The result of checking a binary's signatures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    signed_by: Vec<Signer>,
    n_signatures: usize,
    /// The reason why a signature is not by one of the signers.
    fault: Option<SignatureDefect>,
}

/// The reason why a binary may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The operator requires no signatures.
    NotAsked,
    /// The signers of this list signed.
    Signed(Vec<String>),
    /// None of the signers signed, but `unsigned` lets the binary run.
    Tolerated { unsigned: Unsigned, reason: String },
}

/// The reason why a binary may not run. The text continues the name of the file or the artifact.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(
        "comes from {0}, but no entry of `signatures` in --plugin-config covers this source: add an entry, or use \
         another source"
    )]
    NoRule(String),
    #[error("{0}; `signatures` in --plugin-config requires a signature: sign the plugin with `berth plugin sign`")]
    Unsigned(String),
}

impl Refusal {
    /// The reason without the advice to the operator of a scheduler.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Self::NoRule(reason) | Self::Unsigned(reason) => reason,
        }
    }
}

impl Policy {
    #[must_use]
    pub fn new(rules: Vec<SourceRule>) -> Self {
        Self { rules }
    }

    /// Whether the signatures of binaries from this source must be checked.
    #[must_use]
    pub fn asks_about(&self, source: &Source) -> bool {
        self.rule(source).is_some_and(|rule| !rule.signers.is_empty())
    }

    /// Determines which of the source's signers signed the binary. For a binary from the plugins directory, `file` has
    /// the bytes of the file, because the signatures beside the file sign these bytes.
    #[must_use]
    pub fn examine(&self, source: &Source, file: Option<&[u8]>, signatures: &Signatures) -> Evidence {
        let subject = match source {
            Source::Directory => SignedSubject { file, manifest: None },
            Source::Registry { manifest, .. } => SignedSubject { file: None, manifest: Some(*manifest) },
        };
        let mut evidence = Evidence::default();
        let signers = self.rule(source).map_or(&[][..], |rule| &rule.signers);
        for signature in signatures.iter() {
            evidence.n_signatures += 1;
            match who_signed(signature, subject, signers) {
                Ok(signer) if evidence.signed_by.contains(signer) => {}
                Ok(signer) => evidence.signed_by.push(signer.clone()),
                Err(fault) => evidence.fault = Some(fault),
            }
        }
        evidence
    }

    /// Decides whether a binary may run.
    ///
    /// # Errors
    /// The error says why the binary may not run.
    pub fn decide(&self, source: &Source, evidence: &Evidence) -> Result<Trust, Refusal> {
        if self.rules.is_empty() {
            return Ok(Trust::NotAsked);
        }
        let rule = self.rule(source).ok_or_else(|| Refusal::NoRule(source.to_string()))?;
        // A signer may have had another key when the evidence was gathered.
        let signed = rule.signers.iter().filter(|signer| evidence.signed_by.contains(signer));
        let names: Vec<String> = signed.map(|signer| signer.name.clone()).collect();
        if !names.is_empty() {
            return Ok(Trust::Signed(names));
        }
        let signers = rule.signers.iter().map(|signer| signer.name.as_str()).collect::<Vec<_>>().join(", ");
        let signers = if signers.is_empty() { "none configured".to_owned() } else { signers };
        let reason = match (&evidence.fault, evidence.n_signatures) {
            (_, 0) => format!("has no signature; trusted signers for {source}: {signers}"),
            (Some(fault), n) => format!("has {n} signature(s), none by a trusted signer ({signers}): {fault}"),
            (None, n) => format!("has {n} signature(s), none by a trusted signer ({signers})"),
        };
        match rule.unsigned {
            Unsigned::Deny => Err(Refusal::Unsigned(reason)),
            unsigned @ (Unsigned::Warn | Unsigned::Allow) => Ok(Trust::Tolerated { unsigned, reason }),
        }
    }

    /// The rule for a source. If several rules cover the registry, the rule with the longest name applies.
    fn rule(&self, source: &Source) -> Option<&SourceRule> {
        let fitting = self.rules.iter().filter(|rule| rule.from.is_about(source));
        fitting.max_by_key(|rule| match &rule.from {
            SourcePattern::Directory => 0,
            SourcePattern::Registry(name) => name.len(),
        })
    }
}

impl SourcePattern {
    fn is_about(&self, source: &Source) -> bool {
        match (self, source) {
            (SourcePattern::Directory, Source::Directory) => true,
            (SourcePattern::Registry(prefix), Source::Registry { reference, .. }) => {
                let name = reference.name();
                let rest = name.strip_prefix(prefix.as_str());
                rest.is_some_and(|rest| prefix.is_empty() || rest.is_empty() || rest.starts_with('/'))
            }
            (SourcePattern::Directory, Source::Registry { .. }) | (SourcePattern::Registry(_), Source::Directory) => {
                false
            }
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Directory => formatter.write_str("the plugins directory"),
            Source::Registry { reference, .. } => formatter.write_str(&reference.name()),
        }
    }
}

/// The reason why a signature does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum SignatureDefect {
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error("the signature was made with another key")]
    OtherKey,
    #[error(transparent)]
    Keyless(#[from] KeylessError),
}

/// The signer that made the signature.
fn who_signed<'a>(
    signature: &Signature,
    subject: SignedSubject<'_>,
    signers: &'a [Signer],
) -> Result<&'a Signer, SignatureDefect> {
    let claim = signature.claim(subject)?;
    let mut fault = SignatureDefect::OtherKey;
    for signer in signers {
        match signer.identity.check(&claim) {
            Ok(()) => return Ok(signer),
            Err(SignatureDefect::OtherKey) => {}
            Err(reason) => fault = reason,
        }
    }
    Err(fault)
}

impl SignerIdentity {
    fn check(&self, claim: &Claim<'_>) -> Result<(), SignatureDefect> {
        match self {
            SignerIdentity::Key(key) if key.verifies(&claim.message, &claim.signature) => Ok(()),
            SignerIdentity::Key(_) => Err(SignatureDefect::OtherKey),
            // A keyless signer never signs with a key alone.
            SignerIdentity::Keyless(_) if claim.certificates.is_empty() => Err(SignatureDefect::OtherKey),
            SignerIdentity::Keyless(identity) => {
                let signature = KeylessSignature {
                    message: &claim.message,
                    signature: &claim.signature,
                    certificates: &claim.certificates,
                    log_entry: claim.log_entry.as_ref(),
                    body: &claim.body,
                };
                Ok(identity.verify(signature)?)
            }
        }
    }
}

#[cfg(test)]
mod tests;
