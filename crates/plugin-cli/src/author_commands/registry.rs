//! `berth plugin push` and `pull`: components and registries.

use std::{
    env, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context as _, Result, bail};
use berth_config::{FileSettings, Usage};
use berth_provenance::{ComponentDescription, Proxies, Pulled, Puller, Reference, Registries, RegistryOptions, push};
use berth_telemetry::chain;
use clap::Args;
use jiff::Timestamp;

use super::{inspect, project::Target};
use crate::blocking::block_on;

const REFERENCES: &str = "\
A reference names the registry, a repository and a tag: registry.example/team/zone:1.2. The credentials are
those of `docker login`, in $DOCKER_CONFIG/config.json or ~/.docker/config.json. --credentials names another file in the same format.
The file may name credential helpers: the programs docker-credential-NAME.";

#[derive(Args, Debug)]
#[command(after_help = REFERENCES)]
pub struct Push {
    /// A component file, or a plugin's folder (its build/*.wasm is used)
    #[arg(value_name = "PLUGIN")]
    plugin: PathBuf,
    /// The reference to push to: registry.example/team/zone:1.2
    #[arg(value_name = "REFERENCE")]
    reference: Reference,
    #[command(flatten)]
    access: RegistryAccess,
}

#[derive(Args, Debug)]
#[command(after_help = REFERENCES)]
pub struct Pull {
    /// The reference to pull: registry.example/team/zone:1.2, or with a digest, registry.example/team/zone@sha256:…
    #[arg(value_name = "REFERENCE")]
    reference: Reference,
    /// Write the component to this file [default: NAME.wasm, by the name in its manifest]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    access: RegistryAccess,
}

/// The options for connections to a registry.
#[derive(Args, Debug)]
pub(super) struct RegistryAccess {
    /// Use HTTP without TLS
    #[arg(long)]
    plain_http: bool,
    /// Certificates to trust in addition to the system's certificates, PEM
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Credentials, as `docker login` writes them [default: those of `docker login`]
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// The host that gets the credentials and returns a token [default: the registry]
    #[arg(long, value_name = "HOST")]
    token_service: Option<String>,
}

impl RegistryAccess {
    pub(super) fn registries(&self, reference: &Reference) -> Result<Registries> {
        let options = RegistryOptions {
            host: reference.registry().to_owned(),
            plain_http: self.plain_http,
            ca_file: self.ca_file.clone(),
            pull_secret_file: self.credentials.clone().or_else(docker_config),
            runs_credential_helpers: true,
            token_service: self.token_service.clone(),
            ..RegistryOptions::default()
        };
        Registries::new(vec![options], None, &Proxies::of_process()).map_err(|error| Usage(chain(&error)).into())
    }

    /// The component that a reference names, and its signatures.
    pub(super) async fn pull(&self, reference: &Reference) -> Result<Pulled> {
        let puller = Puller::new(self.registries(reference)?, None);
        match puller.pull(reference, FileSettings::default().max_bytes, None).await {
            Ok(Some(pulled)) => Ok(pulled),
            Ok(None) => bail!("{reference}: the registry sent no component"),
            Err(error) => bail!("{reference} {error}"),
        }
    }
}

/// The file in which `docker login` keeps credentials; `None` if the file does not exist.
fn docker_config() -> Option<PathBuf> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = variable("DOCKER_CONFIG").or_else(|| variable("HOME").map(|home| home.join(".docker")))?;
    Some(folder.join("config.json")).filter(|file| file.exists())
}

pub(crate) fn run_push(arguments: &Push) -> Result<()> {
    let Push { plugin, reference, access } = arguments;
    let loaded = Target::of(plugin).load()?;
    let component = loaded.binary.bytes();
    let (imports, exports) = inspect::interfaces(component)?;
    let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let created = Timestamp::from_second(i64::try_from(seconds)?)?.to_string();
    let description = ComponentDescription { created, imports, exports };
    let registries = access.registries(reference)?;
    let manifest = block_on(async {
        let pushed = push(&registries, reference, component, &description).await;
        pushed.map_err(|error| anyhow::anyhow!("{reference} {error}"))
    })?;
    let mut out = io::stdout().lock();
    writeln!(out, "{} is pushed as {}", loaded.title(), reference.at(manifest))?;
    Ok(())
}

pub(crate) fn run_pull(arguments: &Pull) -> Result<()> {
    let Pull { reference, output, access } = arguments;
    let pulled = block_on(access.pull(reference))?;
    let file = match output {
        Some(file) => file.clone(),
        None => PathBuf::from(format!("{}.wasm", name_of(&pulled.component, reference)?)),
    };
    write_new(&file, &pulled.component)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{} is {} (sha256 {})", file.display(), reference.at(pulled.manifest), pulled.digest.short())?;
    Ok(())
}

/// The name in the component's manifest, if it can be the name of a file.
pub(super) fn name_of(component: &[u8], reference: &Reference) -> Result<String> {
    let name = super::project::name_in_manifest(component).with_context(|| reference.to_string())?;
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
        bail!("{reference}: the component's name {name:?} cannot be used as a file name: set --output");
    }
    Ok(name)
}

/// Writes the whole file or nothing, because it may be in a plugins directory.
fn write_new(file: &Path, bytes: &[u8]) -> Result<()> {
    let part = file.with_extension("wasm.part");
    fs::write(&part, bytes).with_context(|| format!("cannot write {}", part.display()))?;
    fs::rename(&part, file).with_context(|| format!("cannot write {}", file.display()))
}
