//! Volumes and their claims, as the persistent volume controller and the storage drivers manage them.

mod annotations;
pub(super) mod claims;
pub(super) mod ephemeral;
mod matching;
pub(super) mod phases;
mod provisioner;
