//! The kinds of readers for the output of a command: people or programs.

use clap::ValueEnum;

/// `-o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
}
