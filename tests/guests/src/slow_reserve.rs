//! A plugin that needs a long time for each placed pod, and then holds the pod.

use anyhow::Result;

use crate::encode;

/// The plugin of this name, which takes some hundred milliseconds for each Reserve and lets every pod wait at Permit
/// for ten minutes.
///
/// # Errors
/// The text does not assemble.
pub fn slow_reserve(name: &str) -> Result<Vec<u8>> {
    let items = [
        "export berth:scheduler/lifecycle@0.2.0",
        "export berth:scheduler/sync@0.2.0",
        "export berth:scheduler/cycle@0.2.0",
        "export berth:scheduler/reserve@0.2.0",
        "export berth:scheduler/permit@0.2.0",
    ];
    encode::component(&items, &[], &encode::module(name, "", FUNCTIONS))
}

const FUNCTIONS: &str = r#"
  (func (export "berth:scheduler/sync@0.2.0#apply") (param $delta i32))
  (func (export "berth:scheduler/cycle@0.2.0#begin") (param $parameters i32))
  (func (export "berth:scheduler/cycle@0.2.0#end") (param $cycle i64))
  (func (export "berth:scheduler/reserve@0.2.0#reserve") (param $cycle i64) (param $node i32) (result i32)
    (local $turns i32)
    (loop $dawdle
      (local.set $turns (i32.add (local.get $turns) (i32.const 1)))
      (br_if $dawdle (i32.lt_u (local.get $turns) (i32.const 800000000))))
    (call $ok (i32.const 0) (i32.const 0)))
  (func (export "berth:scheduler/reserve@0.2.0#unreserve") (param $cycle i64) (param $node i32) (result i32)
    (i64.store (i32.const 2048) (i64.const 0))
    (i32.const 2048))
  (func (export "berth:scheduler/permit@0.2.0#permit") (param $cycle i64) (param $node i32) (result i32)
    (i32.store (i32.const 2048) (i32.const 1))
    (i64.store (i32.const 2056) (i64.const 600000))
    (i64.store (i32.const 2072) (i64.const 0))
    (i32.const 2048))"#;
