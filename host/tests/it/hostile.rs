//! Plugins that fault or ask for what they were not granted, each in a profile of its own beside a healthy one: what happens
//! to the pods of both and to the objects in the API server, and what the operator is shown.

mod bench;
mod effects;
mod faults;
mod files;
mod grants;
mod reads;
