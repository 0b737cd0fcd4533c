//! Everything that `bindgen!` makes of the contract. Nothing outside this crate sees these types.
//!
//! Types are owned, so that a delta's columns move into them instead of being copied.

#![allow(unreachable_pub, missing_debug_implementations, reason = "generated")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "all",
});

pub(crate) use self::{berth::scheduler::types, exports::berth::scheduler as points};
