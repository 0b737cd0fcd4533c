//! The rules by which the API server changes, completes and refuses objects before it stores them.

pub(crate) mod admission;
pub(crate) mod defaults;
pub(crate) mod lifecycle;
pub(crate) mod metadata;
pub(crate) mod validation;
