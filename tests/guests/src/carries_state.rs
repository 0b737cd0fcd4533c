//! Plugins that carry state over a swap, and plugins that fail to do so.

use anyhow::Result;

use crate::encode;

/// The plugin `CarriesState`. The score of every node is the number of pods that this binary or an earlier binary was
/// shown. The plugin only restores states of four bytes.
///
/// # Errors
/// The text does not assemble.
pub fn carries_state() -> Result<Vec<u8>> {
    encode::component(&ITEMS, &[], &encode::module("CarriesState", "", &functions("")))
}

/// The plugin of this name that searches for its state forever.
///
/// # Errors
/// The text does not assemble.
pub fn never_hands_over(name: &str) -> Result<Vec<u8>> {
    encode::component(&ITEMS, &[], &encode::module(name, "", &functions("(loop $search (br $search))")))
}

const ITEMS: [&str; 5] = [
    "export berth:scheduler/lifecycle@0.2.0",
    "export berth:scheduler/sync@0.2.0",
    "export berth:scheduler/cycle@0.2.0",
    "export berth:scheduler/score@0.2.0",
    "export berth:scheduler/state@0.2.0",
];

/// `search` is the part before the state is handed over.
fn functions(search: &str) -> String {
    FUNCTIONS.replace("(SEARCH)", search)
}

const FUNCTIONS: &str = r#"
  (global $pods (mut i32) (i32.const 0))
  (data (i32.const 512) "no state of mine")
  (func (export "berth:scheduler/sync@0.2.0#apply") (param i32))
  (func (export "berth:scheduler/cycle@0.2.0#begin") (param i32)
    (global.set $pods (i32.add (global.get $pods) (i32.const 1))))
  (func (export "berth:scheduler/cycle@0.2.0#end") (param i64))
  (func (export "berth:scheduler/score@0.2.0#score") (param $cycle i64) (param $rows i32) (param $n i32) (result i32)
    (local $at i32)
    (loop $next
      (i64.store offset=3072 (local.get $at) (i64.extend_i32_u (global.get $pods)))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $at) (i32.const 512))))
    (call $ok (i32.const 3072) (i32.wrap_i64 (i64.popcnt (i64.load (local.get $rows))))))
  ;; The answer is a pointer to where the state is, and its length.
  (func (export "berth:scheduler/state@0.2.0#snapshot") (result i32)
    (SEARCH)
    (i32.store (i32.const 2112) (global.get $pods))
    (i32.store (i32.const 2104) (i32.const 2112))
    (i32.store (i32.const 2108) (i32.const 4))
    (i32.const 2104))
  (func (export "berth:scheduler/state@0.2.0#restore") (param $state i32) (param $length i32) (result i32)
    (i32.store8 (i32.const 2048) (i32.ne (local.get $length) (i32.const 4)))
    (i32.store (i32.const 2052) (i32.const 512))
    (i32.store (i32.const 2056) (i32.const 16))
    (if (i32.eq (local.get $length) (i32.const 4)) (then
      (global.set $pods (i32.load (local.get $state)))))
    (i32.const 2048))
"#;
