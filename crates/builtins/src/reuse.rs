//! The hook Reuse of the built-in plugins. It says which answers about a node hold for later equivalent pods, until the
//! node's row is written.
//!
//! Plugins for volumes and devices are called for each pod with volumes or devices. PodTopologySpread is called for
//! each pod with constraints. InterPodAffinity (`inter_pod_affinity.rs`) is called for every pod once a pod on a node
//! has affinity terms about other pods.

use std::hash::{Hash, Hasher};

use berth_framework::{Call, Reach, Reuse};
use berth_model::Pod;
use rustc_hash::FxHasher;

use crate::{
    default_binder::DefaultBinder, dynamic_resources::DynamicResources, image_locality::ImageLocality,
    node_affinity::NodeAffinity, node_declared_features::NodeDeclaredFeatures, node_name::NodeName,
    node_ports::NodePorts, node_resources_balanced_allocation::NodeResourcesBalancedAllocation,
    node_resources_fit::NodeResourcesFit, node_unschedulable::NodeUnschedulable, node_volume_limits::NodeVolumeLimits,
    scheduling_gates::SchedulingGates, taint_toleration::TaintToleration, volume_binding::VolumeBinding,
    volume_restrictions::VolumeRestrictions, volume_zone::VolumeZone,
};

const ROW: Reach = Reach::Row { version: 0 };

/// Implements Reuse for plugins that compare the pod only with the node's row.
macro_rules! compare_with_row {
    ($($plugin:ident),* $(,)?) => {
        $(impl Reuse for $plugin {
            fn reach(&mut self, _call: &Call<'_>) -> Reach {
                ROW
            }
        })*
    };
}

compare_with_row!(NodeUnschedulable, TaintToleration, DefaultBinder);

/// Implements Reuse for plugins that read one part of the pod. The given reach is for pods that have this part.
macro_rules! with_part {
    ($($plugin:ident: $is_there:expr => $reach:expr, else $other:expr),* $(,)?) => {
        $(impl Reuse for $plugin {
            fn reach(&mut self, call: &Call<'_>) -> Reach {
                if ($is_there)(call.pod) { $reach } else { $other }
            }
        })*
    };
}

// With the gate StorageCapacityScoring, PreScore of VolumeBinding skips no pod, as in kube-scheduler. A pod without
// volumes scores 0 on every node.
with_part!(
    SchedulingGates: |pod: &Pod| !pod.scheduling_gates.is_empty() => Reach::Cluster, else Reach::Nothing,
    NodeName: |pod: &Pod| !pod.node_name.is_none() => ROW, else Reach::Nothing,
    NodePorts: |pod: &Pod| !pod.host_ports.is_empty() => ROW, else Reach::Nothing,
    NodeDeclaredFeatures: |pod: &Pod| !pod.required_features.is_empty() => ROW, else Reach::Nothing,
    DynamicResources: |pod: &Pod| !pod.resource_claims.is_empty() || !pod.extended_requests.is_empty() => Reach::Cluster,
        else Reach::Nothing,
    VolumeRestrictions: has_volumes => Reach::Cluster, else Reach::NothingAnywhere,
    NodeVolumeLimits: has_volumes => Reach::Cluster, else Reach::NothingAnywhere,
    VolumeBinding: has_volumes => Reach::Cluster, else Reach::Nothing,
    VolumeZone: has_volumes => Reach::Cluster, else Reach::Nothing,
);

fn has_volumes(pod: &Pod) -> bool {
    !pod.volumes.is_empty()
}

impl Reuse for NodeAffinity {
    fn reach(&mut self, call: &Call<'_>) -> Reach {
        if self.concerns(call.pod) { ROW } else { Reach::Nothing }
    }
}

impl Reuse for NodeResourcesFit {
    /// Device classes decide which of the pod's resources devices may serve.
    fn reach(&mut self, call: &Call<'_>) -> Reach {
        if self.scores_by_devices(call) {
            return Reach::Cluster;
        }
        Reach::Row { version: self.resources_of_devices(call) }
    }
}

impl Reuse for NodeResourcesBalancedAllocation {
    fn reach(&mut self, call: &Call<'_>) -> Reach {
        if self.scores_by_devices(call) { Reach::Cluster } else { ROW }
    }
}

impl Reuse for ImageLocality {
    /// The version depends on the number of nodes that have each image, and on the number of all nodes.
    fn reach(&mut self, call: &Call<'_>) -> Reach {
        let mut hasher = FxHasher::default();
        for name in &call.pod.images {
            Self::bytes_of(call.table, *name).hash(&mut hasher);
        }
        Reach::Row { version: hasher.finish() }
    }
}

