//! The sources of plugins, and the signers that vouch for them.
//!
//! A component is in the plugins directory or in an OCI registry. [`Registries`] sends requests to registries, through
//! the [`Proxies`] of the environment. [`Puller`] gets a component from a registry, or from the [`Cache`] while the
//! registry is unreachable, and [`push`] uploads a component. [`Policy`] contains the signers that each source needs.
//! [`Policy::decide`] is the only place where a binary is admitted or refused.
//!
//! The crate knows only bytes: it cannot run a component. Its caller decides when a component is pulled again;
//! [`PullSchedule`] computes the times. The crate does not trust registries, mirrors and the cache: the size and time
//! of their answers are limited, and digests and signatures are checked.

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
pub use registry::{CredentialsError, HelperError, Proxies, Registries, RegistryError, RegistryOptions, SetupError};
pub use schedule::PullSchedule;
pub use signature::{Keyless, Signature, SignatureFileError, Signatures, detached_text, simple_signing_payload};
