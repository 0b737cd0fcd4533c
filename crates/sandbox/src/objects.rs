//! The operations on stored objects: decode, create, update, delete.
//!
//! Requests and controllers use the same operations, so both follow the same rules.

pub(crate) mod create;
pub(crate) mod decode;
pub(crate) mod definitions;
pub(crate) mod delete;
pub(crate) mod disruption_budgets;
mod duplicates;
pub(crate) mod initial;
pub(crate) mod update;
