//! The formats of bodies: media types, objects and lists as JSON, tables, protobuf.

pub(crate) mod media;
mod protobuf;
pub(crate) mod table;
pub(crate) mod view;
