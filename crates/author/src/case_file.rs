//! Files of clusters and of the answers that a plugin's author expects: what `berth plugin test` runs.

use berth_framework::{Grants, PluginFactory};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    answers::PluginAnswers,
    case_host::CaseHost,
    harness::PluginHarness,
    step::{CaseError, CaseStep},
};

/// One file: a plugin and what it answers.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CaseFile {
    /// The name in the plugin's manifest.
    pub plugin: String,
    /// The limits of an instance, as under `limits` in a PluginHostConfiguration; null stands for the defaults.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub limits: Value,
    /// The plugin's grants, as under `grants` there; null stands for all grants.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub grants: Value,
    /// The cases in the order of the file; each begins with a new instance and an empty cluster.
    pub cases: Vec<PluginCase>,
}

/// A configuration of the plugin, and what it answers while the cluster changes step by step.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Each step begins with the cluster that the step before it left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<CaseStep>,
}

/// The outcome of one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaseResult {
    /// The name of the case.
    pub name: String,
    /// The differences, one line for each. A case without differences passes.
    pub differences: Vec<String>,
}

impl CaseFile {
    /// The JSON schema of such files, for editors.
    #[cfg(feature = "schema")]
    #[must_use]
    pub fn schema() -> schemars::Schema {
        let mut schema = schemars::schema_for!(CaseFile);
        schema.insert("title".to_owned(), "Cases of a plugin".into());
        schema
    }

    /// Runs every case. The caller must apply `limits` and `grants`.
    #[must_use]
    pub fn run(&self, factory: &dyn PluginFactory, host: &CaseHost) -> Vec<CaseResult> {
        let run = |case: &PluginCase| CaseResult { name: case.name.clone(), differences: case.run(factory, host) };
        self.cases.iter().map(run).collect()
    }

    /// `granted`, with the grants for which the plugin also asks in these cases, if it gives answers. `host`
    /// makes the host of the cases for given grants.
    #[must_use]
    pub fn grants_asked_for(
        &self,
        factory: &dyn PluginFactory,
        granted: Grants,
        host: impl Fn(Grants) -> CaseHost,
    ) -> Grants {
        // An answer names one effect at a time. The limit stops a plugin that asks for more at each question.
        const MOST: usize = 64;
        let mut enough = granted;
        for _ in 0..MOST {
            let host = host(enough.clone());
            let Some(more) = self.cases.iter().find_map(|case| case.first_not_granted(factory, &host)) else { break };
            enough = more;
        }
        enough
    }

    /// This file with the answers that the plugin gives in its cases.
    ///
    /// # Errors
    /// [`CaseError::Step`] names the first step in which the plugin gives no answers.
    pub fn updated(&self, factory: &dyn PluginFactory, host: &CaseHost) -> Result<Self, CaseError> {
        let cases = self.cases.iter().map(|case| case.updated(factory, host)).collect::<Result<_, _>>()?;
        Ok(Self { cases, ..self.clone() })
    }
}

impl PluginCase {
    fn run(&self, factory: &dyn PluginFactory, host: &CaseHost) -> Vec<String> {
        let mut harness = match (PluginHarness::new(factory, &self.args.to_string()), &self.refused) {
            (Ok(harness), None) => harness,
            (Ok(_), Some(expected)) => return vec![format!("the arguments are accepted, expected: {expected}")],
            (Err(error), Some(expected)) => return refusal_differences(&error.to_string(), expected),
            (Err(error), None) => return vec![format!("the arguments are refused: {error}")],
        };
        let mut differences = Vec::new();
        for (number, step) in (1..).zip(&self.steps) {
            let lines = match self.answers(&mut harness, host, step) {
                Ok(answers) => answers.differences(&step.expect),
                Err(error) => vec![error.to_string()],
            };
            let prefix = if self.steps.len() > 1 { format!("step {number}: ") } else { String::new() };
            differences.extend(lines.into_iter().map(|line| format!("{prefix}{line}")));
        }
        differences
    }

    /// A grant that would be enough for the first refused effect.
    fn first_not_granted(&self, factory: &dyn PluginFactory, host: &CaseHost) -> Option<Grants> {
        let mut harness = PluginHarness::new(factory, &self.args.to_string()).ok()?;
        self.steps.iter().find_map(|step| {
            let answers = self.answers(&mut harness, host, step).ok()?;
            Some(answers.refused.first()?.effect.enough().clone())
        })
    }

    fn updated(&self, factory: &dyn PluginFactory, host: &CaseHost) -> Result<Self, CaseError> {
        let mut case = self.clone();
        match PluginHarness::new(factory, &self.args.to_string()) {
            Err(error) => case.refused = Some(error.to_string()),
            Ok(mut harness) => {
                case.refused = None;
                for (step, (old, new)) in (1..).zip(self.steps.iter().zip(&mut case.steps)) {
                    let answers = self.answers(&mut harness, host, old);
                    let in_step = |error| CaseError::Step { case: self.name.clone(), step, reason: Box::new(error) };
                    new.expect = answers.map_err(in_step)?.into_written();
                }
            }
        }
        Ok(case)
    }

    fn answers(
        &self,
        harness: &mut PluginHarness,
        host: &CaseHost,
        step: &CaseStep,
    ) -> Result<PluginAnswers, CaseError> {
        step.answers(harness, host, if step.pod.is_null() { &self.pod } else { &step.pod })
    }
}

fn refusal_differences(given: &str, expected: &str) -> Vec<String> {
    if given == expected { Vec::new() } else { vec![format!("refused with {given:?}, expected {expected:?}")] }
}
