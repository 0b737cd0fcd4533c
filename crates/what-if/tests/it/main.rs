//! Clusters from manifests, where the scheduler places their pods, and what is taken back.

mod fork;
mod kit;
mod place;
