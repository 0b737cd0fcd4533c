//! The sources of plugins and the signatures that count, according to the operator's settings and to the files that the
//! settings name.
//!
//! The settings name keys, certificates and references; this module reads them. Files are read together with the
//! settings, so a changed key counts once --plugin-config is read again. Pull secrets are read at each pull.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use berth_config::{
    KeylessSettings, KeylessSubject, PluginHostSettings, ProvenanceSettings, RegistrySettings, SignatureRule,
    SignatureSource, SignerSettings,
};
use berth_model::PluginName;
use berth_provenance::{
    Cache, CacheError, KeylessIdentity, KeylessRoots, Policy, Proxies, PublicKey, Puller, Reference, ReferenceError,
    Refusal, Registries, RegistryOptions, SetupError, Signatures, Signer, SignerIdentity, Source, SourcePattern,
    SourceRule, Trust, Unsigned,
};
use berth_telemetry::chain;
use tracing::warn;

use crate::directory::{Admission, Approval, Candidate, NotAdmitted};

/// The content of the settings and of their files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    pub policy: Policy,
    pub registries: Vec<RegistryOptions>,
    pub sources: BTreeMap<PluginName, PullSource>,
}

/// The source from which one plugin is pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullSource {
    pub reference: Reference,
    /// The time between two requests for a tag.
    pub interval: Duration,
}

/// The reason why the settings cannot be used. The text continues the name of their file.
#[derive(Debug, thiserror::Error)]
pub enum ProvenanceError {
    #[error("plugin {plugin}: source.oci: {source}")]
    Reference { plugin: PluginName, source: ReferenceError },
    #[error("signer {signer}: {} cannot be read: {source}", file.display())]
    Unreadable { signer: String, file: PathBuf, source: std::io::Error },
    #[error("signer {signer}: {} {reason}", file.display())]
    Unusable { signer: String, file: PathBuf, reason: String },
    #[error("{}", chain(.0))]
    Registries(SetupError),
}

impl Provenance {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    /// The error names the field or file that cannot be used.
    pub fn read(settings: &PluginHostSettings) -> Result<Self, ProvenanceError> {
        let ProvenanceSettings { registries, signers, signatures } = settings.provenance();
        let signers: Result<Vec<Signer>, _> = signers.iter().map(signer).collect();
        let signers = signers?;
        let registries: Vec<RegistryOptions> = registries.iter().map(registry).collect();
        if !registries.is_empty() {
            Registries::new(registries.clone(), None, &Proxies::of_process()).map_err(ProvenanceError::Registries)?;
        }
        let mut sources = BTreeMap::new();
        for (plugin, source) in settings.sources() {
            let reference = source.oci.parse();
            let reference =
                reference.map_err(|source| ProvenanceError::Reference { plugin: plugin.clone(), source })?;
            sources.insert(plugin.clone(), PullSource { reference, interval: source.pull_interval });
        }
        let rules = signatures.iter().map(|rule| source_rule(rule, &signers)).collect();
        Ok(Self { policy: Policy::new(rules), registries, sources })
    }

    /// A puller with these settings and with the proxies of the environment.
    ///
    /// # Errors
    /// A file with certificates can no longer be used.
    pub fn puller(&self, cache: Option<Cache>) -> Result<Puller, SetupError> {
        Ok(Puller::new(Registries::new(self.registries.clone(), None, &Proxies::of_process())?, cache))
    }

    /// Checks whether a binary may run, and returns its signers. `file` contains the bytes of a file.
    ///
    /// # Errors
    /// The error says why the binary may not run.
    pub fn admit(
        &self,
        plugin: &str,
        source: &Source,
        file: Option<&[u8]>,
        signatures: &Signatures,
    ) -> Result<Vec<String>, Refusal> {
        match self.policy.decide(source, &self.policy.examine(source, file, signatures))? {
            Trust::NotAsked => Ok(Vec::new()),
            Trust::Signed(signers) => Ok(signers),
            Trust::Tolerated { unsigned: Unsigned::Warn, reason } => {
                warn!(plugin, %source, reason, "the plugin has no trusted signature");
                Ok(Vec::new())
            }
            Trust::Tolerated { unsigned: Unsigned::Allow | Unsigned::Deny, .. } => Ok(Vec::new()),
        }
    }
}

/// The current settings, for the threads that load binaries.
#[derive(Clone, Debug, Default)]
pub(crate) struct CurrentProvenance(Arc<RwLock<Arc<Provenance>>>);

impl CurrentProvenance {
    pub(crate) fn new(provenance: Provenance) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(provenance))))
    }

    pub(crate) fn get(&self) -> Arc<Provenance> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set(&self, provenance: Provenance) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(provenance);
    }
}

