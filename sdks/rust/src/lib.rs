//! The guest side of the plugin contract, for plugins written in Rust.
//!
//! A plugin implements [`Configure`](framework::Configure) and the traits of its extension points, from
//! [`berth_framework`] (re-exported as [`framework`]). It lists these traits, and is exported:
//!
//! ```text
//! berth_sdk::plugin!(MyPlugin: Filter, Score);
//! berth_sdk::export!(MyPlugin);
//! ```
//!
//! The simplest plugins implement [`NodePlugin`], which handles one node at a time, and export a [`PerNode`] of it. The
//! feature `testing` has a cluster in memory for a plugin's own tests.
//!
//! The SDK keeps the replica of the node table and the pods of open cycles, and answers the exported interfaces through
//! the plugin's traits. Build with `--target wasm32-unknown-unknown` and turn the module into a component with
//! `wasm-tools component new`.

extern crate self as berth_sdk;

mod args;
mod convert;
mod exports;
mod guest;
mod host;
mod interfaces;
mod log;
mod objects;
mod per_node;
#[cfg(feature = "testing")]
pub mod testing;

#[doc(hidden)]
pub mod bindings;

pub use args::decode_args;
pub use berth_framework as framework;
pub use berth_framework::plugin;
pub use berth_model as model;
pub use guest::{Guest, HasGuest};
pub use host::{count, now};
pub use log::{Level, log};
pub use objects::refresh_view;
pub use per_node::{ExportedPoints, NodePlugin, NodeView, PerNode, PodView, spread};
#[doc(hidden)]
pub use wit_bindgen::rt;

/// Exports a plugin from this component, with the interfaces of the contract that it implements.
///
/// ```text
/// berth_sdk::plugin!(QosSort: QueueSort);
/// berth_sdk::export!(QosSort);
/// ```
///
/// [`plugin!`] has named the points that the plugin's type implements. [`PerNode`] of a node plugin has not, and names
/// its extension points here, which are Filter, Score, Normalize and Explain or some of these:
///
/// ```text
/// berth_sdk::export!(PerNode<AvoidZone>: Filter, Score);
/// ```
///
/// `cycle` is exported with the points that are called within a cycle, and `sync` with those that read nodes, from
/// PreFilter to Normalize. A plugin without these points may still read columns, pods, objects or labels. It then
/// requests its replica: `berth_sdk::export!(MyPermit, sync);`.
#[macro_export]
macro_rules! export {
    ($($part:ident)::+ $(, $sync:ident)?) => {
        $($part)::+! { $crate::export_interfaces, ($($part)::+), ($($sync)?) }
    };
    ($($per_node:ident)::+ <$plugin:ty>: $($point:ident),+ $(,)?) => {
        $($crate::of_node_plugin!($point);)+

        impl $crate::ExportedPoints for $plugin {
            const POINTS: $crate::framework::Points =
                $crate::framework::Points::of(&[$($crate::framework::Point::$point),+]);
        }

        $crate::export_interfaces! { ($($per_node)::+ <$plugin>) () [$($point)+] }
    };
}
