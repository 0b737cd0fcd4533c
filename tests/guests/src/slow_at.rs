//! Plugins that let everything pass, but slowly.

use anyhow::Result;

use crate::points::{self, At};

/// The plugin of this name that takes about `milliseconds` for each call at an extension point.
///
/// # Errors
/// The text does not assemble.
pub fn slow_at(name: &str, at: At, milliseconds: u32) -> Result<Vec<u8>> {
    // The number of loops per millisecond on a current machine.
    let turns = milliseconds.saturating_mul(2_500_000);
    points::plugin(name, at, &format!("(call $dawdle (i32.const {turns}))"), (0, 0), FUNCTIONS)
}

const FUNCTIONS: &str = r"
  (func $dawdle (param $left i32)
    (loop $more
      (local.set $left (i32.sub (local.get $left) (i32.const 1)))
      (br_if $more (i32.gt_u (local.get $left) (i32.const 0)))))";
