//! The types and functions that `bindgen!` makes of the contract. Code outside of this crate does not see them.
//!
//! The types own their data, so that a delta's columns are moved into them and not copied.

#![allow(unreachable_pub, missing_debug_implementations, reason = "generated")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "all",
});

pub(crate) use self::{berth::scheduler::types, exports::berth::scheduler as points};
