//! Filter plugins with first calls that fail: `describe`, when their file is loaded, or `configure`, when an instance
//! is made.

use anyhow::Result;

use crate::{
    encode::Start,
    points::{self, At},
};

/// The failure of [`bad_start`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadStart {
    TrapInDescribe,
    LoopInDescribe,
    TrapInConfigure,
    LoopInConfigure,
    /// Refuses all arguments.
    RefuseArguments,
}

impl BadStart {
    pub const ALL: [BadStart; 5] = [
        BadStart::TrapInDescribe,
        BadStart::LoopInDescribe,
        BadStart::TrapInConfigure,
        BadStart::LoopInConfigure,
        BadStart::RefuseArguments,
    ];

    /// The common part of the messages about the refusal.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            BadStart::TrapInDescribe => "trapped in describe",
            BadStart::LoopInDescribe => "took too long in describe",
            BadStart::TrapInConfigure => "trapped in configure",
            BadStart::LoopInConfigure => "took too long in configure",
            BadStart::RefuseArguments => "refused on demand",
        }
    }

    fn start(self) -> Start {
        let (trap, forever) = ("unreachable", "(loop $forever (br $forever))");
        let nothing = Start::default();
        match self {
            BadStart::TrapInDescribe => Start { describe: trap, ..nothing },
            BadStart::LoopInDescribe => Start { describe: forever, ..nothing },
            BadStart::TrapInConfigure => Start { configure: trap, ..nothing },
            BadStart::LoopInConfigure => Start { configure: forever, ..nothing },
            BadStart::RefuseArguments => Start { configure: "(local.set $length (i32.const 8))", ..nothing },
        }
    }
}

/// The plugin of this name that fails before it serves.
///
/// # Errors
/// The text does not assemble.
pub fn bad_start(name: &str, harm: BadStart) -> Result<Vec<u8>> {
    points::plugin_that_starts(name, At::Filter, "", (0, 0), "", harm.start())
}

/// The plugin of this name that takes some hundred milliseconds of processor time in `configure`, and traps in Filter.
///
/// # Errors
/// The text does not assemble.
pub fn starts_slowly_and_traps(name: &str) -> Result<Vec<u8>> {
    let configure = "(loop $more
      (local.set $count (i64.add (local.get $count) (i64.const 1)))
      (br_if $more (i64.lt_u (local.get $count) (i64.const 600000000))))";
    let start = Start { configure, ..Start::default() };
    points::plugin_that_starts(name, At::Filter, "unreachable", (0, 0), "", start)
}
