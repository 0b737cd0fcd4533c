//! NodeDeclaredFeatures: a pod that needs features of the kubelet runs only on nodes that declare them (KEP-5328).

use berth_framework::{Call, ClusterEvent, ConfigureError, EventSubject, HintCall, PreFilter, QueueingHint, Status};
use berth_model::{Column, NodeIdx, NodeSet};

use crate::{
    args::{self, NoArgs},
    built_in::{BuiltIn, Descriptor, plugin},
    hints,
    node_check::{NodeRule, filter_by_node, pass_or},
};

/// Compares the features that the pod's spec requires with `status.declaredFeatures`.
#[derive(Debug, Default)]
pub struct NodeDeclaredFeatures;

impl BuiltIn for NodeDeclaredFeatures {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "NodeDeclaredFeatures",
        columns: &[Column::DeclaredFeatures],
        events_to_register: &[
            ("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_DECLARED_FEATURE),
            ("Pod", ClusterEvent::UPDATE),
        ],
        ..Descriptor::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        args::parse::<NoArgs>(Self::NAME, args)?;
        Ok(Self)
    }
}

plugin!(NodeDeclaredFeatures: PreFilter, Filter, QueueingHint, Sign; Reuse);

fn has_features(call: &Call<'_>, node: NodeIdx) -> bool {
    let declared = call.table.declared_features(node);
    call.pod.required_features.iter().all(|feature| declared.contains(feature))
}

impl PreFilter for NodeDeclaredFeatures {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        if call.pod.required_features.is_empty() { Err(Status::skip()) } else { Ok(None) }
    }
}

filter_by_node!(NodeDeclaredFeatures);

impl NodeRule for NodeDeclaredFeatures {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) {
        candidates.retain(|node| has_features(call, node));
    }

    fn check(&mut self, call: &Call<'_>) -> impl FnMut(NodeIdx) -> Status {
        move |node| {
            pass_or(has_features(call, node), || Status::unresolvable("node(s) didn't match Pod's required features"))
        }
    }
}

impl QueueingHint for NodeDeclaredFeatures {
    /// Whether the features that a node declares or the features that the pod requires changed.
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool {
        match call.subject {
            EventSubject::Node { old: Some(old), new: Some(new) } => old.declared_features != new.declared_features,
            EventSubject::Pod { old: Some(old), new: Some(new) } => {
                hints::is_own_update(call) && old.required_features != new.required_features
            }
            EventSubject::Node { .. }
            | EventSubject::Pod { .. }
            | EventSubject::Object { .. }
            | EventSubject::Hidden => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_model::{Features, Pod, Release};
    use serde_json::json;

    use super::*;
    use crate::testing::{TestCluster, verdicts};

    #[test]
    fn all_required_features_must_be_declared() {
        let mut cluster = TestCluster::default();
        let (a, b) = (cluster.sym("FeatureA"), cluster.sym("FeatureB"));
        cluster.edit_node("none", |_| ());
        cluster.edit_node("one", |node| node.declared_features = vec![b]);
        cluster.edit_node("both", |node| node.declared_features = vec![b, a]);
        let mut pod = Pod::default();
        assert_eq!(NodeDeclaredFeatures.pre_filter(&cluster.call(1, &pod)), Err(Status::skip()));
        pod.required_features = [a, b].into();
        let rejected = "UnschedulableAndUnresolvable: node(s) didn't match Pod's required features";
        assert_eq!(verdicts(&mut NodeDeclaredFeatures, &cluster, &pod), [rejected, rejected, ""]);
    }

    /// KEP-5855: options for the bind mounts of a container need a kubelet that supports these options.
    #[test]
    fn options_of_bind_mounts_require_a_feature_from_1_37_on() {
        let mounted = |options: serde_json::Value, features| {
            let mut cluster = TestCluster::default();
            let feature = cluster.sym("VolumeBindMountOptions");
            cluster.edit_node("old", |_| ());
            cluster.edit_node("new", |node| node.declared_features = vec![feature]);
            let plain = json!({"name": "plain", "mountPath": "/a", "readOnly": true});
            let mounts = json!([plain, {"name": "data", "mountPath": "/b", "bindMountOptions": options}]);
            let pod =
                json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "volumeMounts": mounts}]}});
            cluster.set_features(features);
            let pod = cluster.intern(&serde_json::from_value(pod).unwrap());
            let is_asked = NodeDeclaredFeatures.pre_filter(&cluster.call(1, &pod)).is_ok();
            is_asked.then(|| verdicts(&mut NodeDeclaredFeatures, &cluster, &pod))
        };
        let rejected = "UnschedulableAndUnresolvable: node(s) didn't match Pod's required features";
        let [old, new] = Release::ALL.map(Features::of);
        assert_eq!(mounted(json!(["noexec"]), old), None);
        assert_eq!(mounted(json!(["noexec"]), new), Some(vec![rejected.to_owned(), String::new()]));
        assert_eq!(mounted(json!(null), new), None, "no options, no feature");
    }
}
