//! A cluster in memory, for the tests of all crates and of plugin authors: no wasm, no scheduler, no API server.
//!
//! [`TestCluster`] keeps nodes, pods and other objects in the scheduler's own cache, so that a test sees the same table
//! as plugins. [`node`] and [`pod`] make the usual objects in one line; any other JSON is also possible.
//! [`TestCluster::ask`] calls a plugin in the same way as the scheduler.
//!
//! ```
//! use berth_testing::{TestCluster, node, pod};
//!
//! let mut cluster = TestCluster::default();
//! cluster.set_node(&node("a").label("zone", "west").allocatable("cpu", "4").build());
//! cluster.set_pod(&pod("web").on("a").request("cpu", "1").build())?;
//! assert_eq!(cluster.table().pods().n_pods(), 1);
//! # Ok::<(), berth_cache::Inconsistency>(())
//! ```

mod answers;
mod makers;
mod test_cluster;

pub use answers::{Answers, Scores, ask, ask_about, filter, score};
// The error of `TestCluster::set_pod`. The error is exported so that callers need not know the cache.
pub use berth_cache::Inconsistency;
pub use makers::{NodeMaker, PodMaker, node, pod};
pub use test_cluster::TestCluster;
