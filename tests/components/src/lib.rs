//! Components that only tests use: the example plugins in Rust, and plugins that were written for a test.

use berth_components::EmbeddedComponent;

include!(concat!(env!("OUT_DIR"), "/components.rs"));

/// The binary of a component.
///
/// # Panics
/// There is no component of that name.
#[must_use]
#[expect(clippy::expect_used, reason = "only tests call this")]
pub fn component(name: &str) -> &'static [u8] {
    COMPONENTS.iter().find(|component| component.name == name).expect("a component of this crate").bytes()
}
