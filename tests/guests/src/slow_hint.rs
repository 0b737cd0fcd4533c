//! A plugin that rejects every pod, and needs a long time for each event.

use anyhow::Result;

use crate::encode;

/// The plugin of this name. PreFilter rejects all pods, and each queueing hint takes about ten milliseconds and answers
/// that the event changes nothing.
///
/// # Errors
/// The text does not assemble.
pub fn slow_hint(name: &str) -> Result<Vec<u8>> {
    hinting(name, DAWDLES)
}

/// The plugin with a hint that traps.
///
/// # Errors
/// The text does not assemble.
pub fn trapping_hint(name: &str) -> Result<Vec<u8>> {
    hinting(name, "unreachable")
}

fn hinting(name: &str, hint: &str) -> Result<Vec<u8>> {
    let items = [
        "export berth:scheduler/lifecycle@0.2.0",
        "export berth:scheduler/sync@0.2.0",
        "export berth:scheduler/cycle@0.2.0",
        "export berth:scheduler/pre-filter@0.2.0",
        "export berth:scheduler/queueing-hint@0.2.0",
    ];
    encode::component(&items, &[], &encode::module(name, "", &FUNCTIONS.replace("$HINT", hint)))
}

const FUNCTIONS: &str = r#"
  (func (export "berth:scheduler/sync@0.2.0#apply") (param $delta i32))
  (func (export "berth:scheduler/cycle@0.2.0#begin") (param $parameters i32))
  (func (export "berth:scheduler/cycle@0.2.0#end") (param $cycle i64))
  (func (export "berth:scheduler/pre-filter@0.2.0#pre-filter") (param $cycle i64) (result i32)
    (call $err (i32.const 2)))
  (func (export "berth:scheduler/queueing-hint@0.2.0#queueing-hint") (param $parameters i32) (result i32)
    $HINT)"#;

const DAWDLES: &str = "
    (local $turns i32)
    (loop $dawdle
      (local.set $turns (i32.add (local.get $turns) (i32.const 1)))
      (br_if $dawdle (i32.lt_u (local.get $turns) (i32.const 40000000))))
    (i32.const 0)";
