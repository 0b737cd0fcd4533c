//! Clusters from manifests, where the scheduler places their pods, and what is taken back.

#![expect(clippy::unwrap_used, reason = "a test ends where its footing is gone")]

mod fork;
mod kit;
mod place;
