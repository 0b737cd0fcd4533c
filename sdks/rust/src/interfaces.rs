//! The interfaces of the contract that belong to the traits of a plugin.

/// Exports `$plugin` with the interfaces of the listed extension points and hooks. [`export!`](crate::export) uses it.
#[doc(hidden)]
#[macro_export]
macro_rules! export_interfaces {
    (($plugin:ty) $sync:tt [$($name:ident)*]) => {
        struct BerthComponent;

        ::std::thread_local! {
            static BERTH_GUEST: ::std::cell::RefCell<$crate::Guest> =
                ::std::cell::RefCell::new($crate::Guest::new::<$plugin>());
        }

        impl $crate::HasGuest for BerthComponent {
            fn with<R>(run: impl FnOnce(&mut $crate::Guest) -> R) -> R {
                BERTH_GUEST.with(|guest| run(&mut guest.borrow_mut()))
            }
        }

        // A native build exports nothing, but compiles the plugin as if it were exported.
        #[cfg(not(target_family = "wasm"))]
        const _: fn() = || <BerthComponent as $crate::HasGuest>::with(|_| ());

        $crate::export_interface!(lifecycle);
        $crate::export_cycle!($($name)*);
        $crate::export_sync!($sync $($name)*);
        $($crate::export_trait!($name);)*
    };
}

/// Refuses an extension point that a [`NodePlugin`](crate::NodePlugin) has no method for.
///
/// ```
/// berth_sdk::of_node_plugin!(Filter);
/// ```
///
/// ```compile_fail
/// berth_sdk::of_node_plugin!(Reserve);
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! of_node_plugin {
    (Filter) => {};
    (Score) => {};
    (Normalize) => {};
    (Explain) => {};
    ($other:ident) => {
        ::std::compile_error!(::std::concat!(
            "a NodePlugin can export only Filter, Score, Normalize and Explain; a plugin with ",
            ::std::stringify!($other),
            " implements the framework's traits, and names them in `berth_sdk::plugin!`"
        ));
    };
}

/// One interface, by the name of its module. It is exported only from wasm: a native linker refuses a library that exports
/// a name such as `berth:scheduler/filter@0.2.0#filter`.
#[doc(hidden)]
#[macro_export]
macro_rules! export_interface {
    ($interface:ident) => {
        #[cfg(target_family = "wasm")]
        $crate::bindings::$interface::export!(BerthComponent with_types_in $crate::bindings::$interface);
    };
}

/// `cycle`, if one of the traits is called within a cycle.
#[doc(hidden)]
#[macro_export]
macro_rules! export_cycle {
    () => {};
    (PreEnqueue $($rest:ident)*) => { $crate::export_cycle!($($rest)*); };
    (QueueSort $($rest:ident)*) => { $crate::export_cycle!($($rest)*); };
    (QueueingHint $($rest:ident)*) => { $crate::export_cycle!($($rest)*); };
    (Sign $($rest:ident)*) => { $crate::export_cycle!($($rest)*); };
    (State $($rest:ident)*) => { $crate::export_cycle!($($rest)*); };
    (Follow $($rest:ident)*) => { $crate::export_cycle!($($rest)*); };
    (ShareFacts $($rest:ident)*) => { $crate::export_cycle!($($rest)*); };
    ($($in_cycle:ident)+) => { $crate::export_interface!(cycle); };
}

/// `sync`, if it was requested or one of the traits reads nodes.
#[doc(hidden)]
#[macro_export]
macro_rules! export_sync {
    ((sync) $($rest:ident)*) => { $crate::export_both_syncs!(); };
    (()) => {};
    (() PreFilter $($rest:ident)*) => { $crate::export_both_syncs!(); };
    (() Filter $($rest:ident)*) => { $crate::export_both_syncs!(); };
    (() PostFilter $($rest:ident)*) => { $crate::export_both_syncs!(); };
    (() PreScore $($rest:ident)*) => { $crate::export_both_syncs!(); };
    (() Score $($rest:ident)*) => { $crate::export_both_syncs!(); };
    (() Normalize $($rest:ident)*) => { $crate::export_both_syncs!(); };
    (() $other:ident $($rest:ident)*) => { $crate::export_sync!(() $($rest)*); };
}

/// `sync`, and the interface for the calls that follow its deltas.
#[doc(hidden)]
#[macro_export]
macro_rules! export_both_syncs {
    () => {
        $crate::export_interface!(sync);
        $crate::export_interface!(sync_pods);
    };
}

/// The interface of a trait. `EndCycle` and `Follow` are called through `cycle` and `sync`.
#[doc(hidden)]
#[macro_export]
macro_rules! export_trait {
    (PreEnqueue) => {
        $crate::export_interface!(pre_enqueue);
    };
    (QueueSort) => {
        $crate::export_interface!(queue_sort);
    };
    (PreFilter) => {
        $crate::export_interface!(pre_filter);
    };
    (Filter) => {
        $crate::export_interface!(filter);
    };
    (PostFilter) => {
        $crate::export_interface!(post_filter);
    };
    (PreScore) => {
        $crate::export_interface!(pre_score);
    };
    (Score) => {
        $crate::export_interface!(score);
    };
    (Normalize) => {
        $crate::export_interface!(normalize_score);
    };
    (Reserve) => {
        $crate::export_interface!(reserve);
    };
    (Permit) => {
        $crate::export_interface!(permit);
    };
    (PreBindPreFlight) => {
        $crate::export_interface!(pre_bind_pre_flight);
    };
    (PreBind) => {
        $crate::export_interface!(pre_bind);
    };
    (Bind) => {
        $crate::export_interface!(bind);
    };
    (PostBind) => {
        $crate::export_interface!(post_bind);
    };
    (QueueingHint) => {
        $crate::export_interface!(queueing_hint);
    };
    (Sign) => {
        $crate::export_interface!(sign);
    };
    (Explain) => {
        $crate::export_interface!(explain);
    };
    (State) => {
        $crate::export_interface!(state);
    };
    (EndCycle) => {};
    (Follow) => {};
    (Reuse) => {
        $crate::export_interface!(reuse);
    };
    (ShareFacts) => {
        $crate::export_interface!(shared_facts);
    };
}
