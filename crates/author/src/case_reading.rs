//! Reads a file of cases. An error names the file and the field, and the line if the text has the wrong form.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    case_file::CaseFile,
    case_objects::{self, CaseObjectError},
};

/// The reason why a file of cases cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaseFileError {
    /// The file does not exist, or cannot be read.
    #[error("cannot read {path}", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The text is not YAML or JSON, or has another form. `field` is empty, or names the place: `cases[0].name: `.
    #[error("{path}: {field}{reason}", path = .path.display())]
    Parse { path: PathBuf, field: String, reason: Box<serde_saphyr::Error> },
    /// An object in the file has a mistake. `line` is the number of its line, if the line is certain.
    #[error("{path}{line}: {reason}", path = .path.display(), line = .line.map(|it| format!(":{it}")).unwrap_or_default())]
    Object { path: PathBuf, line: Option<usize>, reason: CaseObjectError },
}

impl CaseFile {
    /// Reads a YAML or JSON file.
    ///
    /// # Errors
    /// The file can't be read, or has another form.
    pub fn read(path: &Path) -> Result<Self, CaseFileError> {
        let text = fs::read_to_string(path).map_err(|error| CaseFileError::Read(path.to_owned(), error))?;
        Self::from_text(path, &text)
    }

    /// Reads YAML or JSON. `path` is only used in error messages.
    ///
    /// # Errors
    /// The text has another form.
    pub fn from_text(path: &Path, text: &str) -> Result<Self, CaseFileError> {
        let file = parse(text).map_err(|WrongText { field, reason }| CaseFileError::Parse {
            path: path.to_owned(),
            field,
            reason,
        })?;
        case_objects::check(&file).map_err(|reason| {
            let line = reason.line(text);
            CaseFileError::Object { path: path.to_owned(), line, reason }
        })?;
        Ok(file)
    }
}

/// The reason why a text is not a file of cases.
#[derive(Debug)]
pub(crate) struct WrongText {
    /// The place of the mistake, such as `cases[0].name: `, or empty.
    field: String,
    reason: Box<serde_saphyr::Error>,
}

/// Reads YAML or JSON. The objects of the cases are not checked.
pub(crate) fn parse(text: &str) -> Result<CaseFile, WrongText> {
    let mut field = String::new();
    let read = serde_saphyr::with_deserializer_from_str(text, |deserializer| {
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            field = error.path().to_string();
            error.into_inner()
        })
    });
    read.map_err(|reason| {
        // Without a known key, the path is a dot or ends with a question mark, which do not help an author.
        let known = field.trim_end_matches(['.', '?']);
        let field = if known.is_empty() { String::new() } else { format!("{known}: ") };
        WrongText { field, reason: Box::new(reason) }
    })
}
