//! A plugin that no pod on a node affects.

use anyhow::Result;

use crate::encode;

/// The plugin of this name for PreEnqueue, which admits the first pod and traps at the second pod. The plugin follows
/// pods, and answers that no pod affects it. If the plugin then gets a pod on a node, it traps.
///
/// # Errors
/// The text does not assemble.
pub fn unconcerned(name: &str) -> Result<Vec<u8>> {
    let items = [
        "export berth:scheduler/lifecycle@0.2.0",
        "export berth:scheduler/sync@0.2.0",
        "export berth:scheduler/cycle@0.2.0",
        "export berth:scheduler/pre-enqueue@0.2.0",
        "export berth:scheduler/reuse@0.2.0",
    ];
    encode::component(&items, &[], &encode::module(name, "", FUNCTIONS))
}

const FUNCTIONS: &str = r#"
  ;; In the manifest: it follows pods.
  (data (i32.const 280) "\01")
  (global $asked (mut i32) (i32.const 0))
  (global $has_said (mut i32) (i32.const 0))
  (func (export "berth:scheduler/sync@0.2.0#apply") (param $delta i32)
    ;; The number of placed pods.
    (if (i32.and (global.get $has_said) (i32.ne (i32.load offset=72 (local.get $delta)) (i32.const 0)))
      (then (unreachable))))
  (func (export "berth:scheduler/cycle@0.2.0#begin") (param $parameters i32))
  (func (export "berth:scheduler/cycle@0.2.0#end") (param $cycle i64))
  (func (export "berth:scheduler/reuse@0.2.0#reach-of") (param $cycle i64) (result i32)
    ;; The fourth case, which holds nothing.
    (i32.store8 (i32.const 2048) (i32.const 3))
    (global.set $has_said (i32.const 1))
    (i32.const 2048))
  (func (export "berth:scheduler/pre-enqueue@0.2.0#pre-enqueue") (param $pod i32) (result i32)
    (if (global.get $asked) (then (unreachable)))
    (global.set $asked (i32.const 1))
    (call $ok (i32.const 0) (i32.const 0)))"#;
