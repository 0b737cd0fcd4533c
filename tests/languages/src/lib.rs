//! Plugins in every language: built as their authors build them, loaded as the scheduler loads them, and compared with
//! one list of answers.

mod language;
mod probe;

pub use language::{LANGUAGES, Language, build, folder, load};
pub use probe::{awkward_cluster, dump};
