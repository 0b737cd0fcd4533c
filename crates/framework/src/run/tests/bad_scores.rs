//! The report about a score out of range, which becomes the fault of a component.

use std::sync::Mutex;

use super::*;
use crate::{DeltaSource, Hosted};

/// A plugin that gives these scores, and remembers the reasons with which it is blamed.
#[derive(Default)]
struct Wild {
    manifest: Manifest,
    scores: Vec<i64>,
    normalizes: bool,
    reproaches: Arc<Mutex<Vec<String>>>,
}

impl Plugin for Wild {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }
    fn version(&self) -> PluginVersion {
        PluginVersion::default()
    }
    fn points(&self) -> Points {
        Points::of(if self.normalizes { &[Point::Score, Point::Normalize] } else { &[Point::Score] })
    }
    fn at(&mut self, point: Point) -> Option<PointRef<'_>> {
        if point == Point::Score {
            return Some(PointRef::Score(self));
        }
        (point == Point::Normalize && self.normalizes).then_some(PointRef::Normalize(self))
    }
    crate::hooks!(Hosted);
}

impl Hosted for Wild {
    fn sync(&mut self, _source: &dyn DeltaSource) -> Result<(), Status> {
        Ok(())
    }
    fn out_of_service(&self) -> Option<Status> {
        None
    }
    fn has_time(&mut self) -> Result<(), Status> {
        Ok(())
    }
    fn is_out_of_time(&self) -> bool {
        false
    }
    fn answered_badly(&mut self, reason: &str) {
        self.reproaches.lock().unwrap().push(reason.to_owned());
    }
}

impl Score for Wild {
    fn score(&mut self, _call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
        scores.extend(nodes.iter().filter_map(|node| self.scores.get(node.index())));
        Ok(())
    }
}

impl Normalize for Wild {
    fn normalize(&mut self, _call: &Call<'_>, _nodes: &NodeSet, _scores: &mut [i64]) -> Result<(), Status> {
        Ok(())
    }
}

#[test]
fn a_score_out_of_range_is_reported_with_node_and_point() {
    for (normalizes, point) in [(false, "Score"), (true, "NormalizeScore")] {
        let wild = Wild { scores: vec![0, 7, -3, 900], normalizes, ..Wild::default() };
        let reproaches = Arc::clone(&wild.reproaches);
        let mut profile = Profile::new("test");
        profile.add_everywhere(Box::new(wild), "null");
        let placed = place_in(4, &mut profile, &Pod::default(), &NominatedPods::default());
        assert!(matches!(placed.outcome, Err(NoNode::Broken(_))));
        let told = format!("a score of -3 for node n2 at {point}, and scores are from 0 to 100");
        assert_eq!(*reproaches.lock().unwrap(), [told]);
    }
}
