//! Reading a file of cases: what is wrong is told with the file, the field and, if the text has another form, the line.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    case_file::CaseFile,
    case_objects::{self, UnknownKey},
};

/// Why a file of cases cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaseFileError {
    /// There is no such file, or it cannot be read.
    #[error("cannot read {path}", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// The text is no YAML or JSON, or has another form. `field` is empty, or names the place: `cases[0].name: `.
    #[error("{path}: {field}{reason}", path = .path.display())]
    Parse { path: PathBuf, field: String, reason: Box<serde_saphyr::Error> },
    /// An object in it has a key that there is not.
    #[error("{path}: {1}", path = .0.display())]
    Object(PathBuf, UnknownKey),
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

    /// Reads YAML or JSON. `path` only serves error messages.
    ///
    /// # Errors
    /// The text has another form.
    pub fn from_text(path: &Path, text: &str) -> Result<Self, CaseFileError> {
        let mut field = String::new();
        let read = serde_saphyr::with_deserializer_from_str(text, |deserializer| {
            serde_path_to_error::deserialize(deserializer).map_err(|error| {
                field = error.path().to_string();
                error.into_inner()
            })
        });
        let file = read.map_err(|reason| {
            // The top of the document is a dot.
            let field = if field.is_empty() || field == "." { String::new() } else { format!("{field}: ") };
            CaseFileError::Parse { path: path.to_owned(), field, reason: Box::new(reason) }
        })?;
        case_objects::check(&file).map_err(|unknown| CaseFileError::Object(path.to_owned(), unknown))?;
        Ok(file)
    }
}
