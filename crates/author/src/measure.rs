//! How long each extension point takes: what `berth plugin bench` prints.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use berth_framework::{Call, Plugin, PluginFactory, Status};
use berth_model::{NodeSet, Pod, api};
use serde::{Deserialize as _, Serialize};

use crate::{
    harness::{HarnessError, PluginHarness},
    random::{Random, node, node_name, pod},
};

/// Pods that the plugin is called about; each figure is the median over them.
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

/// Times a plugin on a random cluster of so many nodes.
///
/// # Errors
/// The plugin refuses its arguments, or fails.
pub fn measure(factory: &dyn PluginFactory, args: &str, n_nodes: u64) -> Result<Vec<Measurement>, HarnessError> {
    let mut random = Random::new(1);
    let mut harness = PluginHarness::new(factory, args)?;
    populate(&mut harness, &mut random, n_nodes)?;
    let mut times = CallTimes::default();
    times.add("sync (full)", || harness.sync())?;
    for number in 0..N_PODS {
        let uid = format!("uid-{number}");
        harness.remove_pod(&uid);
        times.add("sync (one pod)", || harness.sync())?;
        let pod = api::Pod::deserialize(&pod(&mut random, number, None))?;
        let pod: Pod = harness.intern(&pod);
        harness.sync()?;
        harness.in_cycle(&pod, |plugin, call| cycle(plugin, call, &mut times))?;
    }
    Ok(times.medians(n_nodes))
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
    if let Some(point) = plugin.pre_filter() {
        match times.add("PreFilter", || point.pre_filter(call)) {
            Ok(_) => {}
            Err(status) if status == Status::skip() || status.code.is_rejected() => return Ok(()),
            Err(status) => return Err(status),
        }
    }
    if let Some(point) = plugin.filter() {
        times.add("Filter", || point.filter(call, &mut nodes))?;
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
