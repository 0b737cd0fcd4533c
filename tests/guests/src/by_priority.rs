//! A plugin that behaves in a cycle according to the priority of the pod.

use anyhow::Result;

use crate::encode;

/// The behaviour of [`by_priority`] in a cycle, which depends on the pod's priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Behavior {
    /// Passes every node; scores each node with the number of nodes that the plugin knows, plus 1000 for each
    /// reservation.
    Normal = 0,
    /// Logs an error and traps in filter.
    Trap = 1,
    /// Loops forever in filter.
    Loop = 2,
    /// Grows its memory in filter up to the limit.
    ExhaustMemory = 3,
    /// Passes a node in filter that is not a candidate, and gives one score too few.
    WrongAnswers = 4,
    /// Answers filter with 64 MiB.
    HugeAnswer = 5,
    /// Scores with the result of `host.now`.
    ScoreWithTime = 6,
    /// Answers filter with an error of code success.
    ErrorOfSuccess = 7,
    /// Answers filter with a list outside its memory.
    PointerOutside = 8,
    /// Logs a thousand lines.
    LogMuch = 9,
    /// Passes every node and scores each with 50.
    SameScores = 10,
    /// Scores nodes far beyond 100.
    ScoreTooHigh = 11,
    /// Takes some milliseconds for filter, then passes and scores as [`Behavior::SameScores`] does.
    Slow = 12,
    /// Answers dry runs with no status.
    ShortDryRun = 13,
    /// Answers filter with an error.
    Error = 14,
    /// Reports in filter a read of data which its manifest does not name.
    ReadUndeclared = 15,
}

impl Behavior {
    /// The priority that a pod must have.
    #[must_use]
    pub fn priority(self) -> i32 {
        self as i32
    }
}

/// The plugin `ByPriority`: filter, score and reserve over a replica of node names.
///
/// # Errors
/// The text does not assemble.
pub fn by_priority() -> Result<Vec<u8>> {
    by_priority_named("ByPriority")
}

/// The plugin under another name of at most 128 bytes. The result is another binary for a swap.
///
/// # Errors
/// The text does not assemble.
pub fn by_priority_named(name: &str) -> Result<Vec<u8>> {
    assemble(name, FUNCTIONS)
}

/// The plugin under another name, with a manifest that asks for pods as JSON.
///
/// # Errors
/// The text does not assemble.
pub fn wants_pod_json(name: &str) -> Result<Vec<u8>> {
    // The offset is in the manifest, after three lists and `pods`.
    assemble(name, &format!("{FUNCTIONS}\n  (data (i32.const 281) \"\\01\")"))
}

/// The plugin under another name. This plugin follows pods, and counts the pods that are placed and removed as `placed`
/// and `removed`.
///
/// # Errors
/// The text does not assemble.
pub fn follows_pods(name: &str) -> Result<Vec<u8>> {
    let counts = r#"
    (call $count (i32.const 576) (i32.const 7) (i64.extend_i32_u (i32.load offset=64 (local.get $delta))))
    (call $count (i32.const 592) (i32.const 6) (i64.extend_i32_u (i32.load offset=72 (local.get $delta))))"#;
    let apply = "#apply\") (param $delta i32)";
    let functions = FUNCTIONS.replace(apply, &format!("{apply}{counts}"));
    let data = r#"
  (data (i32.const 280) "\01")
  (data (i32.const 576) "removed")
  (data (i32.const 592) "placed")"#;
    assemble(name, &format!("{functions}{data}"))
}

/// A plugin of this name that always behaves in this way, for every pod.
///
/// # Errors
/// The text does not assemble.
pub fn always(name: &str, behavior: Behavior) -> Result<Vec<u8>> {
    let of_the_pod = "(i32.load offset=40 (local.get $parameters))";
    assemble(name, &FUNCTIONS.replace(of_the_pod, &format!("(i32.const {})", behavior.priority())))
}

fn assemble(name: &str, functions: &str) -> Result<Vec<u8>> {
    let items = [
        "import berth:scheduler/host@0.2.0",
        "export berth:scheduler/lifecycle@0.2.0",
        "export berth:scheduler/sync@0.2.0",
        "export berth:scheduler/cycle@0.2.0",
        "export berth:scheduler/filter@0.2.0",
        "export berth:scheduler/score@0.2.0",
        "export berth:scheduler/reserve@0.2.0",
    ];
    encode::component(&items, &[], &encode::module(name, IMPORTS, functions))
}

const IMPORTS: &str = r#"
  (import "berth:scheduler/host@0.2.0" "log" (func $log (param i32 i32 i32)))
  (import "berth:scheduler/host@0.2.0" "now" (func $now (result i64)))
  (import "berth:scheduler/host@0.2.0" "count" (func $count (param i32 i32 i64)))"#;