impl Admission for CurrentProvenance {
    fn companions(&self) -> &'static [&'static str] {
        &["sig", "sigstore.json"]
    }

    fn admit(&self, file: Candidate<'_>) -> Result<Approval, NotAdmitted> {
        let companion = |index: usize| file.companions.get(index).and_then(Option::as_deref);
        let signatures = Signatures::beside_file(companion(0), companion(1));
        let name = file.binary.name();
        let provenance = self.get();
        // The files beside the plugin's file do not matter without a policy.
        if !provenance.policy.asks_about(&Source::Directory) {
            let signed_by = provenance.admit(name, &Source::Directory, None, &Signatures::default());
            return Ok(Approval { signed_by: signed_by.map_err(|refusal| NotAdmitted(refusal.to_string()))? });
        }
        let signatures = signatures
            .map_err(|(extension, error)| NotAdmitted(format!("is not signed: {name}.wasm.{extension} {error}")))?;
        let signed_by = provenance.admit(name, &Source::Directory, Some(file.binary.bytes()), &signatures);
        Ok(Approval { signed_by: signed_by.map_err(|refusal| NotAdmitted(refusal.to_string()))? })
    }
}

/// A cache for pulled artifacts, beside the compiled plugins.
///
/// # Errors
/// The directory cannot be used.
pub(crate) fn pull_cache(artifacts: Option<&Path>) -> Result<Option<Cache>, CacheError> {
    artifacts.map(|dir| Cache::open(dir.join("pulled"))).transpose()
}

fn registry(settings: &RegistrySettings) -> RegistryOptions {
    let RegistrySettings { host, mirrors, plain_http, ca_file, pull_secret_file, token_service } = settings.clone();
    // Whoever writes the Secret must not choose a program that runs with the scheduler's rights.
    let runs_credential_helpers = false;
    RegistryOptions { host, mirrors, plain_http, ca_file, pull_secret_file, runs_credential_helpers, token_service }
}

fn source_rule(rule: &SignatureRule, signers: &[Signer]) -> SourceRule {
    let named = signers.iter().filter(|signer| rule.signers.contains(&signer.name));
    SourceRule {
        from: match &rule.source {
            SignatureSource::Directory => SourcePattern::Directory,
            SignatureSource::Registry(name) => SourcePattern::Registry(name.clone()),
        },
        signers: named.cloned().collect(),
        unsigned: match rule.unsigned {
            berth_config::Unsigned::Deny => Unsigned::Deny,
            berth_config::Unsigned::Warn => Unsigned::Warn,
            berth_config::Unsigned::Allow => Unsigned::Allow,
        },
    }
}

fn signer(settings: &SignerSettings) -> Result<Signer, ProvenanceError> {
    let name = &settings.name;
    let identity = match &settings.identity {
        berth_config::SignerIdentity::PublicKeyFile(file) => {
            let key = PublicKey::from_pem(&read(name, file)?);
            SignerIdentity::Key(key.map_err(|error| unusable(name, file, &error))?)
        }
        berth_config::SignerIdentity::Keyless(keyless) => SignerIdentity::Keyless(keyless_identity(name, keyless)?),
    };
    Ok(Signer { name: name.clone(), identity })
}

fn keyless_identity(signer: &str, settings: &KeylessSettings) -> Result<KeylessIdentity, ProvenanceError> {
    let KeylessSettings { fulcio_roots_file, rekor_key_file, issuer, subject } = settings;
    let roots = KeylessRoots::from_pem(&read(signer, fulcio_roots_file)?, &read(signer, rekor_key_file)?);
    let file_of = |error: &berth_provenance::RootsError| match error {
        berth_provenance::RootsError::LogKey(_) => rekor_key_file,
        berth_provenance::RootsError::NoCertificate | berth_provenance::RootsError::Certificate(_) => fulcio_roots_file,
    };
    let roots = roots.map_err(|error| unusable(signer, file_of(&error), &error))?;
    let (subject, is_prefix) = match subject {
        KeylessSubject::Exactly(subject) => (subject, false),
        KeylessSubject::BeginningWith(prefix) => (prefix, true),
    };
    Ok(KeylessIdentity { roots: Arc::new(roots), issuer: issuer.clone(), subject: subject.clone(), is_prefix })
}

fn read(signer: &str, file: &Path) -> Result<String, ProvenanceError> {
    fs::read_to_string(file).map_err(|source| {
        let (signer, file) = (signer.to_owned(), file.to_owned());
        ProvenanceError::Unreadable { signer, file, source }
    })
}

fn unusable(signer: &str, file: &Path, error: &dyn std::error::Error) -> ProvenanceError {
    let (signer, file) = (signer.to_owned(), file.to_owned());
    ProvenanceError::Unusable { signer, file, reason: error.to_string() }
}
