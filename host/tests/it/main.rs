//! Tests of the `berth` binary from outside: processes, their output, and the objects in the API server.
//!
//! `process` starts and ends processes. `cluster` has a sandbox with a scheduler, and records where each pod was seen.
//! The other modules are the tests. No test waits for a fixed time: tests wait for lines, watches and endpoints, each
//! with a deadline that only a fault reaches.

#![expect(clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "a test ends where its footing is gone")]

mod alerts;
mod audit_log;
mod author;
mod author_templates;
mod bad_input;
mod bench;
mod bundle;
mod cache_dump;
mod chromium;
mod cluster;
mod collector;
mod coordinated_election;
mod crash;
mod cut_over;
mod demo;
mod devices;
mod doctor;
mod documentation;
mod explain;
mod extenders;
mod extenders_https;
mod faults;
mod forbidden_kinds;
mod hostile;
mod hot_swap;
mod https;
mod journey;
mod kubectl;
mod leader_election;
mod log_lines;
mod metrics;
mod page;
mod plugin_life;
mod plugin_orders;
mod plugin_settings;
mod plugin_state;
mod preemption;
mod process;
mod profiles;
mod provenance;
mod rbac;
mod releases;
mod reload;
mod request_rate;
mod reviewer;
mod simulate;
mod traces;
mod volumes;
mod watched_kinds;
mod what_if;
