//! Tests of the scheduler with fake plugins and a fake API server.

#![expect(clippy::wildcard_enum_match_arm, reason = "tests look for one kind of action among all")]

mod asked_again;
mod batching;
mod device_shares;
mod extenders;
mod faults;
mod follow;
mod granted;
mod groups;
mod guide;
mod kit;
mod memory;
mod model;
mod not_bound;
mod occurrences;
mod permit;
mod placing;
mod pre_bind;
mod preemption;
mod reconfiguration;
mod searches;
mod shared_facts;
mod shares;
mod swap;
mod time;
mod timing;
mod tracing;
mod unlisted;
mod unreserve;
mod waiting;
