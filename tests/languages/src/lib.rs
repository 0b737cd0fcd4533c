//! Plugins in every language. They are built in the way of their authors, loaded in the way of the scheduler, and
//! compared with one list of answers.

mod language;
mod probe;

pub use language::{LANGUAGES, Language, build, folder, load};
pub use probe::{awkward_cluster, dump};
