//! Small plugins that misbehave on demand, for tests of whatever runs components.
//!
//! Each is a core module in text, wrapped into a component against the real `wit/` when asked for: no toolchain for wasm
//! is needed, and what a guest does wrong is there to read, down to the bytes.

mod deeds;
mod encode;
mod keeper;
mod moody;
mod other;
mod points;
mod spy;
mod wishes;

pub use deeds::{Deed, does};
pub use keeper::keeper;
pub use moody::{Mood, always, moody, moody_called, nosy};
pub use other::{
    core_module, imports_wasi, loops_in_describe, of_another_world, opens_files, opens_sockets, reads_environment,
    sorts_without_lifecycle, traps_in_describe, without_cycle, wrong_signature,
};
pub use points::{At, harmless, holds};
pub use spy::spies;
pub use wishes::{Wish, wishes};

#[cfg(test)]
mod tests {
    use super::{At, Deed, Wish};

    #[test]
    fn every_guest_assembles() {
        for guest in [
            super::moody(),
            super::keeper(),
            super::core_module(),
            super::imports_wasi(),
            super::of_another_world(),
            super::sorts_without_lifecycle(),
            super::without_cycle(),
            super::wrong_signature(),
            super::loops_in_describe(),
            super::traps_in_describe(),
            super::opens_sockets("Sockets"),
            super::reads_environment("Environment"),
            super::holds("Holder"),
            super::spies("Spy", "v1", "Secret"),
            super::wishes("Wishful", At::Bind, &[Wish::Bind, Wish::Activate("uid".to_owned())]),
            super::does("Rambler", At::Filter, Deed::Ramble),
            super::does("Arguer", At::Filter, Deed::Argue),
        ] {
            guest.unwrap();
        }
        for at in At::ALL {
            super::harmless("Harmless", at).unwrap();
            for deed in [Deed::Trap, Deed::Loop, Deed::Hoard, Deed::Recurse] {
                super::does("Bad", at, deed).unwrap();
            }
        }
    }
}
