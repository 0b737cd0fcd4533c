//! Plugins that fault or ask for things that they were not granted, each in a separate profile beside a healthy
//! profile. The tests check the pods of both profiles, the objects in the API server, and what the operator sees.
//! `connections` tests clients of the endpoints instead.

pub(crate) mod bench;
mod connections;
mod effects;
mod faults;
mod files;
mod floods;
mod grants;
mod reads;
pub(crate) mod selectors;
mod start;
mod time;
