//! A cache with a scenario's objects, a profile with the scenario's plugins, and a cycle of this profile.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use berth_framework::{
    CycleId, PluginFactory, Point,
    profile::{PluginIdx, Profile},
    run::{self, Attempt, Diagnosis, NominatedPods, PreFilterOutcome, SearchRange},
};
use berth_model::{Pod, api};
use berth_testing::TestCluster;
use serde_json::{Value, json};

use crate::scenario::{Scenario, node};

pub(crate) struct ScenarioCluster {
    scenario: &'static Scenario,
    cluster: TestCluster,
    profile: Profile,
    pod: Pod,
    /// A pod that comes to a node in one cycle and leaves it in the next.
    visitor: api::Pod,
    attempt: Attempt,
    cycle: u64,
}

impl ScenarioCluster {
    pub(crate) fn new(scenario: &'static Scenario, n_nodes: u32, n_pods: u32) -> Self {
        let mut cluster = TestCluster::default();
        for index in 0..n_nodes {
            cluster.set_node(&serde_json::from_value(node(index)).expect("a node"));
            (scenario.of_node)(index).iter().for_each(|object| cluster.set_object(object));
        }
        (scenario.objects)().iter().for_each(|object| cluster.set_object(object));
        for index in 0..n_pods {
            let pod = placed(scenario, index, n_nodes, &mut cluster);
            cluster.set_pod(&pod).expect("pods have uids");
        }
        let visitor = placed(scenario, n_pods, n_nodes, &mut cluster);
        let pod = cluster.intern(&pod("incoming", "", (scenario.incoming)()));
        cluster.settle();
        let (profile, attempt) = (Profile::new("default-scheduler"), Attempt::default());
        Self { scenario, cluster, profile, pod, visitor, attempt, cycle: 0 }
    }

    /// Replaces the plugins of the profile with plugins that the factory makes.
    pub(crate) fn serve_with(&mut self, factory: impl Fn(&str) -> Arc<dyn PluginFactory>) {
        self.profile = Profile::new("default-scheduler");
        for name in self.scenario.helpers.iter().chain([&self.scenario.plugin]) {
            self.profile.add_everywhere(factory(name).build("null").expect("default args"), "null");
        }
    }

    /// Runs one cycle and returns its time. Returns `None` when a pod that should fit nowhere fits.
    pub(crate) fn cycle(&mut self) -> Option<Duration> {
        self.cycle += 1;
        if self.cycle.is_multiple_of(2) {
            self.cluster.remove_pod(&self.visitor.metadata.uid);
        } else {
            self.cluster.set_pod(&self.visitor).expect("the visitor has a uid");
        }
        self.cluster.settle();
        self.attempt.clear();
        let begin = Instant::now();
        self.profile.sync(self.cluster.cache()).expect("replicas follow");
        self.enqueue();
        let is_meaningful = self.place();
        let time = begin.elapsed();
        self.profile.end_cycle(CycleId(self.cycle));
        is_meaningful.then_some(time)
    }

    fn enqueue(&mut self) {
        for index in 0..=self.scenario.helpers.len() {
            let Some(plugin) = u32::try_from(index).ok().and_then(|index| self.profile.get(PluginIdx(index))) else {
                continue;
            };
            if let Some(point) = plugin.pre_enqueue() {
                point.pre_enqueue(&self.pod, self.cluster.cache().table());
            }
            if let Some(point) = plugin.queue_sort() {
                point.sort_key(&self.pod, 1);
            }
        }
    }

    fn place(&mut self) -> bool {
        let call = self.cluster.call(self.cycle, &self.pod);
        let (profile, attempt) = (&mut self.profile, &mut self.attempt);
        let answer = run::pre_filter(profile, &call, attempt).expect("pre-filter");
        assert!(matches!(answer, PreFilterOutcome::Proceed), "{}: {answer:?}", self.scenario.plugin);
        run::list_candidates(&call, self.cluster.cache().order(), attempt);
        let everything = SearchRange { start: 0, n_wanted: call.table.n_nodes() };
        run::filter(profile, &call, everything, &NominatedPods::default(), attempt).expect("filter");
        if !profile.plugins.at(Point::PostFilter).is_empty() && self.scenario.fits_nowhere {
            if !attempt.findings().feasible_order().is_empty() {
                return false;
            }
            let mut diagnosis = Diagnosis { n_all_nodes: call.table.n_nodes(), ..Diagnosis::default() };
            run::diagnose(profile, &call, attempt.findings(), &mut diagnosis).expect("diagnose");
            let nobody = NominatedPods::default();
            run::post_filter(profile, &call, attempt.findings(), &nobody, None, &mut diagnosis);
            let answer = &diagnosis.post_filter;
            assert!(answer.nominate.flatten().is_some(), "an eviction makes room: {:?}", answer.status);
            return true;
        }
        assert!(!attempt.findings().feasible_order().is_empty(), "{}: the pod fits somewhere", self.scenario.plugin);
        run::score(profile, &call, attempt).expect("score");
        let node = attempt.choose().expect("a node");
        if !profile.plugins.at(Point::Bind).is_empty() {
            run::bind(profile, &call, node).expect("bind");
        }
        true
    }
}

fn placed(scenario: &Scenario, index: u32, n_nodes: u32, cluster: &mut TestCluster) -> api::Pod {
    let on = index % n_nodes;
    (scenario.of_pod)(index, on).iter().for_each(|object| cluster.set_object(object));
    let (name, node) = (format!("pod-{index:05}"), format!("node-{on:05}"));
    pod(&name, &node, (scenario.placed)(index))
}

fn pod(name: &str, node: &str, mut pod: Value) -> api::Pod {
    let labels = pod["metadata"]["labels"].take();
    pod["metadata"] = json!({"name": name, "namespace": "default", "uid": name});
    if labels.is_object() {
        pod["metadata"]["labels"] = labels;
    }
    if !node.is_empty() {
        pod["spec"]["nodeName"] = json!(node);
    }
    serde_json::from_value(pod).expect("a pod")
}
