//! The output of wit-bindgen for the contract. There is one module for each interface, so that a component exports only
//! the interfaces that its plugin implements.
//!
//! Each module contains a world with a single export. Its `export!` macro also stores the description of that world in
//! the component. If several are used, the componentization merges them.

#![allow(
    unsafe_code,
    unreachable_pub,
    missing_debug_implementations,
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    reason = "generated"
)]

/// The shared types, and the host's functions.
pub mod shared {
    wit_bindgen::generate!({
        path: "../../wit",
        inline: "package berth:sdk; world shared { import berth:scheduler/types@0.2.0; import berth:scheduler/host@0.2.0; }",
        world: "berth:sdk/shared",
        runtime_path: "::berth_sdk::rt",
        generate_all,
    });
}

macro_rules! interface {
    ($module:ident, $world:tt, $wit:tt) => {
        interface!($module, $world, $wit, { "berth:scheduler/types@0.2.0": ::berth_sdk::bindings::shared::berth::scheduler::types });
    };
    ($module:ident, $world:tt, $wit:tt, $with:tt) => {
        pub mod $module {
            wit_bindgen::generate!({
                path: "../../wit",
                inline: $wit,
                world: $world,
                runtime_path: "::berth_sdk::rt",
                with: $with,
                pub_export_macro: true,
            });
        }
    };
}

interface!(
    lifecycle,
    "berth:sdk/lifecycle",
    "package berth:sdk; world lifecycle { export berth:scheduler/lifecycle@0.2.0; }"
);
interface!(sync, "berth:sdk/sync", "package berth:sdk; world sync { export berth:scheduler/sync@0.2.0; }");
interface!(
    sync_pods,
    "berth:sdk/sync-pods",
    "package berth:sdk; world sync-pods { export berth:scheduler/sync-pods@0.2.0; }"
);
interface!(cycle, "berth:sdk/cycle", "package berth:sdk; world cycle { export berth:scheduler/cycle@0.2.0; }");
interface!(
    pre_enqueue,
    "berth:sdk/pre-enqueue",
    "package berth:sdk; world pre-enqueue { export berth:scheduler/pre-enqueue@0.2.0; }"
);
interface!(
    queue_sort,
    "berth:sdk/queue-sort",
    "package berth:sdk; world queue-sort { export berth:scheduler/queue-sort@0.2.0; }"
);
interface!(
    pre_filter,
    "berth:sdk/pre-filter",
    "package berth:sdk; world pre-filter { export berth:scheduler/pre-filter@0.2.0; }"
);
interface!(filter, "berth:sdk/filter", "package berth:sdk; world filter { export berth:scheduler/filter@0.2.0; }");
interface!(
    post_filter,
    "berth:sdk/post-filter",
    "package berth:sdk; world post-filter { export berth:scheduler/post-filter@0.2.0; }"
);
interface!(
    pre_score,
    "berth:sdk/pre-score",
    "package berth:sdk; world pre-score { export berth:scheduler/pre-score@0.2.0; }"
);
interface!(score, "berth:sdk/score", "package berth:sdk; world score { export berth:scheduler/score@0.2.0; }");
interface!(
    normalize_score,
    "berth:sdk/normalize-score",
    "package berth:sdk; world normalize-score { export berth:scheduler/normalize-score@0.2.0; }"
);
interface!(reserve, "berth:sdk/reserve", "package berth:sdk; world reserve { export berth:scheduler/reserve@0.2.0; }");
interface!(permit, "berth:sdk/permit", "package berth:sdk; world permit { export berth:scheduler/permit@0.2.0; }");
interface!(
    pre_bind_pre_flight,
    "berth:sdk/pre-bind-pre-flight",
    "package berth:sdk; world pre-bind-pre-flight { export berth:scheduler/pre-bind-pre-flight@0.2.0; }"
);
interface!(
    pre_bind,
    "berth:sdk/pre-bind",
    "package berth:sdk; world pre-bind { export berth:scheduler/pre-bind@0.2.0; }"
);
interface!(bind, "berth:sdk/bind", "package berth:sdk; world bind { export berth:scheduler/bind@0.2.0; }");
interface!(
    post_bind,
    "berth:sdk/post-bind",
    "package berth:sdk; world post-bind { export berth:scheduler/post-bind@0.2.0; }"
);
interface!(
    queueing_hint,
    "berth:sdk/queueing-hint",
    "package berth:sdk; world queueing-hint { export berth:scheduler/queueing-hint@0.2.0; }"
);
interface!(sign, "berth:sdk/sign", "package berth:sdk; world sign { export berth:scheduler/sign@0.2.0; }");
interface!(reuse, "berth:sdk/reuse", "package berth:sdk; world reuse { export berth:scheduler/reuse@0.2.0; }");
interface!(explain, "berth:sdk/explain", "package berth:sdk; world explain { export berth:scheduler/explain@0.2.0; }");
interface!(state, "berth:sdk/state", "package berth:sdk; world state { export berth:scheduler/state@0.2.0; }", {});
// The program's own plugins export this interface, which is not a part of the contract (`ShareFacts` in berth-framework).
interface!(
    shared_facts,
    "sharing",
    "package berth:built-in@0.2.0;
    interface shared-facts { record fact { name: string, json: option<list<u8>> } take-facts: func() -> list<fact>; }
    world sharing { export shared-facts; }",
    {}
);
