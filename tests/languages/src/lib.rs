//! Plugins in every language. The tests build plugins as authors do, load plugins as the scheduler does, and compare
//! them with one list of answers.

mod language;
mod probe;

pub use language::{LANGUAGES, Language, build, folder, load};
pub use probe::{awkward_cluster, dump};
