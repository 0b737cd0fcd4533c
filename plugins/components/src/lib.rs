//! The built-in plugins as components, embedded.
//!
//! The build script compiles the neighbouring crates for wasm and makes a component of each crate, so the embedded
//! components always correspond to the sources.

use std::{fmt, io::Read as _, sync::OnceLock};

use flate2::read::DeflateDecoder;

/// A component, and the name by which profiles refer to it.
pub struct EmbeddedComponent {
    /// The name, for example `NodeAffinity`.
    pub name: &'static str,
    deflated: &'static [u8],
    bytes: OnceLock<Vec<u8>>,
}

impl EmbeddedComponent {
    /// A component whose binary is this DEFLATE stream (RFC 1951).
    #[must_use]
    pub const fn new(name: &'static str, deflated: &'static [u8]) -> Self {
        Self { name, deflated, bytes: OnceLock::new() }
    }

    /// The component's binary. The first call takes milliseconds for each megabyte, and its result stays in memory.
    ///
    /// # Panics
    /// The embedded bytes are not the bytes that the build script wrote.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a part of this program is damaged")]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get_or_init(|| {
            let mut bytes = Vec::new();
            DeflateDecoder::new(self.deflated).read_to_end(&mut bytes).expect("a component as it was embedded");
            bytes
        })
    }
}

impl fmt::Debug for EmbeddedComponent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("EmbeddedComponent").field("name", &self.name).finish_non_exhaustive()
    }
}

include!(concat!(env!("OUT_DIR"), "/components.rs"));
