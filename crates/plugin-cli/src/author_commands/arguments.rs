//! The plugin's arguments (`pluginConfig`) for `verify` and `bench`: their source, and their mistakes.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use berth_author::{HarnessError, Situation};
use berth_config::Usage;
use berth_framework::BuildError;
use serde_json::Value;

/// The source of arguments.
pub(super) enum Source {
    /// The command line.
    Option,
    /// A case of a file, with its name.
    Case { file: PathBuf, case: String },
    /// There are no arguments.
    None,
}

impl Source {
    pub(super) fn case(file: &Path, situation: &Situation) -> Self {
        Self::Case { file: file.to_owned(), case: situation.name().unwrap_or_default().to_owned() }
    }

    /// The error, with the source of the arguments if the plugin refuses them.
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

/// Checks the value of `--args` before the plugin gets it.
///
/// # Errors
/// The value is not JSON. Plugins in some languages would trap on a value that is not JSON.
pub(super) fn checked(args: &str) -> Result<&str, Usage> {
    match serde_json::from_str::<Value>(args) {
        Ok(_) => Ok(args),
        Err(error) => Err(Usage(format!(
            "--args: not valid JSON: {error}; expected JSON such as '{{\"key\": \"value\"}}', with keys and texts in double quotes"
        ))),
    }
}
