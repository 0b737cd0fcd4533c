//! A plugin that accepts the initial cluster, but traps at its first change.

use anyhow::Result;

use crate::encode;

/// The plugin of this name for PreEnqueue, which follows pods and lets everything pass. The plugin traps when its
/// replica is updated for the second time.
///
/// # Errors
/// The text does not assemble.
pub fn traps_at_news(name: &str) -> Result<Vec<u8>> {
    let items = [
        "export berth:scheduler/lifecycle@0.2.0",
        "export berth:scheduler/sync@0.2.0",
        "export berth:scheduler/cycle@0.2.0",
        "export berth:scheduler/pre-enqueue@0.2.0",
    ];
    encode::component(&items, &[], &encode::module(name, "", FUNCTIONS))
}

const FUNCTIONS: &str = r#"
  ;; In the manifest: it follows pods.
  (data (i32.const 280) "\01")
  (global $told (mut i32) (i32.const 0))
  (func (export "berth:scheduler/sync@0.2.0#apply") (param $delta i32)
    (if (global.get $told) (then (unreachable)))
    (global.set $told (i32.const 1)))
  (func (export "berth:scheduler/cycle@0.2.0#begin") (param $parameters i32))
  (func (export "berth:scheduler/cycle@0.2.0#end") (param $cycle i64))
  (func (export "berth:scheduler/pre-enqueue@0.2.0#pre-enqueue") (param $pod i32) (result i32)
    (call $ok (i32.const 0) (i32.const 0)))"#;
