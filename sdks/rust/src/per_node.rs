//! The simple way to write a plugin: it gets a pod and a node, and answers yes or no, or a score.
//!
//! A [`NodePlugin`] sees one node at a time and never a bitmap. [`PerNode`] turns it into a plugin of the contract: it
//! asks the plugin about every candidate, answers `node_to_status` by asking again, and `dry-run` by showing the node
//! as it would be. The simple style needs one call for each node. A rule for thousands of nodes that matters for the
//! throughput is better written with the traits of [`crate::framework`], over columns.

pub(crate) mod declared;
mod view;

use berth_framework::{
    Call, ClusterEvent, Configure, ConfigureError, DryRunCase, Explain, Filter, Manifest, Needs, Normalize, Plugin,
    PluginVersion, Point, PointRef, Points, RejectedNodes, Score, Status,
};
use berth_model::{NodeIdx, NodeSet, Pod};
use serde::de::DeserializeOwned;

use crate::args::decode_args;

pub use self::view::{NodeView, PodView};

/// A plugin that handles one node at a time.
pub trait NodePlugin: Sized + Send + 'static {
    /// The name by which profiles refer to the plugin. Its file has the same name, with `.wasm`.
    const NAME: &'static str;
    /// The version, for people.
    const VERSION: &'static str;
    /// The plugin's `pluginConfig`. Use `#[serde(deny_unknown_fields)]`, so that a misspelt field is refused, and
    /// `#[serde(default)]` for fields that may be left out.
    type Args: DeserializeOwned;

    /// The data that [`NodeView`] needs. A column that is not in this list is always empty.
    fn needs() -> Needs;

    /// A plugin configured with the profile's arguments.
    ///
    /// # Errors
    /// The error says why these arguments are refused.
    fn new(args: Self::Args) -> Result<Self, ConfigureError>;

    /// The events after which a pod that [`Self::filter`] rejected may become schedulable; `None` means any event.
    fn events_to_register() -> Option<Vec<ClusterEvent>> {
        None
    }

    /// Whether the node may run the pod.
    ///
    /// # Errors
    /// The reason why the node may not run the pod: [`Status::unschedulable`] if evicting pods from the node could
    /// help, and [`Status::unresolvable`] if it could not.
    fn filter(&self, pod: PodView<'_>, node: NodeView<'_>) -> Result<(), Status> {
        let _ = (pod, node);
        Ok(())
    }

    /// The score of the node for the pod: 0 to 100, or any number if the plugin exports `Normalize`.
    fn score(&self, pod: PodView<'_>, node: NodeView<'_>) -> i64 {
        let _ = (pod, node);
        0
    }

    /// Brings the scores of all candidates into the range 0 to 100. By default, the lowest becomes 0 and the highest
    /// 100. The plugin must export `Normalize`.
    fn normalize(&self, scores: &mut [i64]) {
        spread(scores);
    }

    /// What the plugin says to a user that asks why the pod is on its node or waits: about the node, or about the pod
    /// as a whole. One line of at most 1024 bytes; an empty text says nothing. The plugin must export `Explain`.
    fn explain(&self, pod: PodView<'_>, node: Option<NodeView<'_>>) -> String {
        let _ = (pod, node);
        String::new()
    }
}

/// The extension points of a [`NodePlugin`]. The macro [`export!`](crate::export) implements this trait, so that the
/// plugin has the same points in its own tests as in its component.
#[diagnostic::on_unimplemented(
    message = "the node plugin `{Self}` is not exported",
    note = "name its extension points, as in `berth_sdk::export!(PerNode<{Self}>: Filter, Score);`"
)]
pub trait ExportedPoints {
    /// The points that the component exports.
    const POINTS: Points;
}

/// Spreads scores evenly over 0 to 100. Equal ones all become 0.
pub fn spread(scores: &mut [i64]) {
    let (Some(&low), Some(&high)) = (scores.iter().min(), scores.iter().max()) else { return };
    let span = i128::from(high) - i128::from(low);
    for score in scores {
        let above = i128::from(*score) - i128::from(low);
        *score = if span == 0 { 0 } else { i64::try_from(above * 100 / span).unwrap_or(100) };
    }
}

/// A [`NodePlugin`] in the form of the contract: `berth_sdk::export!(PerNode<MyPlugin>: Filter, Score);`.
#[derive(Debug)]
pub struct PerNode<P> {
    plugin: P,
    manifest: Manifest,
}

impl<P: NodePlugin + ExportedPoints> Configure for PerNode<P> {
    fn describe() -> Manifest {
        Manifest {
            name: P::NAME.to_owned(),
            version: P::VERSION.to_owned(),
            needs: P::needs(),
            events_to_register: P::events_to_register(),
            ..Manifest::default()
        }
    }

