//! Tests of clusters from manifests, of the placement of their pods, and of reverted changes.

#![expect(clippy::unwrap_used, reason = "a test ends where its footing is gone")]

mod follow;
mod fork;
mod kit;
mod place;
