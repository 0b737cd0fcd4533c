//! The results of the checks.

use serde::Serialize;

/// The advice about a plugin that no profile uses.
pub(crate) const IN_NO_PROFILE: &str =
    "enable it in a profile of --config (`plugins.multiPoint.enabled`), or remove its file";

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub area: Area,
    pub result: Verdict,
    /// The subject of the check, and its condition. A YAML error spans several lines.
    pub text: String,
    /// The action that corrects the problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

/// The area that a check belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Area {
    Configuration,
    Plugins,
    Cache,
    Cluster,
    Scheduler,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    Warning,
    Problem,
}

/// All findings so far, in the order of the checks.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    pub(crate) fn ok(&mut self, area: Area, text: impl Into<String>) {
        self.0.push(Finding { area, result: Verdict::Ok, text: text.into(), fix: None });
    }

    pub(crate) fn warning(&mut self, area: Area, text: impl Into<String>, fix: impl Into<String>) {
        self.0.push(Finding { area, result: Verdict::Warning, text: text.into(), fix: Some(fix.into()) });
    }

    pub(crate) fn problem(&mut self, area: Area, text: impl Into<String>, fix: impl Into<String>) {
        self.0.push(Finding { area, result: Verdict::Problem, text: text.into(), fix: Some(fix.into()) });
    }

    pub(crate) fn into_vec(self) -> Vec<Finding> {
        self.0
    }
}

impl Area {
    /// The name of the area, as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Plugins => "plugins",
            Self::Cache => "cache",
            Self::Cluster => "cluster",
            Self::Scheduler => "scheduler",
        }
    }
}
