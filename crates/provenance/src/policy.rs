//! Which signer must have signed what comes from which source, and what follows without such a signature.
//!
//! Two steps, so that a change of the policy can be judged without the bytes: [`Policy::examine`] finds out which of the
//! signers that a source asks for signed a binary, [`Policy::decide`] lets it in or refuses it.

use std::fmt;

use berth_model::Digest;

use crate::{
    keyless::{KeylessError, KeylessIdentity, KeylessSignature},
    keys::PublicKey,
    reference::Reference,
    signature::{Claim, ClaimError, Signature, Signatures, SignedSubject},
};

/// The operator's decisions. Without a rule everything may run; with one, what no rule is about may not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<SourceRule>,
}

/// What holds for binaries from one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRule {
    pub from: SourcePattern,
    /// The signers. One of them must have signed.
    pub signers: Vec<Signer>,
    pub unsigned: Unsigned,
}

/// Where binaries come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourcePattern {
    /// The plugins directory.
    Directory,
    /// Repositories whose name, registry included, is this or begins with this and a slash; empty for all.
    Registry(String),
}

/// What becomes of binaries that none of the signers signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unsigned {
    #[default]
    Deny,
    /// The binaries run, and a line in the log says so.
    Warn,
    Allow,
}

/// A signer whose signature counts.
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

/// Where a binary came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Directory,
    Registry {
        reference: Reference,
        /// The digest of the manifest that the reference named.
        manifest: Digest,
    },
}

/// What the signatures of a binary are worth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    signed_by: Vec<Signer>,
    n_signatures: usize,
    /// Why one of the signatures is not by one of the signers.
    fault: Option<SignatureDefect>,
}

/// Why a binary may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// There is no policy.
    NotAsked,
    /// These signed.
    Signed(Vec<String>),
    /// No such signer did, and `unsigned` lets it run.
    Tolerated { unsigned: Unsigned, reason: String },
}

/// Why a binary may not run. Reads on from the name of the file or the artifact.
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
    /// The reason without what the operator of a scheduler might do about it.
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

    /// Whether binaries from here need a look at their signatures.
    #[must_use]
    pub fn asks_about(&self, source: &Source) -> bool {
        self.rule(source).is_some_and(|rule| !rule.signers.is_empty())
    }

    /// Who of those that the source asks for signed the binary. `file` holds the bytes of a file, whose signatures are
    /// about these.
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

    /// Whether a binary may run.
    ///
    /// # Errors
    /// Says why the binary may not run.
    pub fn decide(&self, source: &Source, evidence: &Evidence) -> Result<Trust, Refusal> {
        if self.rules.is_empty() {
            return Ok(Trust::NotAsked);
        }
        let rule = self.rule(source).ok_or_else(|| Refusal::NoRule(source.to_string()))?;
        // A signer may have another key than when the evidence was gathered.
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

    /// The rule for a source: of those about registries, the one with the longest name.
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

/// Why a signature does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum SignatureDefect {
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error("it was made with another key")]
    OtherKey,
    #[error(transparent)]
    Keyless(#[from] KeylessError),
}

/// The signer whose signature it is.
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
            // A signature by a key alone is not one that a keyless signer would make.
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