    fn configure(args: &str) -> Result<Self, ConfigureError> {
        Ok(Self { plugin: P::new(decode_args(args)?)?, manifest: Self::describe() })
    }
}

impl<P: NodePlugin + ExportedPoints> Plugin for PerNode<P> {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn version(&self) -> PluginVersion {
        PluginVersion::native(&self.manifest)
    }

    fn points(&self) -> Points {
        P::POINTS
    }

    fn at(&mut self, point: Point) -> Option<PointRef<'_>> {
        if !P::POINTS.contains(point) {
            return None;
        }
        match point {
            Point::Filter => Some(PointRef::Filter(self)),
            Point::Score => Some(PointRef::Score(self)),
            Point::Normalize => Some(PointRef::Normalize(self)),
            Point::Explain => Some(PointRef::Explain(self)),
            Point::PreEnqueue
            | Point::QueueSort
            | Point::PreFilter
            | Point::PostFilter
            | Point::PreScore
            | Point::Reserve
            | Point::Permit
            | Point::PreBindPreFlight
            | Point::PreBind
            | Point::Bind
            | Point::PostBind
            | Point::QueueingHint
            | Point::Sign => None,
        }
    }

    berth_framework::hooks!();
}

impl<P: NodePlugin> PerNode<P> {
    fn verdict(&self, call: &Call<'_>, node: NodeView<'_>) -> Status {
        self.plugin.filter(PodView::new(call, &self.manifest.needs), node).err().unwrap_or_else(Status::success)
    }

    fn node<'a>(&'a self, call: &Call<'a>, node: NodeIdx) -> NodeView<'a> {
        NodeView::new(call.table, &self.manifest.needs, node)
    }
}

impl<P: NodePlugin> Filter for PerNode<P> {
    fn filter(&mut self, call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
        candidates.retain(|node| self.verdict(call, self.node(call, node)).is_success());
        Ok(())
    }

    fn node_to_status(&mut self, call: &Call<'_>, rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
        let mut groups: Vec<RejectedNodes> = Vec::new();
        for node in rejected.iter() {
            let status = self.verdict(call, self.node(call, node));
            match groups.iter_mut().find(|group| group.status == status) {
                Some(group) => group.nodes.insert(node),
                None => groups.push(RejectedNodes { status, nodes: NodeSet::from_iter([node]) }),
            }
        }
        Ok(groups)
    }

    fn dry_run(&mut self, call: &Call<'_>, pods: &[&Pod], cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
        Ok(cases.iter().map(|case| self.verdict(call, self.node(call, case.node).of_case(pods, case))).collect())
    }
}

impl<P: NodePlugin> Score for PerNode<P> {
    fn score(&mut self, call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        let pod = PodView::new(call, &self.manifest.needs);
        scores.extend(nodes.iter().map(|node| self.plugin.score(pod, self.node(call, node))));
        Ok(())
    }
}

impl<P: NodePlugin> Normalize for PerNode<P> {
    fn normalize(&mut self, _call: &Call<'_>, _nodes: &NodeSet, scores: &mut [i64]) -> Result<(), Status> {
        self.plugin.normalize(scores);
        Ok(())
    }
}

impl<P: NodePlugin> Explain for PerNode<P> {
    fn explain(&mut self, call: &Call<'_>, node: Option<NodeIdx>) -> Result<String, Status> {
        let node = node.map(|node| self.node(call, node));
        Ok(self.plugin.explain(PodView::new(call, &self.manifest.needs), node))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    struct Scored;

    impl NodePlugin for Scored {
        const NAME: &'static str = "Scored";
        const VERSION: &'static str = "1";
        type Args = Value;

        fn needs() -> Needs {
            Needs::default()
        }

        fn new(_args: Value) -> Result<Self, ConfigureError> {
            Ok(Self)
        }
    }

    impl ExportedPoints for Scored {
        const POINTS: Points = Points::of(&[Point::Score, Point::Explain]);
    }

    /// A plugin without Normalize keeps its raw scores.
    #[test]
    fn a_plugin_has_the_points_that_it_exports_and_no_others() {
        let mut plugin = PerNode::<Scored>::configure("null").unwrap();
        let answers = Point::ALL.into_iter().filter_map(|point| Some(plugin.at(point)?.kind()));
        assert!(answers.eq([Point::Score, Point::Explain]));
        assert_eq!(plugin.points(), Scored::POINTS);
    }

    #[test]
    fn scores_are_spread_from_the_lowest_to_the_highest() {
        for (before, after) in [
            (vec![], vec![]),
            (vec![7, 7], vec![0, 0]),
            (vec![-10, 0, 90], vec![0, 10, 100]),
            (vec![i64::MIN, 0, i64::MAX], vec![0, 50, 100]),
        ] {
            let mut scores = before.clone();
            spread(&mut scores);
            assert_eq!(scores, after, "{before:?}");
        }
    }
}
