//! Where plugins come from, and who vouches for them.
//!
//! A component lies in the plugins directory or in an OCI registry. [`Registries`] speaks to registries, [`Puller`] brings
//! a component from one, or from the [`Cache`] while the registry is away, and [`push`] takes one there. [`Policy`] says
//! whose signatures each source needs, and [`Policy::decide`] is the one place where a binary is let in or refused.
//!
//! Deliberately absent: what a component is and how it runs, and when it is pulled again but for the arithmetic of
//! [`PullSchedule`]. Registries, mirrors and the cache are not trusted: what they send is bounded in
//! size and time, and compared with digests and signatures.

mod artifact;
mod cache;
mod keyless;
mod keys;
mod manifest;
mod policy;
mod pull;
mod push;
mod reference;
mod registry;
mod schedule;
mod signature;

pub use artifact::{ArtifactError, ComponentDescription};
pub use cache::{Cache, CacheError};
pub use keyless::{KeylessIdentity, KeylessRoots, RootsError};
pub use keys::{KeyError, PrivateKey, PublicKey};
pub use policy::{
    Evidence, Policy, Refusal, Signer, SignerIdentity, Source, SourcePattern, SourceRule, Trust, Unsigned,
};
pub use pull::{FailedHosts, PullError, Pulled, Puller};
pub use push::{PushError, attach_signature, push};
pub use reference::{Reference, ReferenceError, Version};
pub use registry::{CredentialsError, Registries, RegistryError, RegistryOptions, SetupError};
pub use schedule::PullSchedule;
pub use signature::{Keyless, Signature, SignatureFileError, Signatures, detached_text, simple_signing_payload};
