//! A plugin that answers with the bytes in its arguments. This simulates any content of a plugin's memory in the place
//! of its answer.

use anyhow::Result;

use crate::points::{self, At};

/// The address of the answer of [`answers`], so that its pointers can point to it.
pub const ANSWER_ADDRESS: u32 = 65_536;

/// The plugin of this name with an answer at an extension point that its arguments give as letters. This is for points
/// with an answer.
///
/// # Errors
/// The text does not assemble.
pub fn answers(name: &str, at: At) -> Result<Vec<u8>> {
    points::plugin(name, at, "(return (call $decoded))", (0, 0), DECODED)
}

/// Bytes in the form of the plugin's arguments: a letter from `a` to `p` for each half of a byte.
#[must_use]
pub fn in_letters(bytes: &[u8]) -> String {
    let letter = |half: u8| char::from(b'a' + half);
    bytes.iter().flat_map(|byte| [letter(byte >> 4), letter(byte & 15)]).collect()
}

/// The arguments are the first thing that is allocated, at 131,072. Memory beyond the arguments is zero.
const DECODED: &str = r"
  (func $decoded (result i32)
    (local $from i32) (local $to i32) (local $half i32)
    (local.set $from (i32.const 131072))
    (local.set $to (i32.const 65536))
    (block $end
      (loop $next
        (local.set $half (i32.sub (i32.load8_u (local.get $from)) (i32.const 97)))
        (br_if $end (i32.ge_u (local.get $half) (i32.const 16)))
        (i32.store8 (local.get $to) (i32.or
          (i32.shl (local.get $half) (i32.const 4))
          (i32.and (i32.sub (i32.load8_u offset=1 (local.get $from)) (i32.const 97)) (i32.const 15))))
        (local.set $from (i32.add (local.get $from) (i32.const 2)))
        (local.set $to (i32.add (local.get $to) (i32.const 1)))
        (br_if $next (i32.lt_u (local.get $to) (i32.const 131072)))))
    (i32.const 65536))";

impl At {
    /// The points at which [`answers`] gives an answer.
    pub fn answering() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|at| !matches!(at, Self::Sync | Self::Begin | Self::PostBind))
    }
}
