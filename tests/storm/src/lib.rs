//! The common parts of `swap-storm` and `soak`: the two processes, a stream of pods, and swaps of plugins' binaries.

#![expect(clippy::print_stdout, reason = "the result")]

mod figures;
mod processes;
mod stream;
mod swaps;

pub use figures::{Buckets, ClientView, Histogram, Mark, Phase, percentile};
pub use processes::Processes;
pub use stream::{Finished, Moment, PodStream};
pub use swaps::Swaps;
