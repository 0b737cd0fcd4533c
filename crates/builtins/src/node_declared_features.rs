//! NodeDeclaredFeatures: a pod that relies on a kubelet feature runs only where the node declares it.

use berth_framework::{Call, ClusterEvent, ConfigureError, DryRunCase, Explanation, Filter, Point, PreFilter, Status};
use berth_model::{Column, NodeIdx, NodeSet, Pod};

use crate::{
    args::{self, NoArgs},
    built_in::{BuiltIn, Card, plugin},
    node_check::{dry_run_each, explain_each, pass_or},
};

/// Compares the features that the pod's spec implies with `status.declaredFeatures`.
#[derive(Debug, Default)]
pub struct NodeDeclaredFeatures;

impl BuiltIn for NodeDeclaredFeatures {
    const CARD: Card = Card {
        name: "NodeDeclaredFeatures",
        points: &[Point::PreFilter, Point::Filter, Point::Sign],
        columns: &[Column::DeclaredFeatures],
        requeue: &[
            ("Node", ClusterEvent::ADD | ClusterEvent::UPDATE_NODE_DECLARED_FEATURE),
            ("Node", ClusterEvent::UPDATE_NODE_TAINT),
            ("Pod", ClusterEvent::UPDATE),
        ],
        ..Card::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        args::parse::<NoArgs>(Self::NAME, args)?;
        Ok(Self)
    }
}

plugin!(NodeDeclaredFeatures { pre_filter: PreFilter, filter: Filter, sign: Sign });

fn has_features(call: &Call<'_>, node: NodeIdx) -> bool {
    let declared = call.table.declared_features(node);
    call.pod.required_features.iter().all(|feature| declared.contains(feature))
}

fn check(call: &Call<'_>, node: NodeIdx) -> Status {
    pass_or(has_features(call, node), || Status::unresolvable("node(s) didn't match Pod's required features"))
}

impl PreFilter for NodeDeclaredFeatures {
    fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
        if call.pod.required_features.is_empty() { Err(Status::skip()) } else { Ok(None) }
    }
}

impl Filter for NodeDeclaredFeatures {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        candidates.retain(|node| has_features(call, node));
        Ok(())
    }

    fn explain(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<Explanation>, Status> {
        Ok(explain_each(rejected, |node| check(call, node)))
    }

    fn dry_run(&mut self, call: &Call<'_>, _pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        Ok(dry_run_each(cases, |node| check(call, node)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Cluster, verdicts};

    #[test]
    fn all_required_features_must_be_declared() {
        let mut cluster = Cluster::default();
        let (a, b) = (cluster.sym("FeatureA"), cluster.sym("FeatureB"));
        cluster.node("none", |_| ());
        cluster.node("one", |node| node.declared_features = vec![b]);
        cluster.node("both", |node| node.declared_features = vec![b, a]);
        let mut pod = cluster.pod();
        assert_eq!(NodeDeclaredFeatures.pre_filter(&cluster.call(&pod)), Err(Status::skip()));
        pod.required_features = vec![a, b];
        let rejected = "UnschedulableAndUnresolvable: node(s) didn't match Pod's required features";
        assert_eq!(verdicts(&mut NodeDeclaredFeatures, &cluster, &pod), [rejected, rejected, ""]);
    }
}
