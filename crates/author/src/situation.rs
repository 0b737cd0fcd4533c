//! The situation in which a plugin is checked and timed, besides random nodes and pods.

use berth_model::{Time, api};
use serde::Deserialize as _;
use serde_json::Value;

use crate::{
    case_file::{CaseFile, PluginCase},
    case_uids::with_uid_of_pod,
    harness::{HarnessError, PluginHarness},
};

/// Arguments, and the contents of the cluster. The situation of a case has the objects of all its steps.
#[derive(Clone, Debug, Default)]
pub struct Situation {
    name: Option<String>,
    args: String,
    now: Option<Time>,
    nodes: Vec<Value>,
    placed: Vec<Value>,
    objects: Vec<Value>,
    pending: Vec<Value>,
}

impl Situation {
    /// A situation that has only arguments (`pluginConfig` as JSON).
    #[must_use]
    pub fn of_args(args: &str) -> Self {
        Self { args: args.to_owned(), ..Self::default() }
    }

    /// Situations from the cases with arguments that the plugin accepts.
    pub fn of_cases(file: &CaseFile) -> impl Iterator<Item = Self> {
        file.cases.iter().filter(|case| case.refused.is_none()).map(Self::of_case)
    }

    fn of_case(case: &PluginCase) -> Self {
        let steps = || case.steps.iter();
        let pods = [&case.pod].into_iter().chain(steps().map(|step| &step.pod));
        Self {
            name: Some(case.name.clone()),
            args: case.args.to_string(),
            now: steps().find_map(|step| step.now()),
            nodes: steps().flat_map(|step| &step.nodes).cloned().collect(),
            placed: steps().flat_map(|step| &step.pods).cloned().collect(),
            objects: steps().flat_map(|step| &step.objects).cloned().collect(),
            pending: pods.filter(|pod| !pod.is_null()).cloned().collect(),
        }
    }

    /// The name of the case.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// `pluginConfig` as JSON.
    #[must_use]
    pub fn args(&self) -> &str {
        &self.args
    }

    /// The time of the first step that sets one, in milliseconds since 1970.
    #[must_use]
    pub fn now(&self) -> Option<u64> {
        self.now.map(|now| now.0)
    }

    pub(crate) fn objects(&self) -> &[Value] {
        &self.objects
    }

    /// A pod on a node, among those of the cases; `None` if the cases have none.
    pub(crate) fn placed(&self, number: usize) -> Option<&Value> {
        self.placed.get(number.checked_rem(self.placed.len())?)
    }

    /// The pod of the question with this number, with a new uid. `None` means that a random pod serves.
    pub(crate) fn pending(&self, number: u64) -> Option<Value> {
        let at = usize::try_from(number).ok()?.checked_rem(self.pending.len())?;
        let mut pod = self.pending.get(at)?.clone();
        pod["metadata"]["uid"] = Value::from(format!("pending-{number}"));
        Some(pod)
    }

    /// Puts objects, nodes and the pods on nodes into the cluster.
    pub(crate) fn enter(&self, harness: &mut PluginHarness) -> Result<(), HarnessError> {
        if let Some(now) = self.now {
            harness.cluster_mut().set_now(now);
        }
        self.objects.iter().for_each(|object| harness.set_object(&with_uid_of_pod(object)));
        for node in &self.nodes {
            harness.set_node(&api::Node::deserialize(node)?);
        }
        for pod in &self.placed {
            harness.set_pod(&api::Pod::deserialize(pod)?)?;
        }
        Ok(())
    }
}
