//! A cluster in memory for a plugin's own tests: no wasm, no scheduler, no API server. Berth tests its own plugins with it.
//!
//! ```text
//! let mut cluster = TestCluster::default();
//! cluster.set_node(&node("a").label("disk", "ssd").build());
//! cluster.set_pod(&pod("web").on("a").build())?;
//! let pod = cluster.intern(&pod("p").build());
//! let answers = cluster.ask(&mut plugin, &pod)?;
//! assert_eq!(answers.scores["a"], 100);
//! ```
//!
//! [`node`] and [`pod`] make the usual objects. [`TestCluster::set_object`] adds an object of another kind, as JSON.

pub use berth_testing::{Answers, Inconsistency, NodeMaker, PodMaker, TestCluster, node, pod};