#[cfg(test)]
mod tests {
    use berth_framework::Status;
    use berth_model::{
        NodeIdx, Sym,
        pod::{LabelSelector, PodAffinity, PodTerm, Resources},
    };
    use serde_json::json;

    use super::*;
    use crate::{built_in::BuiltIn, inter_pod_affinity::InterPodAffinity, testing::TestCluster};

    #[test]
    fn scores_of_images_hold_until_they_spread() {
        let mut cluster = TestCluster::default();
        let image = cluster.sym("web:latest");
        let pod = Pod { images: [image].into(), n_containers: 1, ..Pod::default() };
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
    fn a_plain_pod_is_no_matter_for_plugins_about_parts_that_it_lacks() {
        let mut cluster = TestCluster::default();
        cluster.edit_node("a", |_| ());
        let (pod, mut unconcerned) = (Pod::default(), Vec::new());
        let (call, nodes) = (cluster.call(1, &pod), cluster.call(1, &pod).table.nodes().clone());
        for factory in crate::factories() {
            let mut plugin = factory.build("null").unwrap();
            if !plugin.reach(&call).is_nothing() {
                continue;
            }
            unconcerned.push(factory.manifest().name.clone());
            let is_out = match plugin.pre_filter() {
                Some(point) => point.pre_filter(&call) == Err(Status::skip()),
                None => plugin.filter().is_none_or(|point| {
                    let mut passing = nodes.clone();
                    point.filter(&call, &mut passing).unwrap();
                    passing == nodes
                }),
            };
            let is_gated = plugin.pre_enqueue().is_some_and(|it| !it.pre_enqueue(&pod, call.table).is_success());
            let is_scored =
                plugin.pre_score().is_some_and(|point| point.pre_score(&call, &nodes) != Err(Status::skip()));
            let prepares =
                plugin.pre_bind_pre_flight().is_some_and(|it| it.pre_bind_pre_flight(&call, NodeIdx(0)).is_ok());
            assert!(is_out && !is_gated && !is_scored && !prepares, "{unconcerned:?}");
        }
        unconcerned.sort_unstable();
        let expected = "DynamicResources InterPodAffinity NodeAffinity NodeDeclaredFeatures NodeName NodePorts \
                        NodeVolumeLimits PodTopologySpread SchedulingGates VolumeBinding VolumeRestrictions VolumeZone";
        assert_eq!(unconcerned.join(" "), expected);
    }

    #[test]
    fn pods_on_nodes_that_say_nothing_of_others_leave_inter_pod_affinity_out() {
        let mut cluster = TestCluster::default();
        let node = cluster.edit_node("a", |_| ());
        let mut plugin = InterPodAffinity::new("null").unwrap();
        let term = PodTerm {
            namespaces: vec![Sym::NONE],
            selector: Some(LabelSelector::default()),
            topology_key: Sym::HOSTNAME_LABEL,
            ..PodTerm::default()
        };
        let apart = PodAffinity { anti_required: [term].into(), ..PodAffinity::default() };
        let (plain, apart) = (Pod::default(), Pod { affinity: apart, ..Pod::default() });
        assert_eq!(plugin.reach(&cluster.call(1, &apart)), Reach::Cluster);
        cluster.place(node, plain.clone());
        assert_eq!(plugin.reach(&cluster.call(2, &plain)), Reach::NothingYet);
        let uid = cluster.place(node, apart);
        assert_eq!(plugin.reach(&cluster.call(3, &plain)), Reach::Cluster);
        cluster.remove_pod(&uid);
        assert_eq!(plugin.reach(&cluster.call(4, &plain)), Reach::NothingYet);
    }

    #[test]
    fn verdicts_on_resources_hold_until_devices_serve_them() {
        let mut cluster = TestCluster::default();
        let gpu = cluster.sym("example.com/gpu");
        let pod = Pod { requests: Resources { scalars: [(gpu, 1)].into(), ..Resources::default() }, ..Pod::default() };
        let mut plugin = NodeResourcesFit::new("null").unwrap();
        let before = plugin.reach(&cluster.call(1, &pod));
        cluster.set_object(&json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
            "metadata": {"name": "gpus"}, "spec": {"extendedResourceName": "example.com/gpu"}}));
        assert_ne!(plugin.reach(&cluster.call(2, &pod)), before);
    }
}
