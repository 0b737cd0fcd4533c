//! What Berth must bear: any bytes in its decoders, any objects in its plugins.
//!
//! A target takes bytes and panics where Berth is wrong: it panicked itself, overflowed, or contradicts itself. `cargo
//! xtask fuzz` makes up the bytes; this crate's test replays the seeds in `fuzz/seeds`, a folder a target, without any
//! tools. A crash that was found stays as a seed.
//!
//! What needs an engine, a socket or a directory has tests of made-up input in its own crate: they take [`rounds`] from here.

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

/// What is done to the bytes.
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

/// Does to `bytes` what the target of this name does.
///
/// # Panics
/// There is no such target, or Berth is wrong.
#[expect(clippy::panic, reason = "a fuzzer that runs no target would find nothing")]
pub fn run(name: &str, bytes: &[u8]) {
    let Some(target) = target(name) else { panic!("no target {name}") };
    target(bytes);
}
