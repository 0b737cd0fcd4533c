//! The kinds of rounds.

use clap::ValueEnum;

/// The ways in which pods come, and their requirements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoundKind {
    /// One change at a time, with the default profile.
    Steps,
    /// All pods before the schedulers start, with weights that leave no ties.
    Backlog,
    /// Steps with devices, claims for them and their controller.
    Devices,
    /// Steps with volumes, claims for them and their controllers.
    Volumes,
}

impl RoundKind {
    /// The kind of the round with this number, if none is asked for.
    pub(crate) fn in_turn(number: u32) -> Self {
        match number % 4 {
            0 => Self::Steps,
            1 => Self::Backlog,
            2 => Self::Devices,
            _ => Self::Volumes,
        }
    }
}
