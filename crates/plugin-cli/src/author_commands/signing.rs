//! `berth plugin keygen` and `sign`, and the part of `verify` that checks signatures.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use berth_config::Usage;
use berth_provenance::{
    Policy, PrivateKey, PublicKey, Reference, Signatures, Signer, SignerIdentity, Source, SourcePattern, SourceRule,
    Trust, Unsigned, attach_signature, detached_text, simple_signing_payload,
};
use clap::Args;

use super::{project::Target, registry::RegistryAccess};
use crate::blocking::block_on;

const KEYS: &str = "\
`openssl genpkey -algorithm ed25519` also makes such keys. Keep the private key away from the scheduler, which needs only
the public key: `signers` in its --plugin-config names it as publicKeyFile.";

const SIGNATURES: &str = "\
A file's signature is added to PLUGIN.wasm.sig beside it; copy the two together, the signature first. The signature of
a reference is added to the tag sha256-….sig in its repository, where `cosign verify --key` finds it as well. Keys are
Ed25519, or ECDSA on P-256, in PEM. For a key that is encrypted, or in a key management service, use
`cosign sign --key` and `cosign sign-blob --key --bundle PLUGIN.wasm.sigstore.json`.";

#[derive(Args, Debug)]
#[command(after_help = KEYS)]
pub struct Keygen {
    /// Write NAME.key, for signing, and NAME.pub, for checking
    #[arg(default_value = "berth", value_name = "NAME")]
    name: PathBuf,
}

#[derive(Args, Debug)]
#[command(after_help = SIGNATURES)]
pub struct Sign {
    /// A component file, a plugin's folder, or a reference: registry.example/team/zone:1.2
    #[arg(value_name = "PLUGIN")]
    plugin: String,
    /// The private key, PEM
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    #[command(flatten)]
    access: RegistryAccess,
}

/// The file or the artifact that a command works on. The text is a reference to an artifact if no file has this name.
pub(super) enum SigningTarget {
    File(PathBuf),
    Reference(Reference),
}

impl SigningTarget {
    pub(super) fn of(text: &str) -> Result<Self> {
        let path = Path::new(text);
        if path.exists() {
            return Ok(Self::File(Target::of(path).file()?));
        }
        match text.parse::<Reference>() {
            Ok(reference) => Ok(Self::Reference(reference)),
            Err(error) => Err(Usage(format!("{text} is neither a file nor a reference: {error}")).into()),
        }
    }
}

pub(crate) fn run_keygen(arguments: &Keygen) -> Result<()> {
    let pem = PrivateKey::generate_pem()?;
    let public = PrivateKey::from_pem(&pem)?.public();
    let file = |extension: &str| {
        let mut name = arguments.name.clone().into_os_string();
        name.push(extension);
        PathBuf::from(name)
    };
    let (private_file, public_file) = (file(".key"), file(".pub"));
    // An existing key may be the only copy, so it is not overwritten.
    let create = |file: &Path, mode: u32| {
        let mut options = fs::OpenOptions::new();
        let opened = options.write(true).create_new(true).mode(mode).open(file);
        opened.with_context(|| format!("cannot write {}", file.display()))
    };
    create(&private_file, 0o600)?.write_all(pem.as_bytes())?;
    create(&public_file, 0o644)?.write_all(public.to_pem().as_bytes())?;
    let mut out = io::stdout().lock();
    writeln!(out, "{} signs, {} checks", private_file.display(), public_file.display())?;
    Ok(())
}

pub(crate) fn run_sign(arguments: &Sign) -> Result<()> {
    let Sign { plugin, key, access } = arguments;
    let text = fs::read_to_string(key).with_context(|| format!("--key {}", key.display()))?;
    let key = PrivateKey::from_pem(&text).map_err(|error| Usage(format!("--key {} {error}", key.display())))?;
    match SigningTarget::of(plugin)? {
        SigningTarget::File(file) => sign_file(&file, &key),
        SigningTarget::Reference(reference) => block_on(sign_reference(&reference, &key, access)),
    }
}

fn sign_file(file: &Path, key: &PrivateKey) -> Result<()> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let line = detached_text(&key.sign(&bytes)?);
    let signature_file = beside(file, "sig");
    let present = fs::read_to_string(&signature_file).unwrap_or_default();
    // The existing signatures may be about another version of the file.
    let valid = Signatures::beside_file(Some(present.as_bytes()), None).unwrap_or_default();
    let others = present.lines().filter(|other| *other != line.trim_end()).map(|other| format!("{other}\n"));
    let others: String = if valid.is_empty() { String::new() } else { others.collect() };
    let text = others + &line;
    fs::write(&signature_file, text).with_context(|| format!("cannot write {}", signature_file.display()))?;
    let mut out = io::stdout().lock();
    writeln!(out, "{} is signed: {}", file.display(), signature_file.display())?;
    Ok(())
}

async fn sign_reference(reference: &Reference, key: &PrivateKey, access: &RegistryAccess) -> Result<()> {
    let manifest = access.pull(reference).await?.manifest;
    let payload = simple_signing_payload(&reference.name(), manifest);
    let signature = key.sign(&payload)?;
    let attached = attach_signature(&access.registries(reference)?, reference, manifest, &payload, &signature).await;
    attached.map_err(|error| anyhow::anyhow!("{reference} {error}"))?;
    let mut out = io::stdout().lock();
    writeln!(out, "{} is signed", reference.at(manifest))?;
    Ok(())
}

/// The names of the key files with the keys that signed a binary.
///
/// # Errors
/// No key signed the binary, or a key cannot be used.
pub(super) fn signers(
    keys: &[PathBuf],
    source: &Source,
    file: Option<&[u8]>,
    signatures: &Signatures,
) -> Result<Vec<String>> {
    let mut signers = Vec::new();
    for file in keys {
        let text = fs::read_to_string(file).with_context(|| format!("--key {}", file.display()))?;
        let key = PublicKey::from_pem(&text).map_err(|error| Usage(format!("--key {} {error}", file.display())))?;
        signers.push(Signer { name: file.display().to_string(), identity: SignerIdentity::Key(key) });
    }
    let rule = |from| SourceRule { from, signers: signers.clone(), unsigned: Unsigned::Deny };
    let policy = Policy::new(vec![rule(SourcePattern::Directory), rule(SourcePattern::Registry(String::new()))]);
    match policy.decide(source, &policy.examine(source, file, signatures)) {
        Ok(Trust::Signed(names)) => Ok(names),
        Ok(Trust::NotAsked | Trust::Tolerated { .. }) => Ok(Vec::new()),
        Err(refusal) => bail!("it {}", refusal.reason()),
    }
}

/// The signatures beside a file.
pub(super) fn signatures_of(file: &Path) -> Result<Signatures> {
    let read = |extension: &str| fs::read(beside(file, extension)).ok();
    let found = Signatures::beside_file(read("sig").as_deref(), read("sigstore.json").as_deref());
    found.map_err(|(extension, error)| anyhow::anyhow!("{} {error}", beside(file, extension).display()))
}

/// `NAME.wasm.sig` for `NAME.wasm`.
fn beside(file: &Path, extension: &str) -> PathBuf {
    let mut name = file.to_owned().into_os_string();
    name.push(".");
    name.push(extension);
    PathBuf::from(name)
}