const FUNCTIONS: &str = r#"
  (global $nodes (mut i32) (i32.const 0))
  (global $behavior (mut i32) (i32.const 0))
  (global $reserved (mut i32) (i32.const 0))
  (data (i32.const 512) "a test trap")
  (data (i32.const 528) "begun")
  (data (i32.const 544) "whole")
  (data (i32.const 560) "undeclared read: column labels")
  ;; The delta lies in memory: generation, full, and the lists, of which removed is the fourth and added the fifth.
  (func (export "berth:scheduler/sync@0.2.0#apply") (param $delta i32)
    (if (i32.load8_u offset=8 (local.get $delta)) (then (global.set $nodes (i32.const 0))))
    (global.set $nodes (i32.sub
      (i32.add (global.get $nodes) (i32.load offset=48 (local.get $delta)))
      (i32.load offset=40 (local.get $delta)))))
  ;; The parameters lie in memory: the cycle, then the pod, whose priority is 32 bytes in, and its JSON, if there is any, 408.
  (func (export "berth:scheduler/cycle@0.2.0#begin") (param $parameters i32)
    (if (i32.load8_u offset=416 (local.get $parameters)) (then (call $count (i32.const 544) (i32.const 5) (i64.const 1))))
    (global.set $behavior (i32.load offset=40 (local.get $parameters)))
    (call $count (i32.const 528) (i32.const 5) (i64.const 1)))
  (func (export "berth:scheduler/cycle@0.2.0#end") (param $cycle i64))
  (func $behavior_is (param $behavior i32) (result i32) (i32.eq (global.get $behavior) (local.get $behavior)))
  (func (export "berth:scheduler/filter@0.2.0#filter") (param $cycle i64) (param $rows i32) (param $n i32) (result i32)
    (local $lines i32)
    (if (call $behavior_is (i32.const 1)) (then
      (call $log (i32.const 3) (i32.const 512) (i32.const 11))
      unreachable))
    (if (call $behavior_is (i32.const 15)) (then (call $log (i32.const 2) (i32.const 560) (i32.const 30))))
    (if (call $behavior_is (i32.const 2)) (then (loop $forever (br $forever))))
    (if (call $behavior_is (i32.const 3)) (then (loop $more (drop (memory.grow (i32.const 16))) (br $more))))
    (if (call $behavior_is (i32.const 4)) (then
      (i64.store (local.get $rows) (i64.const -1))))
    (if (call $behavior_is (i32.const 5)) (then
      (drop (memory.grow (i32.const 1024)))
      (return (call $ok (i32.const 0) (i32.const 8388608)))))
    (if (call $behavior_is (i32.const 7)) (then (return (call $err (i32.const 0)))))
    (if (call $behavior_is (i32.const 14)) (then (return (call $err (i32.const 1)))))
    (if (call $behavior_is (i32.const 8)) (then (return (call $ok (i32.const -8) (i32.const 100)))))
    (if (call $behavior_is (i32.const 12)) (then
      (loop $dawdle
        (local.set $lines (i32.add (local.get $lines) (i32.const 1)))
        (br_if $dawdle (i32.lt_u (local.get $lines) (i32.const 5000000))))
      (local.set $lines (i32.const 0))))
    (if (call $behavior_is (i32.const 9)) (then
      (loop $again
        (call $log (i32.const 1) (i32.const 512) (i32.const 11))
        (local.set $lines (i32.add (local.get $lines) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $lines) (i32.const 1000))))))
    (call $ok (local.get $rows) (local.get $n)))
  (func (export "berth:scheduler/filter@0.2.0#node-to-status") (param i64 i32 i32) (result i32)
    (call $ok (i32.const 0) (i32.const 0)))
  ;; Success for each case, which is all zeros, as is memory that was never used.
  (func (export "berth:scheduler/filter@0.2.0#dry-run") (param i64 i32 i32 i32 i32) (param $n i32) (result i32)
    (if (call $behavior_is (i32.const 13)) (then (return (call $ok (i32.const 0) (i32.const 0)))))
    (call $ok
      (call $allocate (i32.const 0) (i32.const 0) (i32.const 4) (i32.mul (local.get $n) (i32.const 12)))
      (local.get $n)))
  (func (export "berth:scheduler/score@0.2.0#score") (param $cycle i64) (param $rows i32) (param $n i32) (result i32)
    (local $bits i32) (local $word i32) (local $score i64) (local $at i32)
    (local.set $score (i64.extend_i32_u (i32.add
      (global.get $nodes) (i32.mul (global.get $reserved) (i32.const 1000)))))
    (if (call $behavior_is (i32.const 6)) (then (local.set $score (call $now))))
    (if (i32.or (call $behavior_is (i32.const 10)) (call $behavior_is (i32.const 12))) (then
      (local.set $score (i64.const 50))))
    (if (call $behavior_is (i32.const 11)) (then (local.set $score (i64.const 1000000))))
    (loop $count
      (local.set $bits (i32.add (local.get $bits)
        (i32.wrap_i64 (i64.popcnt (i64.load (i32.add (local.get $rows) (i32.mul (local.get $word) (i32.const 8))))))))
      (local.set $word (i32.add (local.get $word) (i32.const 1)))
      (br_if $count (i32.lt_u (local.get $word) (local.get $n))))
    (if (call $behavior_is (i32.const 4)) (then (local.set $bits (i32.sub (local.get $bits) (i32.const 1)))))
    ;; The answer lies in the second page, which has room for 8,192 scores.
    (loop $next
      (i64.store (i32.add (i32.const 65536) (local.get $at)) (local.get $score))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $at) (i32.mul (local.get $bits) (i32.const 8)))))
    (call $ok (i32.const 65536) (local.get $bits)))
  (func (export "berth:scheduler/reserve@0.2.0#reserve") (param $cycle i64) (param $node i32) (result i32)
    (global.set $reserved (i32.add (global.get $reserved) (i32.const 1)))
    (call $ok (i32.const 0) (i32.const 0)))
  (func (export "berth:scheduler/reserve@0.2.0#unreserve") (param $cycle i64) (param $node i32) (result i32)
    (global.set $reserved (i32.sub (global.get $reserved) (i32.const 1)))
    (i64.store (i32.const 2048) (i64.const 0))
    (i32.const 2048))
"#;
