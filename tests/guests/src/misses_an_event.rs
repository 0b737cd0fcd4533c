//! A plugin that does not register for the event that makes its pods schedulable.

use anyhow::Result;

use crate::encode;

/// The plugin of this name for PreFilter, which rejects pods until it learns of a pod on a node. The plugin registers
/// only for new nodes, so its rejected pods are not tried again when another pod gets a node.
///
/// # Errors
/// The text does not assemble.
pub fn misses_an_event(name: &str) -> Result<Vec<u8>> {
    let items = [
        "export berth:scheduler/lifecycle@0.2.0",
        "export berth:scheduler/sync@0.2.0",
        "export berth:scheduler/cycle@0.2.0",
        "export berth:scheduler/pre-filter@0.2.0",
    ];
    encode::component(&items, &[], &encode::module(name, "", FUNCTIONS))
}

const FUNCTIONS: &str = r#"
  ;; In the manifest: it follows pods.
  (data (i32.const 280) "\01")
  ;; In the manifest: it registers for a list with one event, whose resource is `Node` and whose only action is `add`.
  (data (i32.const 292) "\01\00\00\00\00\02\00\00\01\00\00\00")
  (data (i32.const 512) "\20\02\00\00\04\00\00\00\01\00\00\00")
  (data (i32.const 544) "Node")
  (global $is_placed (mut i32) (i32.const 0))
  (func (export "berth:scheduler/sync@0.2.0#apply") (param $delta i32)
    ;; The number of placed pods.
    (if (i32.load offset=72 (local.get $delta)) (then (global.set $is_placed (i32.const 1)))))
  (func (export "berth:scheduler/cycle@0.2.0#begin") (param $parameters i32))
  (func (export "berth:scheduler/cycle@0.2.0#end") (param $cycle i64))
  (func (export "berth:scheduler/pre-filter@0.2.0#pre-filter") (param $cycle i64) (result i32)
    (if (i32.eqz (global.get $is_placed)) (then (return (call $err (i32.const 2)))))
    (call $ok (i32.const 0) (i32.const 0)))"#;
