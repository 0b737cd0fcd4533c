//! Mistakes in a configuration, in words that help an operator to correct them.
//!
//! The reader does not stop at the first mistake. [`Problems`] collects the mistakes, and [`ConfigError`] shows one
//! mistake in each line, with the file and the field. Errors about fields have the same words as in Kubernetes.

use std::{cell::RefCell, fmt};

use serde_json::Value;

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The text is not YAML or JSON, or contains a key twice.
    #[error("{file}: not valid YAML or JSON, correct the syntax: {source}")]
    Syntax {
        /// The name that the caller gave to the text.
        file: String,
        /// The message of the parser, with line and column.
        #[source]
        source: Box<serde_saphyr::Error>,
    },
    /// The text can be read, but its settings are not possible.
    #[error("{}", in_file(file, problems))]
    Invalid {
        /// The name that the caller gave to the text.
        file: String,
        /// All problems, in the order in which they were found. Never empty.
        problems: Vec<Problem>,
    },
    /// The settings could not be written down as YAML.
    #[error("could not render the configuration as YAML: {0}")]
    Render(#[source] serde_saphyr::SerializeError),
}

/// The command line, or a file that the command line names, is wrong. The command has started nothing. A command that
/// fails with this error exits with code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// One mistake at one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field, such as `profiles[0].plugins.score.enabled[2]`. It is empty for the whole document.
    pub path: String,
    /// The problem and, if it is not obvious, the remedy.
    pub message: String,
}

/// The mistakes that were found so far. The list is shared by reference while a document is read.
#[derive(Debug, Default)]
pub(crate) struct Problems(RefCell<Vec<Problem>>);

impl Problems {
    pub(crate) fn add(&self, path: &str, message: impl Into<String>) {
        self.0.borrow_mut().push(Problem { path: path.to_owned(), message: message.into() });
    }

    /// Reports that the field has a value of the right type that is not acceptable.
    pub(crate) fn invalid(&self, path: &str, value: impl Into<Value>, why: impl fmt::Display) {
        self.add(path, format!("Invalid value: {}: {why}", value.into()));
    }

    pub(crate) fn required(&self, path: &str, why: &str) {
        self.add(path, format!("Required value: {why}"));
    }

    pub(crate) fn forbidden(&self, path: &str, why: &str) {
        self.add(path, format!("Forbidden: {why}"));
    }

    pub(crate) fn duplicate(&self, path: &str, value: impl Into<Value>) {
        self.add(path, format!("Duplicate value: {}: keep one of them", value.into()));
    }

    pub(crate) fn unsupported(&self, path: &str, value: impl Into<Value>, supported: &[&str]) {
        let supported = supported.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        self.add(path, format!("Unsupported value: {}: supported values: {supported}", value.into()));
    }

    /// Takes the problems that were found so far. Fails with these problems if there are any.
    pub(crate) fn settle(&self, file: &str) -> Result<(), ConfigError> {
        let problems = self.0.take();
        if problems.is_empty() {
            return Ok(());
        }
        Err(ConfigError::Invalid { file: file.to_owned(), problems })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}

fn in_file(file: &str, problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("{file}: {problem}")).collect::<Vec<_>>().join("\n")
}
