//! The part of a `PluginHostConfiguration` document about the sources of plugins and the required signatures:
//! `registries`, `signers`, `signatures`, and `source` of a plugin.
//!
//! The document only names files. The host reads these files, and it also checks references.

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use serde::Deserialize;

/// The interval is short enough for an operator to wait for a release, and long enough for a registry with a rate
/// limit.
const PULL_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// The sources of plugins besides the plugins directory, and the signers that count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProvenanceSettings {
    pub registries: Vec<RegistrySettings>,
    pub signers: Vec<SignerSettings>,
    /// If empty, binaries need no signature. All names of signers are among `signers`.
    pub signatures: Vec<SignatureRule>,
}

/// The settings for one registry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegistrySettings {
    /// The host, with the port if it is not 443.
    pub host: String,
    /// The hosts of mirrors, each with a path if the mirror keeps repositories below that path. Mirrors are asked first.
    #[serde(default)]
    pub mirrors: Vec<String>,
    /// Whether the connection uses no TLS.
    #[serde(default, rename = "plainHTTP")]
    pub plain_http: bool,
    /// Certificates that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
    /// Credentials, as `docker login` writes them and Secrets of the type `kubernetes.io/dockerconfigjson` hold them.
    pub pull_secret_file: Option<PathBuf>,
    /// The host that these credentials are sent to for a token, if it is not the registry itself.
    pub token_service: Option<String>,
}

/// A signer whose signatures may count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignerSettings {
    pub name: String,
    pub identity: SignerIdentity,
}

/// How a signer is recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignerIdentity {
    /// The signer is recognised by a public key.
    PublicKeyFile(PathBuf),
    /// The signer is recognised by a certificate.
    Keyless(KeylessSettings),
}

/// A signer without a key. A deployment of sigstore vouches for its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeylessSettings {
    pub fulcio_roots_file: PathBuf,
    pub rekor_key_file: PathBuf,
    /// The OpenID Connect issuer.
    pub issuer: String,
    pub subject: KeylessSubject,
}

/// The mail address or URI in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeylessSubject {
    Exactly(String),
    BeginningWith(String),
}

/// The signers that must have signed the binaries from one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureRule {
    pub source: SignatureSource,
    /// The names of the signers. One of them must have signed.
    pub signers: Vec<String>,
    pub unsigned: Unsigned,
}

/// The source of binaries.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SignatureSource {
    /// The plugins directory.
    Directory,
    /// A registry, or a part of a registry; empty for all registries.
    Registry(String),
}

/// The treatment of a binary without a signature that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Unsigned {
    #[default]
    Deny,
    Warn,
    Allow,
}

/// The source of a plugin's binary that does not come from the plugins directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSource {
    /// A reference to an OCI artifact.
    pub oci: String,
    /// The time between two requests for a tag.
    pub pull_interval: Duration,
}

/// The reason why a field does not accept a value. The parser adds the place.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProvenanceError {
    #[error("{list} names {name:?} twice: keep one of the entries")]
    NamedTwice { list: &'static str, name: String },
    #[error("{0} must not be empty")]
    Empty(&'static str),
    #[error("signer {0:?} needs either publicKeyFile or keyless")]
    Identity(String),
    #[error("keyless needs either subject or subjectPrefix")]
    Subject,
    #[error(
        "invalid source {0:?}: expected directory, oci://registry.example, or oci://registry.example/team; oci:// \
         covers every registry"
    )]
    Source(String),
    #[error("an entry of signatures names the signer {0:?}, which is not in signers")]
    UnknownSigner(String),
    #[error("an entry of signatures without signers rejects every plugin: name signers, or set unsigned: allow")]
    NoSigners,
    #[error("pullIntervalSeconds must be at least 1")]
    Interval,
}

/// The entries of `registries`, each host once.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Vec<RegistrySettings>")]
pub(super) struct RegistryEntries(Vec<RegistrySettings>);

/// The entries of `signers`, each name once.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Vec<SignerFields>")]
pub(super) struct SignerEntries(
    #[cfg_attr(feature = "schema", schemars(with = "Vec<SignerFields>"))] Vec<SignerSettings>,
);

