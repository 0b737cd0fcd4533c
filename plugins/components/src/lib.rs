//! The built-in plugins as components, embedded.
//!
//! The build script compiles the neighbouring crates for wasm and turns each into a component, so what is embedded here
//! is always what the sources say.

/// A component and the name that profiles know it by.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedComponent {
    /// `NodeAffinity`, say.
    pub name: &'static str,
    /// The component's binary.
    pub bytes: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/components.rs"));
