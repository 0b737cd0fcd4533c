//! The time of each extension point, as `berth plugin bench` prints it.

use std::{
    cell::Cell,
    collections::BTreeMap,
    time::{Duration, Instant},
};

use berth_framework::{DeltaSource, Needs, PluginFactory, Point, Points};
use berth_model::Delta;
use serde::Serialize;

use crate::{
    full_cluster::{CallName, FullCluster, Observer},
    harness::{HarnessError, PluginHarness},
    situation::Situation,
};

/// The seed of the random cluster, which is also the default of `verify`.
const SEED: u64 = 1;

/// The points that are called and timed.
const TIMED: [Point; 5] = [Point::PreFilter, Point::Filter, Point::PreScore, Point::Score, Point::Normalize];

/// The median time of one kind of call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    /// The extension point, or `sync (full)` and `sync (one pod)`.
    pub call: CallName,
    /// The size of the cluster.
    pub n_nodes: u64,
    /// The median over many calls.
    pub microseconds: f64,
}

/// The times of a plugin's calls on a cluster of one size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredPlugin {
    pub calls: Vec<Measurement>,
    /// A sentence for each timed point of the plugin that was called for no pod, and a last sentence that names the
    /// points that are never timed.
    pub uncalled: Vec<String>,
}

/// Times a plugin on a random cluster of this size. The pods come from the situation, or are random if the situation
/// has no pods.
///
/// # Errors
/// The plugin refuses its arguments, or fails.
pub fn measure(
    factory: &dyn PluginFactory,
    situation: &Situation,
    n_nodes: u64,
) -> Result<MeasuredPlugin, HarnessError> {
    let mut times = CallTimes::default();
    FullCluster::new(factory, situation, SEED, n_nodes)?.ask(&mut times)?;
    let uncalled = times.uncalled(factory.points());
    Ok(MeasuredPlugin { calls: times.medians(n_nodes), uncalled })
}

/// The bytes that the scheduler sends to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sizes {
    /// The size of the cluster.
    pub n_nodes: u64,
    /// The first delta, with everything.
    pub full_delta: u64,
    /// A delta after one pod left its node.
    pub one_pod: u64,
}

/// Measures the deltas of the same cluster as in [`measure`]. `weigh` returns the bytes of a delta in the form in which
/// the plugin gets it. A plugin without a replica gets no deltas.
///
/// # Errors
/// The plugin refuses its arguments, or fails.
pub fn sizes(
    factory: &dyn PluginFactory,
    situation: &Situation,
    n_nodes: u64,
    weigh: fn(Delta) -> u64,
) -> Result<Sizes, HarnessError> {
    let mut cluster = FullCluster::new(factory, situation, SEED, n_nodes)?;
    let full_delta = weighed_sync(&mut cluster.harness, weigh)?;
    cluster.remove(0);
    let one_pod = weighed_sync(&mut cluster.harness, weigh)?;
    Ok(Sizes { n_nodes, full_delta, one_pod })
}

fn weighed_sync(harness: &mut PluginHarness, weigh: fn(Delta) -> u64) -> Result<u64, HarnessError> {
    harness.cluster_mut().settle();
    let (plugin, cluster) = harness.parts();
    let scales = Scales { source: cluster.cache(), weigh, bytes: Cell::new(0) };
    plugin.sync(&scales)?;
    Ok(scales.bytes.get())
}

/// Weighs the deltas that a plugin fetches.
struct Scales<'a> {
    source: &'a dyn DeltaSource,
    weigh: fn(Delta) -> u64,
    bytes: Cell<u64>,
}

impl DeltaSource for Scales<'_> {
    fn delta_since(&self, needs: &Needs, generation: u64, symbols_position: u64) -> Delta {
        let delta = self.source.delta_since(needs, generation, symbols_position);
        if !delta.is_empty() {
            self.bytes.set(self.bytes.get() + (self.weigh)(delta.clone()));
        }
        delta
    }

    fn generation(&self) -> u64 {
        self.source.generation()
    }
}

/// Durations by kind of call.
#[derive(Default)]
struct CallTimes {
    durations: BTreeMap<CallName, Vec<Duration>>,
    /// The first reason why a point was not called for a pod.
    left_out: BTreeMap<CallName, String>,
}

impl Observer for CallTimes {
    fn call<R>(&mut self, name: CallName, work: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = work();
        self.durations.entry(name).or_default().push(start.elapsed());
        result
    }

    fn left_out(&mut self, names: &[CallName], why: &str) {
        for &name in names {
            self.left_out.entry(name).or_insert_with(|| why.to_owned());
        }
    }
}

impl CallTimes {
    fn medians(self, n_nodes: u64) -> Vec<Measurement> {
        let median = |mut durations: Vec<Duration>| {
            durations.sort_unstable();
            durations.get(durations.len() / 2).map_or(0.0, Duration::as_secs_f64) * 1e6
        };
        let medians = self.durations.into_iter();
        medians.map(|(call, durations)| Measurement { call, n_nodes, microseconds: median(durations) }).collect()
    }

    /// A sentence for each timed point of the plugin that was called for no pod, and a last sentence that names the
    /// points that are not timed.
    fn uncalled(&self, points: Points) -> Vec<String> {
        let (timed, others): (Vec<Point>, Vec<Point>) = points.iter().partition(|point| TIMED.contains(point));
        let uncalled = timed.into_iter().map(Point::shown).filter(|name| !self.durations.contains_key(name));
        let why = uncalled.filter_map(|name| Some((name, self.left_out.get(name)?)));
        let mut sentences: Vec<String> =
            why.map(|(name, why)| format!("{name} was not called, because {why}")).collect();
        if !others.is_empty() {
            let others: Vec<&str> = others.into_iter().map(Point::shown).collect();
            sentences.push(format!("bench does not time {}", others.join(", ")));
        }
        sentences
    }
}

