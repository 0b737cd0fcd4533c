//! GpuBinPack: pods that want GPUs go to the nodes with the fewest free GPUs, so that whole nodes stay free for large
//! jobs. Pods that want no GPUs avoid nodes with GPUs.
//!
//! The plugin has one argument: `resource`, which is `nvidia.com/gpu` by default.

use berth_sdk::{
    NodePlugin, NodeView, PerNode, PodView,
    framework::{ConfigureError, Needs},
    model::Column,
};
use serde::Deserialize;

berth_sdk::export!(PerNode<GpuBinPack>: Score, Explain);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Args {
    resource: String,
}

impl Default for Args {
    fn default() -> Self {
        Self { resource: "nvidia.com/gpu".to_owned() }
    }
}

/// The plugin, configured.
#[derive(Debug)]
pub struct GpuBinPack {
    args: Args,
}

impl NodePlugin for GpuBinPack {
    const NAME: &'static str = "GpuBinPack";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Args = Args;

    fn needs() -> Needs {
        Needs { columns: [Column::Allocatable, Column::Requested].into_iter().collect(), ..Needs::default() }
    }

    fn new(args: Args) -> Result<Self, ConfigureError> {
        if args.resource.is_empty() {
            return Err("resource: must be the name of a resource, such as nvidia.com/gpu".into());
        }
        Ok(Self { args })
    }

    /// The share of the node's GPUs that is in use after the pod was placed, in percent.
    fn score(&self, pod: PodView<'_>, node: NodeView<'_>) -> i64 {
        let resource = &self.args.resource;
        let (wanted, total) = (pod.request(resource), node.allocatable(resource));
        match (wanted, total) {
            (0, 0) => 100,
            (0, _) | (_, 0) => 0,
            _ => (100 * (node.requested(resource) + wanted) / total).clamp(0, 100),
        }
    }

    fn explain(&self, pod: PodView<'_>, node: Option<NodeView<'_>>) -> String {
        let resource = &self.args.resource;
        let Some(node) = node else {
            return match pod.request(resource) {
                0 => format!("it requests no {resource}, so nodes without are best"),
                wanted => format!("it requests {wanted} {resource}, so the node with the fewest left is best"),
            };
        };
        match node.allocatable(resource) {
            0 => format!("the node has no {resource}"),
            total => format!("{} of its {total} {resource} are taken", node.requested(resource)),
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_sdk::{
        framework::Configure,
        model::Pod,
        testing::{NodeMaker, TestCluster, node, pod},
    };

    use super::*;

    const GPU: &str = "nvidia.com/gpu";

    fn gpu_node(name: &str, gpus: &str) -> NodeMaker {
        node(name).allocatable(GPU, gpus)
    }

    /// The scores in the order of the nodes' names.
    fn scores(plugin: &mut PerNode<GpuBinPack>, cluster: &mut TestCluster, pod: &Pod) -> Vec<i64> {
        cluster.ask(plugin, pod).unwrap().scores.into_values().collect()
    }

    #[test]
    fn the_fullest_node_that_fits_is_best() {
        let mut cluster = TestCluster::default();
        for (name, gpus) in [("empty", "8"), ("half", "8"), ("none", "0")] {
            cluster.set_node(&gpu_node(name, gpus).build());
        }
        cluster.set_pod(&pod("there").on("half").request(GPU, "4").build()).unwrap();
        let mut plugin = PerNode::<GpuBinPack>::configure("null").unwrap();
        let wants_two = cluster.intern(&pod("p").request(GPU, "2").build());
        assert_eq!(scores(&mut plugin, &mut cluster, &wants_two), [25, 75, 0]);
        let wants_none = cluster.intern(&pod("q").build());
        assert_eq!(scores(&mut plugin, &mut cluster, &wants_none), [0, 0, 100]);
    }

    #[test]
    fn a_resource_without_a_name_is_refused() {
        let refused = PerNode::<GpuBinPack>::configure(r#"{"resource": ""}"#).unwrap_err();
        assert_eq!(refused.to_string(), "resource: must be the name of a resource, such as nvidia.com/gpu");
    }
}
