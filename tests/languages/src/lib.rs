//! Plugins in languages other than Rust: built as their authors build them, loaded as the scheduler loads them, and
//! compared with one list of answers.

mod cases;
mod language;
mod probe;
mod subject;

pub use cases::{Case, Suite};
pub use language::{LANGUAGES, Language, build, folder};
pub use probe::{awkward_cluster, dump};
pub use subject::{Subject, load};
