//! Files of expected answers; `plugins/examples/node-metadata.cases.yaml` explains the form.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};
use berth_model::api;
use serde::Deserialize;

/// One file: a plugin and what it answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    pub plugin: String,
    pub cases: Vec<Case>,
}

/// A configuration of the plugin, and what it answers over a time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    #[serde(default)]
    pub args: serde_json::Value,
    /// The error that configuring gives.
    pub refused: Option<String>,
    #[serde(default)]
    pub pod: api::Pod,
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// A change of the cluster, and the answers after it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// New or changed.
    #[serde(default)]
    pub nodes: Vec<api::Node>,
    /// Names of nodes that leave, before `nodes` come.
    #[serde(default)]
    pub gone: Vec<String>,
    /// On nodes.
    #[serde(default)]
    pub pods: Vec<api::Pod>,
    pub expect: Answers,
}

/// A plugin's answers by the nodes' names.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answers {
    #[serde(default)]
    pub rejected: BTreeMap<String, Rejection>,
    /// Of the nodes that pass.
    #[serde(default)]
    pub scores: BTreeMap<String, i64>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rejection {
    pub code: String,
    pub reasons: Vec<String>,
}

impl Suite {
    /// # Errors
    /// When the file can't be read, or has another form.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        serde_saphyr::from_str(&text).with_context(|| format!("in {}", path.display()))
    }
}
