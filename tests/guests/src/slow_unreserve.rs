//! A plugin that lets all its pods be rejected at the same time, and needs a long time for each Unreserve.

use anyhow::Result;

use crate::encode;

/// The plugin of this name. Permit holds each pod until the clock shows a multiple of eight seconds, and at least for a
/// second. Unreserve takes about ten milliseconds.
///
/// # Errors
/// The text does not assemble.
pub fn slow_unreserve(name: &str) -> Result<Vec<u8>> {
    let items = [
        "import berth:scheduler/host@0.2.0",
        "export berth:scheduler/lifecycle@0.2.0",
        "export berth:scheduler/sync@0.2.0",
        "export berth:scheduler/cycle@0.2.0",
        "export berth:scheduler/reserve@0.2.0",
        "export berth:scheduler/permit@0.2.0",
    ];
    encode::component(&items, &[], &encode::module(name, IMPORTS, FUNCTIONS))
}

const IMPORTS: &str = r#"(import "berth:scheduler/host@0.2.0" "now" (func $now (result i64)))"#;

const FUNCTIONS: &str = r#"
  (func (export "berth:scheduler/sync@0.2.0#apply") (param $delta i32))
  (func (export "berth:scheduler/cycle@0.2.0#begin") (param $parameters i32))
  (func (export "berth:scheduler/cycle@0.2.0#end") (param $cycle i64))
  (func (export "berth:scheduler/reserve@0.2.0#reserve") (param $cycle i64) (param $node i32) (result i32)
    (call $ok (i32.const 0) (i32.const 0)))
  (func (export "berth:scheduler/reserve@0.2.0#unreserve") (param $cycle i64) (param $node i32) (result i32)
    (local $turns i32)
    (loop $dawdle
      (local.set $turns (i32.add (local.get $turns) (i32.const 1)))
      (br_if $dawdle (i32.lt_u (local.get $turns) (i32.const 100000000))))
    (i64.store (i32.const 2048) (i64.const 0))
    (i32.const 2048))
  (func (export "berth:scheduler/permit@0.2.0#permit") (param $cycle i64) (param $node i32) (result i32)
    (i32.store (i32.const 2048) (i32.const 1))
    (i64.store (i32.const 2056)
      (i64.sub (i64.const 9000) (i64.rem_u (i64.add (call $now) (i64.const 1000)) (i64.const 8000))))
    (i64.store (i32.const 2072) (i64.const 0))
    (i32.const 2048))"#;
