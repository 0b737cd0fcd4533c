//! Functions that tests need to control the `berth` binary, and other programs, from outside.
//!
//! Nothing waits for a fixed time: callers wait for lines, answers and states, each with a [`DEADLINE`] that is only
//! reached after a fault. A shorter limit is measured with [`within`]. A [`Process`] is killed when it is dropped.

mod endpoints;
mod process;
mod scheduler;
mod waiting;

pub use endpoints::{AdminSocket, Endpoints, free_addresses};
pub use process::{Ended, Process};
pub use scheduler::{CONFINED, Scheduler, berth, berth_scheduler, beside, scheduler_command};
pub use waiting::{DEADLINE, interruptible, until, within};
