//! The fields of objects. This module reads, writes and checks one field at a time, without knowledge of kinds.

pub(crate) mod clock;
pub(crate) mod conditions;
mod field_error;
pub(crate) mod json;
pub(crate) mod names;
pub(crate) mod pods;
pub(crate) mod quantity;

pub(crate) use field_error::FieldError;
