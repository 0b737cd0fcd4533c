//! Small plugins that misbehave on demand, for tests of whatever runs components.
//!
//! Each is a core module in text, wrapped into a component against the real `wit/` when asked for: no toolchain for wasm
//! is needed, and what a guest does wrong is there to read, down to the bytes.

mod encode;
mod keeper;
mod moody;
mod other;

pub use keeper::keeper;
pub use moody::{Mood, always, moody, moody_called};
pub use other::{
    core_module, imports_wasi, loops_in_describe, of_another_world, sorts_without_lifecycle, traps_in_describe,
    without_cycle, wrong_signature,
};

#[cfg(test)]
mod tests {
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
        ] {
            guest.unwrap();
        }
    }
}
