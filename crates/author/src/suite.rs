//! Files of clusters and the answers that an author expects: what `berth plugin test` runs.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use berth_framework::PluginFactory;
use berth_model::{Pod, api};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{answers::Answers, trial::Trial};

/// One file: a plugin and what it answers.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// The name in the plugin's manifest.
    pub plugin: String,
    pub cases: Vec<Case>,
}

/// A configuration of the plugin, and what it answers over a time.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    /// `pluginConfig`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub args: Value,
    /// The error that configuring gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The pod to place, unless a step has another.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub pod: Value,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// A change of the cluster, and the answers after it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Nodes that are new or changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Value>,
    /// Names of nodes that leave, before `nodes` come.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
    /// Pods on nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<Value>,
    /// Objects of other kinds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<Value>,
    /// The pod to place.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub pod: Value,
    #[serde(default)]
    pub expect: Answers,
}

/// Why a file is no suite.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    #[error("cannot read {path}", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    #[error("{path}: {1}", path = .0.display())]
    Parse(PathBuf, String),
}

/// What came of one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaseResult {
    pub name: String,
    /// What differs, a line each. None: the case passes.
    pub differences: Vec<String>,
}

impl Suite {
    /// # Errors
    /// The file can't be read, or has another form.
    pub fn read(path: &Path) -> Result<Self, SuiteError> {
        let text = fs::read_to_string(path).map_err(|error| SuiteError::Read(path.to_owned(), error))?;
        serde_saphyr::from_str(&text).map_err(|error| SuiteError::Parse(path.to_owned(), error.to_string()))
    }

    /// Runs every case.
    #[must_use]
    pub fn run(&self, factory: &dyn PluginFactory) -> Vec<CaseResult> {
        self.cases.iter().map(|case| CaseResult { name: case.name.clone(), differences: case.run(factory) }).collect()
    }

    /// The same suite with the answers that the plugin gives.
    ///
    /// # Errors
    /// The case and the step in which it gives none, and why.
    pub fn updated(&self, factory: &dyn PluginFactory) -> Result<Self, String> {
        let cases = self.cases.iter().map(|case| case.updated(factory)).collect::<Result<_, _>>()?;
        Ok(Self { plugin: self.plugin.clone(), cases })
    }
}

impl Case {
    fn run(&self, factory: &dyn PluginFactory) -> Vec<String> {
        let mut trial = match (Trial::new(factory, &self.args.to_string()), &self.refused) {
            (Ok(trial), None) => trial,
            (Ok(_), Some(expected)) => return vec![format!("the arguments are taken, expected: {expected}")],
            (Err(reason), Some(expected)) if reason == *expected => return Vec::new(),
            (Err(reason), Some(expected)) => return vec![format!("refused with {reason:?}, expected {expected:?}")],
            (Err(reason), None) => return vec![format!("the arguments are refused: {reason}")],
        };
        let mut differences = Vec::new();
        for (number, step) in (1..).zip(&self.steps) {
            let lines = match self.answers(&mut trial, step) {
                Ok(answers) => answers.differences(&step.expect),
                Err(reason) => vec![reason],
            };
            let prefix = if self.steps.len() > 1 { format!("step {number}: ") } else { String::new() };
            differences.extend(lines.into_iter().map(|line| format!("{prefix}{line}")));
        }
        differences
    }

    fn updated(&self, factory: &dyn PluginFactory) -> Result<Self, String> {
        let mut case = self.clone();
        match Trial::new(factory, &self.args.to_string()) {
            Err(reason) => case.refused = Some(reason),
            Ok(mut trial) => {
                case.refused = None;
                for (number, (step, new)) in (1..).zip(self.steps.iter().zip(&mut case.steps)) {
                    let answers = self.answers(&mut trial, step);
                    new.expect = answers.map_err(|reason| format!("case {:?}, step {number}: {reason}", self.name))?;
                }
            }
        }
        Ok(case)
    }

    fn answers(&self, trial: &mut Trial, step: &Step) -> Result<Answers, String> {
        step.apply(trial)?;
        let pod = pending(trial, if step.pod.is_null() { &self.pod } else { &step.pod })?;
        trial.ask(&pod).map_err(|status| format!("the plugin fails: {}", status.message()))
    }
}

impl Step {
    /// Changes the cluster, and gives the step's own pod.
    ///
    /// # Errors
    /// An object has another form, or a node leaves that is not there.
    pub fn enter(&self, trial: &mut Trial) -> Result<Pod, String> {
        self.apply(trial)?;
        pending(trial, &self.pod)
    }

    fn apply(&self, trial: &mut Trial) -> Result<(), String> {
        for name in &self.gone {
            if !trial.remove_node(name) {
                return Err(format!("node {name} leaves and is not there"));
            }
        }
        for node in &self.nodes {
            trial.set_node(&object(node, "node")?);
        }
        for pod in &self.pods {
            trial.set_pod(&object(pod, "pod")?)?;
        }
        self.objects.iter().for_each(|object| trial.set_object(object));
        Ok(())
    }
}

/// The pod to place, with its JSON.
fn pending(trial: &mut Trial, pod: &Value) -> Result<Pod, String> {
    let mut decoded: api::Pod = if pod.is_null() { api::Pod::default() } else { object(pod, "pod")? };
    decoded.json = Some(pod.to_string().into_bytes().into());
    Ok(trial.intern(&decoded))
}

fn object<T: serde::de::DeserializeOwned>(object: &Value, what: &str) -> Result<T, String> {
    T::deserialize(object).map_err(|error| format!("a {what}: {error}"))
}
