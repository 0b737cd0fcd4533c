//! Files of clusters and of the answers that a plugin's author expects: what `berth plugin test` runs.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use berth_framework::{PluginFactory, Status};
use berth_model::{Pod, api};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    answers::PluginAnswers,
    harness::{HarnessError, PluginHarness},
};

/// One file: a plugin and what it answers.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CaseFile {
    /// The name in the plugin's manifest.
    pub plugin: String,
    /// In the order of the file; each begins with a new instance and an empty cluster.
    pub cases: Vec<PluginCase>,
}

/// A configuration of the plugin, and what it answers while the cluster changes step by step.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PluginCase {
    /// For people.
    pub name: String,
    /// The plugin's arguments (`pluginConfig`).
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub args: Value,
    /// The plugin's error when it refuses the arguments; such a case has no steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The pod to place, unless a step has another.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub pod: Value,
    /// Each builds on the cluster that the one before left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<CaseStep>,
}

/// A change of the cluster, and the answers after it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CaseStep {
    /// Nodes that are new or changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Value>,
    /// Names of nodes that are removed, before `nodes` are added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
    /// Pods on nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<Value>,
    /// Objects of other kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<Value>,
    /// The pod to place; null stands for the pod of the case.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub pod: Value,
    /// What the plugin answers.
    #[serde(default)]
    pub expect: PluginAnswers,
}

/// Why a file of cases cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaseFileError {
    /// There is no such file, or it cannot be read.
    #[error("cannot read {path}", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The text is no YAML or JSON, or has another form.
    #[error("{path}: {1}", path = .0.display())]
    Parse(PathBuf, Box<serde_saphyr::Error>),
}

/// Why a case has no answers.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// The plugin was called, and failed.
    #[error("the plugin fails: {}", .0.message())]
    Plugin(Status),
    /// The cluster cannot hold what the step says.
    #[error(transparent)]
    Cluster(#[from] HarnessError),
    /// An object has another form than its kind.
    #[error("a {kind}: {reason}")]
    Object { kind: &'static str, reason: serde_json::Error },
    /// A node is removed that the cluster does not have.
    #[error("node {0} leaves and is not there")]
    NoSuchNode(String),
    /// The step in which the expected answers of a case cannot be updated.
    #[error("case {case:?}, step {step}: {reason}")]
    Step { case: String, step: usize, reason: Box<CaseError> },
}

/// The outcome of one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaseResult {
    /// The name of the case.
    pub name: String,
    /// What differs, a line each. None: the case passes.
    pub differences: Vec<String>,
}

impl CaseFile {
    /// Reads a YAML or JSON file.
    ///
    /// # Errors
    /// The file can't be read, or has another form.
    pub fn read(path: &Path) -> Result<Self, CaseFileError> {
        let text = fs::read_to_string(path).map_err(|error| CaseFileError::Read(path.to_owned(), error))?;
        serde_saphyr::from_str(&text).map_err(|error| CaseFileError::Parse(path.to_owned(), Box::new(error)))
    }

    /// Runs every case.
    #[must_use]
    pub fn run(&self, factory: &dyn PluginFactory) -> Vec<CaseResult> {
        self.cases.iter().map(|case| CaseResult { name: case.name.clone(), differences: case.run(factory) }).collect()
    }

    /// The same cases with the answers that the plugin gives.
    ///
    /// # Errors
    /// [`CaseError::Step`]: the first step in which it gives none.
    pub fn updated(&self, factory: &dyn PluginFactory) -> Result<Self, CaseError> {
        let cases = self.cases.iter().map(|case| case.updated(factory)).collect::<Result<_, _>>()?;
        Ok(Self { plugin: self.plugin.clone(), cases })
    }
}

impl PluginCase {
    fn run(&self, factory: &dyn PluginFactory) -> Vec<String> {
        let mut harness = match (PluginHarness::new(factory, &self.args.to_string()), &self.refused) {
            (Ok(harness), None) => harness,
            (Ok(_), Some(expected)) => return vec![format!("the arguments are taken, expected: {expected}")],
            (Err(error), Some(expected)) => return refusal_differences(&error.to_string(), expected),
            (Err(error), None) => return vec![format!("the arguments are refused: {error}")],
        };
        let mut differences = Vec::new();
        for (number, step) in (1..).zip(&self.steps) {
            let lines = match self.answers(&mut harness, step) {
                Ok(answers) => answers.differences(&step.expect),
                Err(error) => vec![error.to_string()],
            };
            let prefix = if self.steps.len() > 1 { format!("step {number}: ") } else { String::new() };
            differences.extend(lines.into_iter().map(|line| format!("{prefix}{line}")));
        }
        differences
    }

    fn updated(&self, factory: &dyn PluginFactory) -> Result<Self, CaseError> {
        let mut case = self.clone();
        match PluginHarness::new(factory, &self.args.to_string()) {
            Err(error) => case.refused = Some(error.to_string()),
            Ok(mut harness) => {
                case.refused = None;
                for (step, (old, new)) in (1..).zip(self.steps.iter().zip(&mut case.steps)) {
                    let answers = self.answers(&mut harness, old);
                    let in_step = |error| CaseError::Step { case: self.name.clone(), step, reason: Box::new(error) };
                    new.expect = answers.map_err(in_step)?;
                }
            }
        }
        Ok(case)
    }

    fn answers(&self, harness: &mut PluginHarness, step: &CaseStep) -> Result<PluginAnswers, CaseError> {
        step.apply(harness)?;
        let pod = pending(harness, if step.pod.is_null() { &self.pod } else { &step.pod })?;
        harness.ask(&pod).map_err(CaseError::Plugin)
    }
}

fn refusal_differences(given: &str, expected: &str) -> Vec<String> {
    if given == expected { Vec::new() } else { vec![format!("refused with {given:?}, expected {expected:?}")] }
}

impl CaseStep {
    /// Changes the cluster, and returns the step's own pod.
    ///
    /// # Errors
    /// An object has another form, or a node leaves that is not there.
    pub fn enter(&self, harness: &mut PluginHarness) -> Result<Pod, CaseError> {
        self.apply(harness)?;
        pending(harness, &self.pod)
    }

    fn apply(&self, harness: &mut PluginHarness) -> Result<(), CaseError> {
        for name in &self.gone {
            if !harness.remove_node(name) {
                return Err(CaseError::NoSuchNode(name.clone()));
            }
        }
        for node in &self.nodes {
            harness.set_node(&object(node, "node")?);
        }
        for pod in &self.pods {
            harness.set_pod(&object(pod, "pod")?).map_err(HarnessError::Pod)?;
        }
        self.objects.iter().for_each(|object| harness.set_object(object));
        Ok(())
    }
}

/// The pod to place, with its JSON.
fn pending(harness: &mut PluginHarness, pod: &Value) -> Result<Pod, CaseError> {
    let mut decoded: api::Pod = if pod.is_null() { api::Pod::default() } else { object(pod, "pod")? };
    decoded.json = Some(pod.to_string().into_bytes().into());
    Ok(harness.intern(&decoded))
}

fn object<T: serde::de::DeserializeOwned>(object: &Value, kind: &'static str) -> Result<T, CaseError> {
    T::deserialize(object).map_err(|reason| CaseError::Object { kind, reason })
}
