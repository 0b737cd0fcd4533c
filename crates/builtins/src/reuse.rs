//! Which plugins' answers about a node hold for later pods that are alike, until the node's row is written.
//!
//! Plugins that look at other pods, at volumes or at devices are not among them: they are asked about each pod.

use std::hash::{Hash, Hasher};

use berth_framework::{Call, Reach, Reuse};
use rustc_hash::FxHasher;

use crate::{
    dynamic_resources::DynamicResources, image_locality::ImageLocality, node_affinity::NodeAffinity,
    node_declared_features::NodeDeclaredFeatures, node_name::NodeName, node_ports::NodePorts,
    node_resources_balanced_allocation::NodeResourcesBalancedAllocation, node_resources_fit::NodeResourcesFit,
    node_unschedulable::NodeUnschedulable, taint_toleration::TaintToleration,
};

/// Implements Reuse for plugins that compare the pod with the node's row and look at nothing else.
macro_rules! compare_with_row {
    ($($plugin:ident),* $(,)?) => {
        $(impl Reuse for $plugin {
            fn reach(&mut self, _call: &Call<'_>) -> Reach {
                Reach::Row { version: 0 }
            }
        })*
    };
}

compare_with_row!(
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeDeclaredFeatures,
    NodeResourcesBalancedAllocation,
);

impl Reuse for NodeResourcesFit {
    /// Device classes decide which of the pod's resources devices may serve.
    fn reach(&mut self, call: &Call<'_>) -> Reach {
        Reach::Row { version: self.resources_of_devices(call) }
    }
}

impl Reuse for ImageLocality {
    /// How many nodes have an image counts, and how many nodes there are.
    fn reach(&mut self, call: &Call<'_>) -> Reach {
        let mut hasher = FxHasher::default();
        for name in &call.pod.images {
            Self::bytes_of(call.table, *name).hash(&mut hasher);
        }
        Reach::Row { version: hasher.finish() }
    }
}

impl Reuse for DynamicResources {
    /// To a pod without claims all nodes are the same.
    fn reach(&mut self, call: &Call<'_>) -> Reach {
        let needs_devices = !call.pod.resource_claims.is_empty() || !call.pod.extended_requests.is_empty();
        if needs_devices { Reach::Cluster } else { Reach::Row { version: 0 } }
    }
}

#[cfg(test)]
mod tests {
    use berth_model::{Pod, pod::Resources};
    use serde_json::json;

    use super::*;
    use crate::{built_in::BuiltIn, testing::TestCluster};

    #[test]
    fn scores_of_images_hold_until_they_spread() {
        let mut cluster = TestCluster::default();
        let image = cluster.sym("web:latest");
        let pod = Pod { images: vec![image], n_containers: 1, ..Pod::default() };
        let reach = |cluster: &TestCluster| ImageLocality.reach(&cluster.call(1, &pod));
        cluster.edit_node("a", |node| node.images = vec![(image, 1 << 30)]);
        cluster.edit_node("b", |_| ());
        let before = reach(&cluster);
        cluster.edit_node("b", |node| node.unschedulable = true);
        assert_eq!(reach(&cluster), before);
        cluster.edit_node("b", |node| node.images = vec![(image, 1 << 30)]);
        assert_ne!(reach(&cluster), before);
        let on_all = reach(&cluster);
        cluster.edit_node("c", |_| ());
        assert_ne!(reach(&cluster), on_all);
    }

    #[test]
    fn verdicts_on_resources_hold_until_devices_serve_them() {
        let mut cluster = TestCluster::default();
        let gpu = cluster.sym("example.com/gpu");
        let pod = Pod { requests: Resources { scalars: vec![(gpu, 1)], ..Resources::default() }, ..Pod::default() };
        let mut plugin = NodeResourcesFit::new("null").unwrap();
        let before = plugin.reach(&cluster.call(1, &pod));
        cluster.set_object(&json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
            "metadata": {"name": "gpus"}, "spec": {"extendedResourceName": "example.com/gpu"}}));
        assert_ne!(plugin.reach(&cluster.call(2, &pod)), before);
    }
}