/// The entries of `signatures`, each source once.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "Vec<RuleFields>")]
pub(super) struct RuleEntries(#[cfg_attr(feature = "schema", schemars(with = "Vec<RuleFields>"))] Vec<SignatureRule>);

/// `source` of a plugin.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "SourceFields")]
pub(super) struct SourceEntry(#[cfg_attr(feature = "schema", schemars(with = "SourceFields"))] pub(super) PluginSource);

#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SignerFields {
    name: String,
    public_key_file: Option<PathBuf>,
    keyless: Option<KeylessFields>,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KeylessFields {
    fulcio_roots_file: PathBuf,
    rekor_key_file: PathBuf,
    issuer: String,
    subject: Option<String>,
    subject_prefix: Option<String>,
}

/// `directory`, or `oci://` and a name.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String")]
struct SourceName(#[cfg_attr(feature = "schema", schemars(with = "String"))] SignatureSource);

#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SignatureRuleFields"))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RuleFields {
    source: SourceName,
    #[serde(default)]
    signers: Vec<String>,
    #[serde(default)]
    unsigned: Unsigned,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SourceFields {
    oci: String,
    pull_interval_seconds: Option<u32>,
}

/// Combines the three lists.
pub(super) fn settings(
    registries: RegistryEntries,
    signers: SignerEntries,
    rules: RuleEntries,
) -> Result<ProvenanceSettings, ProvenanceError> {
    for name in rules.0.iter().flat_map(|rule| &rule.signers) {
        if !signers.0.iter().any(|signer| signer.name == *name) {
            return Err(ProvenanceError::UnknownSigner(name.clone()));
        }
    }
    Ok(ProvenanceSettings { registries: registries.0, signers: signers.0, signatures: rules.0 })
}

impl TryFrom<Vec<RegistrySettings>> for RegistryEntries {
    type Error = ProvenanceError;

    fn try_from(registries: Vec<RegistrySettings>) -> Result<Self, ProvenanceError> {
        once_each(registries.iter().map(|registry| registry.host.clone()), "registries")?;
        if registries.iter().any(|registry| registry.host.is_empty() || registry.mirrors.iter().any(String::is_empty)) {
            return Err(ProvenanceError::Empty("a host"));
        }
        Ok(Self(registries))
    }
}

impl TryFrom<Vec<SignerFields>> for SignerEntries {
    type Error = ProvenanceError;

    fn try_from(signers: Vec<SignerFields>) -> Result<Self, ProvenanceError> {
        once_each(signers.iter().map(|signer| signer.name.clone()), "signers")?;
        signers.into_iter().map(SignerSettings::try_from).collect::<Result<_, _>>().map(Self)
    }
}

impl TryFrom<SignerFields> for SignerSettings {
    type Error = ProvenanceError;

    fn try_from(fields: SignerFields) -> Result<Self, ProvenanceError> {
        let SignerFields { name, public_key_file, keyless } = fields;
        if name.is_empty() {
            return Err(ProvenanceError::Empty("a signer's name"));
        }
        let identity = match (public_key_file, keyless) {
            (Some(file), None) => SignerIdentity::PublicKeyFile(file),
            (None, Some(keyless)) => SignerIdentity::Keyless(keyless.try_into()?),
            (Some(_), Some(_)) | (None, None) => return Err(ProvenanceError::Identity(name)),
        };
        Ok(Self { name, identity })
    }
}

impl TryFrom<KeylessFields> for KeylessSettings {
    type Error = ProvenanceError;

    fn try_from(fields: KeylessFields) -> Result<Self, ProvenanceError> {
        let KeylessFields { fulcio_roots_file, rekor_key_file, issuer, subject, subject_prefix } = fields;
        let subject = match (subject, subject_prefix) {
            (Some(subject), None) if !subject.is_empty() => KeylessSubject::Exactly(subject),
            (None, Some(prefix)) if !prefix.is_empty() => KeylessSubject::BeginningWith(prefix),
            _ => return Err(ProvenanceError::Subject),
        };
        if issuer.is_empty() {
            return Err(ProvenanceError::Empty("issuer"));
        }
        Ok(Self { fulcio_roots_file, rekor_key_file, issuer, subject })
    }
}

impl TryFrom<Vec<RuleFields>> for RuleEntries {
    type Error = ProvenanceError;

    fn try_from(rules: Vec<RuleFields>) -> Result<Self, ProvenanceError> {
        once_each(rules.iter().map(|rule| rule.source.0.to_string()), "signatures")?;
        let mut entries = Vec::new();
        for RuleFields { source: SourceName(source), signers, unsigned } in rules {
            if signers.is_empty() && unsigned != Unsigned::Allow {
                return Err(ProvenanceError::NoSigners);
            }
            entries.push(SignatureRule { source, signers, unsigned });
        }
        Ok(Self(entries))
    }
}

impl TryFrom<SourceFields> for SourceEntry {
    type Error = ProvenanceError;

    fn try_from(fields: SourceFields) -> Result<Self, ProvenanceError> {
        let pull_interval = match fields.pull_interval_seconds {
            None => PULL_INTERVAL,
            Some(0) => return Err(ProvenanceError::Interval),
            Some(seconds) => Duration::from_secs(u64::from(seconds)),
        };
        Ok(Self(PluginSource { oci: fields.oci, pull_interval }))
    }
}

impl TryFrom<String> for SourceName {
    type Error = ProvenanceError;

    fn try_from(text: String) -> Result<Self, ProvenanceError> {
        if text == "directory" {
            return Ok(Self(SignatureSource::Directory));
        }
        match text.strip_prefix("oci://") {
            Some(name) if !name.contains(['@', ' ']) => {
                Ok(Self(SignatureSource::Registry(name.trim_end_matches('/').to_owned())))
            }
            Some(_) | None => Err(ProvenanceError::Source(text)),
        }
    }
}

impl std::fmt::Display for SignatureSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Directory => formatter.write_str("directory"),
            Self::Registry(name) => write!(formatter, "oci://{name}"),
        }
    }
}

fn once_each(names: impl Iterator<Item = String>, list: &'static str) -> Result<(), ProvenanceError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name.clone()) {
            return Err(ProvenanceError::NamedTwice { list, name });
        }
    }
    Ok(())
}
