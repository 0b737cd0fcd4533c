//! The time of each extension point, as `berth plugin bench` prints it.

use std::{
    cell::Cell,
    collections::BTreeMap,
    time::{Duration, Instant},
};

use berth_framework::{Call, DeltaSource, Needs, Plugin, PluginFactory, Status};
use berth_model::{Delta, NodeSet, Pod, api};
use serde::{Deserialize as _, Serialize};

use crate::{
    harness::{HarnessError, PluginHarness},
    random::{Random, node, node_name, pod},
    situation::Situation,
};

/// The number of pods about which the plugin is called. Each figure is the median over them.
const N_PODS: u64 = 50;
/// Pods on each node.
const PODS_PER_NODE: u64 = 10;

/// The median time of one kind of call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    /// The extension point, or `sync (full)` and `sync (one pod)`.
    pub call: &'static str,
    /// The size of the cluster.
    pub n_nodes: u64,
    /// The median over many calls.
    pub microseconds: f64,
}

/// Times a plugin on a random cluster of this size. The pods are those of the situation, or random ones if it has none.
///
/// # Errors
/// The plugin refuses its arguments, or fails.
pub fn measure(
    factory: &dyn PluginFactory,
    situation: &Situation,
    n_nodes: u64,
) -> Result<Vec<Measurement>, HarnessError> {
    let mut random = Random::new(1);
    let mut harness = PluginHarness::new(factory, situation.args())?;
    situation.enter(&mut harness)?;
    populate(&mut harness, &mut random, n_nodes)?;
    let mut times = CallTimes::default();
    times.add("sync (full)", || harness.sync())?;
    for number in 0..N_PODS {
        let uid = format!("uid-{number}");
        harness.remove_pod(&uid);
        times.add("sync (one pod)", || harness.sync())?;
        let json = situation.pending(number).unwrap_or_else(|| pod(&mut random, number, None));
        let mut pod = api::Pod::deserialize(&json)?;
        pod.json = Some(json.to_string().into_bytes().into());
        let pod: Pod = harness.intern(&pod);
        harness.sync()?;
        harness.in_cycle(&pod, |plugin, call| cycle(plugin, call, &mut times))?;
    }
    Ok(times.medians(n_nodes))
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
/// the plugin gets it. A plugin without a replica gets none.
///
/// # Errors
/// The plugin refuses its arguments, or fails.
pub fn sizes(
    factory: &dyn PluginFactory,
    situation: &Situation,
    n_nodes: u64,
    weigh: fn(Delta) -> u64,
) -> Result<Sizes, HarnessError> {
    let mut harness = PluginHarness::new(factory, situation.args())?;
    situation.enter(&mut harness)?;
    populate(&mut harness, &mut Random::new(1), n_nodes)?;
    let full_delta = weighed_sync(&mut harness, weigh)?;
    harness.remove_pod("uid-0");
    let one_pod = weighed_sync(&mut harness, weigh)?;
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

fn populate(harness: &mut PluginHarness, random: &mut Random, n_nodes: u64) -> Result<(), HarnessError> {
    for number in 0..n_nodes {
        harness.set_node(&api::Node::deserialize(&node(random, number))?);
        for place in 0..PODS_PER_NODE {
            let number_of_pod = number * PODS_PER_NODE + place;
            harness.set_pod(&api::Pod::deserialize(&pod(random, number_of_pod, Some(&node_name(number))))?)?;
        }
    }
    Ok(())
}

fn cycle(plugin: &mut dyn Plugin, call: &Call<'_>, times: &mut CallTimes) -> Result<(), Status> {
    let mut nodes = call.table.nodes().clone();
    let mut filters = true;
    if let Some(point) = plugin.pre_filter() {
        match times.add("PreFilter", || point.pre_filter(call)) {
            Ok(_) => {}
            // Filter has nothing to do for this pod, but Score may have.
            Err(status) if status == Status::skip() => filters = false,
            Err(status) if status.code.is_rejected() => return Ok(()),
            Err(status) => return Err(status),
        }
    }
    if filters && let Some(point) = plugin.filter() {
        times.add("Filter", || point.filter(call, &mut nodes))?;
        let mut rejected = call.table.nodes().clone();
        rejected.subtract(&nodes);
        if !rejected.is_empty() {
            times.add("NodeToStatus", || point.node_to_status(call, &rejected))?;
        }
    }
    score(plugin, call, &nodes, times)
}

fn score(plugin: &mut dyn Plugin, call: &Call<'_>, nodes: &NodeSet, times: &mut CallTimes) -> Result<(), Status> {
    if nodes.is_empty() {
        return Ok(());
    }
    if let Some(point) = plugin.pre_score() {
        match times.add("PreScore", || point.pre_score(call, nodes)) {
            Ok(()) => {}
            Err(status) if status == Status::skip() => return Ok(()),
            Err(status) => return Err(status),
        }
    }
    let mut scores = Vec::new();
    if let Some(point) = plugin.score() {
        times.add("Score", || point.score(call, nodes, &mut scores))?;
    }
    if let Some(point) = plugin.normalize() {
        times.add("NormalizeScore", || point.normalize(call, nodes, &mut scores))?;
    }
    Ok(())
}

/// Durations by kind of call.
#[derive(Default)]
struct CallTimes(BTreeMap<&'static str, Vec<Duration>>);

impl CallTimes {
    fn add<R>(&mut self, call: &'static str, work: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = work();
        self.0.entry(call).or_default().push(start.elapsed());
        result
    }

    fn medians(self, n_nodes: u64) -> Vec<Measurement> {
        let median = |mut durations: Vec<Duration>| {
            durations.sort_unstable();
            durations.get(durations.len() / 2).map_or(0.0, Duration::as_secs_f64) * 1e6
        };
        let medians = self.0.into_iter();
        medians.map(|(call, durations)| Measurement { call, n_nodes, microseconds: median(durations) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use berth_framework::{
        BuildError, Configure, ConfigureError, DryRunCase, Filter, Manifest, PluginType as _, PluginVersion, Points,
        PreFilter, RejectedNodes, Score,
    };

    use super::*;

    /// A plugin that rejects every node if its arguments say `reject`. Otherwise it has nothing to filter, and scores.
    #[derive(Debug)]
    struct ScoresOnly {
        rejects: bool,
    }

    berth_framework::plugin!(ScoresOnly: PreFilter, Filter, Score);

    impl Configure for ScoresOnly {
        fn describe() -> Manifest {
            Manifest { name: "ScoresOnly".to_owned(), ..Manifest::default() }
        }

        fn configure(args: &str) -> Result<Self, ConfigureError> {
            Ok(Self { rejects: args.contains("reject") })
        }
    }

    impl PreFilter for ScoresOnly {
        fn pre_filter(&mut self, _call: &Call<'_>) -> Result<Option<Vec<String>>, Status> {
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
        let calls: Vec<&str> = measured.iter().map(|measurement| measurement.call).collect();
        assert_eq!(calls, ["PreFilter", "Score", "sync (full)", "sync (one pod)"]);
    }

    #[test]
    fn the_question_about_rejected_nodes_is_timed() {
        let situation = Situation::of_args("\"reject\"");
        let measured = measure(&Factory(ScoresOnly::describe()), &situation, 3).expect("it never fails");
        let calls: Vec<&str> = measured.iter().map(|measurement| measurement.call).collect();
        assert_eq!(calls, ["Filter", "NodeToStatus", "PreFilter", "sync (full)", "sync (one pod)"]);
    }
}
