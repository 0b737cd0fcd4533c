//! {{name}}: keeps pods out of one zone, and prefers nodes that are not cordoned.

use berth_sdk::{
    NodePlugin, NodeView, PerNode, PodView,
    framework::{ClusterEvent, ConfigureError, Needs, Status},
    model::Column,
};
use serde::Deserialize;

berth_sdk::export!(PerNode<{{name}}>: Filter, Score);

/// The plugin's `pluginConfig`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Args {
    /// The zone to stay out of.
    avoid: Option<String>,
}

/// The plugin, configured.
#[derive(Debug)]
pub struct {{name}} {
    args: Args,
}

impl NodePlugin for {{name}} {
    const NAME: &'static str = "{{name}}";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Args = Args;

    /// What the scheduler keeps in step for this plugin: a column that is not named here reads as empty.
    fn needs() -> Needs {
        Needs { columns: [Column::Labels, Column::Unschedulable].into_iter().collect(), ..Needs::default() }
    }

    /// The events that may make a rejected pod schedulable. Without this method, the pod is retried after every event.
    fn events_to_register() -> Option<Vec<ClusterEvent>> {
        Some(vec![ClusterEvent::new("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_LABEL)])
    }

    fn new(args: Args) -> Result<Self, ConfigureError> {
        Ok(Self { args })
    }

    fn filter(&self, _pod: PodView<'_>, node: NodeView<'_>) -> Result<(), Status> {
        match (node.label("topology.kubernetes.io/zone"), &self.args.avoid) {
            (Some(zone), Some(avoided)) if zone == avoided => {
                Err(Status::unresolvable(format!("node(s) were in the zone {zone}")))
            }
            _ => Ok(()),
        }
    }

    /// 0 to 100.
    fn score(&self, _pod: PodView<'_>, node: NodeView<'_>) -> i64 {
        if node.is_unschedulable() { 0 } else { 100 }
    }
}

#[cfg(test)]
mod tests {
    use berth_sdk::{
        framework::Configure,
        testing::{TestCluster, node, pod},
    };

    use super::*;

    #[test]
    fn the_avoided_zone_is_left_out() {
        let mut cluster = TestCluster::default();
        cluster.set_node(&node("a").label("topology.kubernetes.io/zone", "east").build());
        cluster.set_node(&node("b").label("topology.kubernetes.io/zone", "west").build());
        cluster.set_node(&node("c").unschedulable().build());
        let pod = cluster.intern(&pod("p").build());
        let mut plugin = PerNode::<{{name}}>::configure(r#"{"avoid": "west"}"#).unwrap();
        let answers = cluster.ask(&mut plugin, &pod).unwrap();
        assert_eq!((answers.scores["a"], answers.scores["c"]), (100, 0));
        assert_eq!(answers.rejected["b"], Status::unresolvable("node(s) were in the zone west"));
    }
}
