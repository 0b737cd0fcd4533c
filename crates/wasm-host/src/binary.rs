//! The bytes of a plugin, and the reasons for which they may be refused.

use std::sync::Arc;

use berth_model::Digest;
use sha2::{Digest as _, Sha256};

use crate::{
    compiler_process::CompileError,
    fault::{FaultKind, InstanceFault},
};

/// The bytes of a plugin with its name: the file's name without `.wasm`, or the name of a built-in.
#[derive(Clone)]
pub struct Binary {
    name: String,
    bytes: Arc<[u8]>,
    digest: Digest,
    is_embedded: bool,
}

impl std::fmt::Debug for Binary {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, bytes, digest, .. } = self;
        write!(formatter, "Binary({name}, {} bytes, {digest})", bytes.len())
    }
}

impl Binary {
    #[must_use]
    pub fn new(name: impl Into<String>, bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self { name: name.into(), digest: Digest::new(Sha256::digest(&bytes).into()), bytes, is_embedded: false }
    }

    /// A binary whose bytes are part of this program, and are trusted like the program.
    #[must_use]
    pub fn embedded(name: impl Into<String>, bytes: &'static [u8]) -> Self {
        Self { is_embedded: true, ..Self::new(name, bytes) }
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The plugin's identity.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    pub(crate) fn is_embedded(&self) -> bool {
        self.is_embedded
    }

    /// Checks the first eight bytes, which distinguish a component.
    pub(crate) fn check_format(&self) -> Result<(), LoadError> {
        let header = self.bytes.first_chunk::<8>().ok_or(LoadError::NotWasm)?;
        match header {
            [b'\0', b'a', b's', b'm', _, _, 1, 0] => Ok(()),
            [b'\0', b'a', b's', b'm', ..] => Err(LoadError::CoreModule),
            _ => Err(LoadError::NotWasm),
        }
    }
}

/// The reason why bytes are not a plugin, as a text that follows the plugin's name.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("has a denied digest: {0} is among deniedDigests in --plugin-config")]
    Denied(Digest),
    #[error("is not a WebAssembly file")]
    NotWasm,
    #[error("is a core module, not a component: run `wasm-tools component new`")]
    CoreModule,
    #[error("is not a valid component: {0}")]
    Invalid(String),
    #[error(transparent)]
    Compile(#[from] CompileError),
    #[error("imports {import}; a plugin may import only berth:scheduler/host@0.2.0")]
    Import { import: String },
    #[error("exports no berth:scheduler interface of version 0.2.0; its exports: {exports}")]
    OtherWorld { exports: String },
    #[error("does not export {interface}@0.2.0, which {because}")]
    Missing { interface: &'static str, because: &'static str },
    #[error("exports {interface}@0.2.0 with functions other than the contract's: {reason}")]
    Signature { interface: &'static str, reason: String },
    #[error("{reason}")]
    Faulty { kind: FaultKind, reason: String },
    #[error("has the name {manifest:?} in its manifest; the file name and the manifest name must be equal")]
    Name { manifest: String },
    /// The result of an earlier load, possibly before a restart.
    #[error("{0}; this is the result of an earlier load, kept until the limits change or the plugin is reloaded")]
    Remembered(String),
}

impl From<InstanceFault> for LoadError {
    fn from(fault: InstanceFault) -> Self {
        Self::Faulty { kind: fault.kind, reason: fault.to_string() }
    }
}

impl LoadError {
    /// Whether loading the same bytes may succeed later, when the machine has more memory or processor time to give.
    #[must_use]
    pub fn is_of_the_moment(&self) -> bool {
        matches!(self, Self::Compile(error) if error.is_of_the_moment())
    }

    /// Whether another attempt with the same bytes and the same effort would fail in the same way. A failure of this
    /// kind is remembered.
    pub(crate) fn is_worth_remembering(&self) -> bool {
        match self {
            Self::Compile(error) => error.is_of_the_bytes(),
            Self::Faulty { kind, .. } => *kind == FaultKind::Timeout,
            Self::Denied(_)
            | Self::NotWasm
            | Self::CoreModule
            | Self::Invalid(_)
            | Self::Import { .. }
            | Self::OtherWorld { .. }
            | Self::Missing { .. }
            | Self::Signature { .. }
            | Self::Name { .. }
            | Self::Remembered(_) => false,
        }
    }
}
