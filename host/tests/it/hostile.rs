//! Plugins that mean harm, each in a profile of its own beside one that is well: what becomes of the pods of both, of the
//! objects in the API server, and what the operator is shown.

mod bench;
mod effects;
mod faults;
mod reads;
