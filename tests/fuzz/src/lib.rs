//! Inputs that Berth must handle: any bytes in its decoders, and any objects in its plugins.
//!
//! A target takes bytes and panics if Berth is wrong: if it panicked itself, overflowed, or contradicts itself. `cargo
//! xtask fuzz` generates the bytes. This crate's test replays the seeds in `fuzz/seeds`, which has a folder for each
//! target, without further tools. The input of each crash that was found is kept as a seed.
//!
//! Parts that need an engine, a socket or a directory have such tests in their own crates, which use [`rounds`] of this
//! crate.

mod cluster;
mod configuration;
mod cycle;
mod decoding;
mod devices;
mod mutation;
mod random;
mod single;

pub use mutation::{mutate, mutate_in_place};
pub use random::{Random, rounds};

/// A target, which takes bytes.
pub type Target = fn(&[u8]);

/// Every target by its name.
pub const TARGETS: [(&str, Target); 8] = [
    ("objects", decoding::objects),
    ("quantity", decoding::quantity),
    ("selectors", decoding::selectors),
    ("config", configuration::scheduler),
    ("plugin-host-config", configuration::plugin_host),
    ("plugin-args", configuration::plugin_args),
    ("device-selector", devices::selector),
    ("cycle", cycle::run),
];

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}

/// Runs the target of this name with `bytes`.
///
/// # Panics
/// There is no such target, or Berth is wrong.
#[expect(clippy::panic, reason = "a fuzzer that runs no target would find nothing")]
pub fn run(name: &str, bytes: &[u8]) {
    let Some(target) = target(name) else { panic!("no target {name}") };
    target(bytes);
}