#[cfg(test)]
mod tests {
    use berth_framework::{
        BuildError, Call, Configure, ConfigureError, DryRunCase, Filter, Manifest, ObjectKind, Plugin, PluginType as _,
        PluginVersion, Points, PreFilter, RejectedNodes, Score, Status,
    };
    use berth_model::{NodeSet, Pod};

    use super::*;

    /// A plugin that rejects every node if its arguments say `reject`, and every pod if they say `refuse`. Otherwise it
    /// has nothing to filter, and scores. If its arguments say `pods`, it fails if it does not see the pods on nodes as
    /// objects.
    #[derive(Debug)]
    struct ScoresOnly {
        rejects: bool,
        refuses: bool,
        counts_pods: bool,
    }

    berth_framework::plugin!(ScoresOnly: PreFilter, Filter, Score);

    impl Configure for ScoresOnly {
        fn describe() -> Manifest {
            let mut manifest = Manifest { name: "ScoresOnly".to_owned(), ..Manifest::default() };
            manifest.needs.objects = vec![ObjectKind { api_version: "v1".to_owned(), kind: "Pod".to_owned() }];
            manifest
        }

        fn configure(args: &str) -> Result<Self, ConfigureError> {
            let (rejects, refuses) = (args.contains("reject"), args.contains("refuse"));
            Ok(Self { rejects, refuses, counts_pods: args.contains("pods") })
        }
    }

    impl PreFilter for ScoresOnly {
        fn pre_filter(&mut self, call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
            let n_objects = call.table.objects().iter("v1", "Pod").count();
            if self.counts_pods && n_objects < call.table.pods().n_pods() {
                return Err(Status::error("a pod on a node is not an object"));
            }
            if self.refuses {
                return Err(Status::unresolvable("no rack"));
            }
            if self.rejects { Ok(None) } else { Err(Status::skip()) }
        }
    }

    impl Filter for ScoresOnly {
        fn filter(&mut self, _call: &Call<'_>, candidates: &mut NodeSet) -> Result<(), Status> {
            assert!(self.rejects, "PreFilter said Skip");
            candidates.clear();
            Ok(())
        }

        fn node_to_status(&mut self, _call: &Call<'_>, _rejected: &NodeSet) -> Result<Vec<RejectedNodes>, Status> {
            Ok(Vec::new())
        }

        fn dry_run(&mut self, _call: &Call<'_>, _pods: &[&Pod], _cases: &[DryRunCase]) -> Result<Vec<Status>, Status> {
            Ok(Vec::new())
        }
    }

    impl Score for ScoresOnly {
        fn score(&mut self, _call: &Call<'_>, nodes: &NodeSet, scores: &mut Vec<i64>) -> Result<(), Status> {
            scores.extend(nodes.iter().map(|_| 0));
            Ok(())
        }
    }

    #[derive(Debug)]
    struct Factory(Manifest);

    impl PluginFactory for Factory {
        fn manifest(&self) -> &Manifest {
            &self.0
        }

        fn points(&self) -> Points {
            ScoresOnly::POINTS
        }

        fn version(&self) -> PluginVersion {
            PluginVersion::native(&self.0)
        }

        fn build(&self, args: &str) -> Result<Box<dyn Plugin>, BuildError> {
            Ok(Box::new(ScoresOnly::configure(args)?))
        }
    }

    #[test]
    fn score_is_timed_where_pre_filter_skips() {
        let measured =
            measure(&Factory(ScoresOnly::describe()), &Situation::of_args("null"), 3).expect("it never fails");
        let calls: Vec<&str> = measured.calls.iter().map(|measurement| measurement.call).collect();
        assert_eq!(calls, ["PreFilter", "Score", "sync (full)", "sync (one pod)"]);
        let told = "Filter was not called, because PreFilter has nothing to do for the pod (Skip)";
        assert_eq!(measured.uncalled, [told]);
    }

    #[test]
    fn the_question_about_rejected_nodes_is_timed() {
        let situation = Situation::of_args("\"reject\"");
        let measured = measure(&Factory(ScoresOnly::describe()), &situation, 3).expect("it never fails");
        assert_eq!(measured.uncalled, ["Score was not called, because Filter rejected every node"]);
        let calls: Vec<&str> = measured.calls.iter().map(|measurement| measurement.call).collect();
        assert_eq!(calls, ["Filter", "NodeToStatus", "PreFilter", "sync (full)", "sync (one pod)"]);
    }

    #[test]
    fn points_that_are_never_timed_are_named() {
        let points = Points::of(&[Point::Filter, Point::Permit, Point::Explain]);
        assert_eq!(CallTimes::default().uncalled(points), ["bench does not time Permit, Explain"]);
    }

    #[test]
    fn points_after_a_rejection_are_not_timed_and_that_is_said() {
        let situation = Situation::of_args("\"refuse\"");
        let measured = measure(&Factory(ScoresOnly::describe()), &situation, 3).expect("it never fails");
        let why = "was not called, because PreFilter rejected the pod: no rack";
        assert_eq!(measured.uncalled, [format!("Filter {why}"), format!("Score {why}")]);
    }

    #[test]
    fn pods_on_nodes_are_objects_for_a_plugin_that_reads_them() {
        let situation = Situation::of_args("\"pods\"");
        measure(&Factory(ScoresOnly::describe()), &situation, 120).expect("it sees every pod");
        let checks = crate::conformance(&Factory(ScoresOnly::describe()), &situation, 1).expect("accepted arguments");
        assert!(!checks.iter().any(|check| matches!(check.outcome, crate::CheckOutcome::Failed(_))), "{checks:?}");
    }
}
