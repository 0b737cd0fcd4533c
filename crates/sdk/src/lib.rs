//! The guest side of the plugin contract, for plugins written in Rust.
//!
//! A plugin implements the traits of [`berth_framework`] (re-exported as [`framework`]) and ends in one line:
//!
//! ```text
//! berth_sdk::export!(MyPlugin: filter, score);
//! ```
//!
//! The simplest plugins implement [`NodePlugin`], one node at a time, and export [`PerNode`] of it. The feature `testing`
//! has a small cluster for a plugin's own tests.
//!
//! The SDK keeps the replica of the node table and the pods of open cycles, and answers the interfaces named there
//! through the plugin's traits. Build with `--target wasm32-unknown-unknown` and turn the module into a component with
//! `wasm-tools component new`.

extern crate self as berth_sdk;

mod convert;
mod exports;
mod guest;
mod host;
mod log;
mod per_node;
#[cfg(feature = "testing")]
pub mod testing;

#[doc(hidden)]
pub mod bindings;

pub use berth_framework as framework;
pub use berth_model as model;
pub use guest::{Guest, HasGuest};
pub use host::{count, now};
pub use log::{Level, log};
pub use per_node::{NodePlugin, NodeView, PerNode, PodView, spread};
#[doc(hidden)]
pub use wit_bindgen::rt;

/// Exports a plugin from this component: its type, which implements
/// [`Configure`](berth_framework::Configure), and the interfaces that it implements by their names in the contract,
/// with underscores: `pre_enqueue`, `queue_sort`, `pre_filter`, `filter`, `post_filter`, `pre_score`, `score`,
/// `normalize_score`, `reserve`, `permit`, `pre_bind`, `bind`, `post_bind`, `queueing_hint`, `sign`, `state`; and `sync` and `cycle`, for
/// a plugin that looks at nodes and for one that is called within a cycle.
#[macro_export]
macro_rules! export {
    ($plugin:ty: $($interface:ident),+ $(,)?) => {
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

        $crate::bindings::lifecycle::export!(BerthComponent with_types_in $crate::bindings::lifecycle);
        $($crate::bindings::$interface::export!(BerthComponent with_types_in $crate::bindings::$interface);)+
    };
}
