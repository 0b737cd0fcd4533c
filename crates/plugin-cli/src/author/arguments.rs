//! The plugin's arguments (`pluginConfig`) as `verify` and `bench` take them: where they are from, and what is wrong with them.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use berth_author::{HarnessError, Situation};
use berth_config::Usage;
use berth_framework::BuildError;
use serde_json::Value;

/// Where arguments stand.
pub(super) enum Source {
    /// On the command line.
    Option,
    /// In a case of a file, by its name.
    Case { file: PathBuf, case: String },
    /// Nowhere.
    None,
}

impl Source {
    pub(super) fn case(file: &Path, situation: &Situation) -> Self {
        Self::Case { file: file.to_owned(), case: situation.name().unwrap_or_default().to_owned() }
    }

    /// With the place of the arguments, if the plugin refuses these.
    pub(super) fn explain(&self, error: HarnessError) -> anyhow::Error {
        let text = format!("{self}: {error}");
        match error {
            HarnessError::Build(BuildError::Refused(_)) => Usage(text).into(),
            HarnessError::Build(BuildError::Start(_))
            | HarnessError::Call(_)
            | HarnessError::Object(_)
            | HarnessError::Pod(_) => anyhow::Error::msg(text),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option => formatter.write_str("--args"),
            Self::Case { file, case } => write!(formatter, "{}: case {case:?}", file.display()),
            Self::None => formatter.write_str("no arguments (set some with --args JSON or --cases FILE)"),
        }
    }
}

/// The value of `--args`, for the plugin as it stands.
///
/// # Errors
/// The value is no JSON: plugins in some languages would trap on it.
pub(super) fn checked(args: &str) -> Result<&str, Usage> {
    match serde_json::from_str::<Value>(args) {
        Ok(_) => Ok(args),
        Err(error) => Err(Usage(format!(
            "--args: not valid JSON: {error}; expected JSON such as '{{\"key\": \"value\"}}', with keys and texts in double quotes"
        ))),
    }
}
