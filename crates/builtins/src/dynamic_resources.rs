//! DynamicResources: devices for pods, by structured parameters.

#![expect(dead_code, reason = "the plugin that calls these modules comes next")]

mod allocator;
mod capacity;
mod cel;
mod claim_state;
mod in_use;
mod objects;
mod pools;
mod slices;
