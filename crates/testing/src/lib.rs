//! A cluster in memory, for the tests of all crates and of plugin authors: no wasm, no scheduler, no API server.
//!
//! [`TestCluster`] keeps nodes, pods and other objects in the scheduler's own cache, so that a test sees the table that
//! plugins see. [`node`] and [`pod`] write the usual objects in a line; any other JSON will do as well.
//! [`TestCluster::ask`] calls a plugin as the scheduler does.
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

pub use answers::{Answers, Scores, ask, filter, score};
// What `TestCluster::set_pod` fails with: its callers need not know the cache.
pub use berth_cache::Inconsistency;
pub use makers::{NodeMaker, PodMaker, node, pod};
pub use test_cluster::TestCluster;
