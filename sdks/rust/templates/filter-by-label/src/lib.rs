//! {{name}}: the argument `label` names a label. A pod with this label runs only on nodes with the same value of the label. A
//! pod without the label runs on any node.

use berth_sdk::{
    NodePlugin, NodeView, PerNode, PodView,
    framework::{ClusterEvent, ConfigureError, Needs, Status},
    model::Column,
};
use serde::Deserialize;

berth_sdk::export!(PerNode<{{name}}>: Filter);

/// The plugin's `pluginConfig`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Args {
    label: String,
}

/// The plugin, configured.
#[derive(Debug)]
pub struct {{name}} {
    label: String,
}

impl NodePlugin for {{name}} {
    const NAME: &'static str = "{{name}}";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Args = Args;

    fn needs() -> Needs {
        Needs { columns: [Column::Labels].into_iter().collect(), ..Needs::default() }
    }

    fn new(Args { label }: Args) -> Result<Self, ConfigureError> {
        if label.is_empty() {
            return Err(ConfigureError::new("label: must be the key of a label"));
        }
        Ok(Self { label })
    }

    /// The events that may make a rejected pod schedulable.
    fn events_to_register() -> Option<Vec<ClusterEvent>> {
        Some(vec![ClusterEvent::new("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_LABEL)])
    }

    fn filter(&self, pod: PodView<'_>, node: NodeView<'_>) -> Result<(), Status> {
        let label = &self.label;
        match pod.label(label) {
            Some(wanted) if node.label(label) != Some(wanted) => {
                Err(Status::unresolvable(format!("node(s) did not have the label {label}={wanted}")))
            }
            _ => Ok(()),
        }
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
    fn a_pod_runs_on_nodes_with_its_value() {
        let mut cluster = TestCluster::default();
        cluster.set_node(&node("a").label("example.com/pool", "fast").build());
        cluster.set_node(&node("b").label("example.com/pool", "slow").build());
        let pod = cluster.intern(&pod("p").label("example.com/pool", "fast").build());
        let mut plugin = PerNode::<{{name}}>::configure(r#"{"label": "example.com/pool"}"#).unwrap();
        let answers = cluster.ask(&mut plugin, &pod).unwrap();
        let reason = "node(s) did not have the label example.com/pool=fast";
        assert_eq!(answers.rejected["b"], Status::unresolvable(reason));
        assert!(!answers.rejected.contains_key("a"));
    }
}
