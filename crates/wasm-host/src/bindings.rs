//! The types and functions that `bindgen!` makes of the contract. Code outside of this crate does not see them.
//!
//! The types own their data, so that a delta's columns are moved into them and not copied.

#![allow(unreachable_pub, missing_debug_implementations, reason = "generated")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "all",
});

/// The interface by which the program's own plugins share facts ([`berth_framework::ShareFacts`]). It is not a part of the
/// contract with authors, so its text is only here and in the SDK for Rust.
#[allow(dead_code, reason = "generated")]
mod built_in {
    wasmtime::component::bindgen!({
        inline: "
            package berth:built-in@0.2.0;

            interface shared-facts {
                record fact { name: string, json: option<list<u8>> }

                take-facts: func() -> list<fact>;
            }

            world sharing {
                export shared-facts;
            }
        ",
        world: "sharing",
    });
}

pub(crate) use self::{
    berth::scheduler::types, built_in::exports::berth::built_in::shared_facts, exports::berth::scheduler as points,
};
