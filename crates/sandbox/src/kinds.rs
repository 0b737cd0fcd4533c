//! The kinds of objects that the sandbox serves: built-in kinds from a table, and custom kinds from definitions.

mod built_in;
pub(crate) mod custom;
pub(crate) mod events;
mod kind;
pub(crate) mod list_type;
mod registry;
pub(crate) mod schema;

pub(crate) use kind::{Decoding, Kind, Scale};
pub(crate) use registry::{Registry, Resource, VIRTUAL, VirtualResource};
