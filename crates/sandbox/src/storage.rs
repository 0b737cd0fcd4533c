//! The objects in memory, their history, and readers that follow the history. The module knows JSON objects, but
//! neither kinds nor HTTP.

mod follower;
mod key;
mod object;
mod store;
mod version;

pub(crate) use follower::Follower;
pub(crate) use key::{key, split_key};
pub(crate) use object::Object;
pub(crate) use store::{Change, ChangeKind, Collection, Forgotten, Store};
pub(crate) use version::{InvalidResourceVersion, ResourceVersion};
