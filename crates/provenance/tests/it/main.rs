//! Tests of registries over real HTTP.

#![expect(clippy::unwrap_used, reason = "a test ends where its footing is gone")]

mod proxies;
mod registries;
