//! PodDisruptionBudgets, and the evictions that they allow.
//!
//! The rules are <https://kubernetes.io/docs/tasks/run-application/configure-pdb/> and
//! `pkg/controller/disruption/disruption.go`. A pod counts as healthy while it has a node. If a budget has a status,
//! the wanted number of healthy pods comes from the status.

use berth_model::{api, selector::LabelMatcher};
use serde_json::Value;

use crate::{
    cluster::{Cluster, ClusterPod},
    fields::text,
    workloads::namespace_of,
};

/// The budgets of a cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budgets(Vec<Budget>);

#[derive(Clone, Debug)]
struct Budget {
    namespace: String,
    name: String,
    selector: LabelMatcher,
    n_wanted: i64,
    n_healthy: i64,
}

impl Budgets {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let budgets = cluster.objects().iter().filter(|object| text(object, "/kind") == "PodDisruptionBudget");
        Self(budgets.filter_map(|object| Budget::new(object, cluster)).collect())
    }

    /// The reason why the pod may not be evicted at the moment; `None` if the eviction is allowed.
    pub(crate) fn refusal(&self, pod: &ClusterPod) -> Option<String> {
        let concerned: Vec<&Budget> = self.0.iter().filter(|budget| budget.concerns(&pod.pod)).collect();
        match concerned.as_slice() {
            [] => None,
            [budget] => (budget.n_healthy <= budget.n_wanted).then(|| {
                format!(
                    "PodDisruptionBudget {} requires {} healthy pods and has {}",
                    budget.name, budget.n_wanted, budget.n_healthy
                )
            }),
            [first, second, ..] => Some(format!(
                "PodDisruptionBudgets {} and {} both select this pod: the API server does not evict a pod of two \
                 budgets",
                first.name, second.name
            )),
        }
    }

    /// Records that the pod lost its node.
    pub(crate) fn lose(&mut self, pod: &ClusterPod) {
        self.change(pod, -1);
    }

    /// Records that the pod got a node.
    pub(crate) fn gain(&mut self, pod: &ClusterPod) {
        self.change(pod, 1);
    }

    fn change(&mut self, pod: &ClusterPod, by: i64) {
        for budget in self.0.iter_mut().filter(|budget| budget.concerns(&pod.pod)) {
            budget.n_healthy += by;
        }
    }
}

impl Budget {
    fn new(object: &Value, cluster: &Cluster) -> Option<Self> {
        let selector = object.pointer("/spec/selector").cloned().unwrap_or_default();
        let selector: Option<api::LabelSelector> = serde_json::from_value(selector).ok()?;
        let selector = LabelMatcher::compile(selector.as_ref()).ok()?;
        let (namespace, name) = (namespace_of(object).to_owned(), text(object, "/metadata/name").to_owned());
        let mut budget = Self { namespace, name, selector, n_wanted: 0, n_healthy: 0 };
        let pods = || cluster.pods().iter().filter(|pod| budget.concerns(&pod.pod));
        let n_expected = i64::try_from(pods().count()).ok()?;
        let n_healthy = i64::try_from(pods().filter(|pod| !pod.is_pending()).count()).ok()?;
        budget.n_healthy = n_healthy;
        budget.n_wanted = match object.pointer("/status/desiredHealthy").and_then(Value::as_i64) {
            Some(wanted) => wanted,
            None => match (object.pointer("/spec/minAvailable"), object.pointer("/spec/maxUnavailable")) {
                (Some(least), _) => amount(least, n_expected),
                (None, Some(most)) => (n_expected - amount(most, n_expected)).max(0),
                (None, None) => 0,
            },
        };
        Some(budget)
    }

    fn concerns(&self, pod: &api::Pod) -> bool {
        pod.metadata.namespace == self.namespace && self.selector.matches(&pod.metadata.labels)
    }
}

/// A number, or a percentage of the pods, rounded up.
fn amount(value: &Value, n_expected: i64) -> i64 {
    let percent = value.as_str().and_then(|text| text.trim_end_matches('%').parse::<i64>().ok());
    match percent {
        Some(percent) => (percent.saturating_mul(n_expected) + 99) / 100,
        None => value.as_i64().unwrap_or(0),
    }
}
