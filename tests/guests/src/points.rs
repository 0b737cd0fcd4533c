//! Plugins that implement one extension point, and their default answers.

use anyhow::Result;

use crate::encode::{self, Start};

/// The function in which a plugin of one extension point is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// The update of a Filter plugin's replica.
    Sync,
    /// The beginning of a Filter plugin's cycle.
    Begin,
    PreEnqueue,
    PreFilter,
    Filter,
    /// The question to a Filter plugin about a change of a node.
    DryRun,
    PostFilter,
    Score,
    Reserve,
    Permit,
    PreBindPreFlight,
    PreBind,
    Bind,
    PostBind,
}

impl At {
    pub const ALL: [At; 14] = [
        At::Sync,
        At::Begin,
        At::PreEnqueue,
        At::PreFilter,
        At::Filter,
        At::DryRun,
        At::PostFilter,
        At::Score,
        At::Reserve,
        At::Permit,
        At::PreBindPreFlight,
        At::PreBind,
        At::Bind,
        At::PostBind,
    ];

    /// The name of the function in faults.
    #[must_use]
    pub fn function(self) -> &'static str {
        match self {
            At::Sync => "sync",
            At::Begin => "begin",
            At::PreEnqueue => "pre-enqueue",
            At::PreFilter => "pre-filter",
            At::Filter => "filter",
            At::DryRun => "dry-run",
            At::PostFilter => "post-filter",
            At::Score => "score",
            At::Reserve => "reserve",
            At::Permit => "permit",
            At::PreBindPreFlight => "pre-bind-pre-flight",
            At::PreBind => "pre-bind",
            At::Bind => "bind",
            At::PostBind => "post-bind",
        }
    }

    /// The interface that the plugin exports.
    fn interface(self) -> &'static str {
        match self {
            At::Sync | At::Begin | At::DryRun => "filter",
            point => point.function(),
        }
    }

    /// The functions of that interface. `body` comes before the answer. If an answer has effects, `effects` are their
    /// address and their number.
    fn functions(self, body: &str, effects: (u32, u32)) -> String {
        let (at, n) = effects;
        let (parameters, answer, others) = match self {
            At::Sync | At::Begin | At::Filter | At::DryRun => {
                ("(param $cycle i64) (param $rows i32) (param $n i32)", FILTER.to_owned(), EXPLAIN)
            }
            At::PreEnqueue => ("(param $pod i32)", OK.to_owned(), ""),
            At::PreFilter => ("(param $cycle i64)", OK.to_owned(), ""),
            At::PostFilter => (
                "(param $cycle i64) (param i32 i32 i32 i32 i32 i32 i32 i32)",
                format!("(call $outcome (i32.const {at}) (i32.const {n}))"),
                OUTCOME,
            ),
            At::Score => ("(param $cycle i64) (param $rows i32) (param $n i32)", SCORE.to_owned(), ""),
            At::Reserve => ("(param $cycle i64) (param $node i32)", OK.to_owned(), UNRESERVE),
            At::Permit => (
                "(param $cycle i64) (param $node i32)",
                format!("(call $allow (i32.const {at}) (i32.const {n}))"),
                ALLOW,
            ),
            At::PreBindPreFlight => ("(param $cycle i64) (param $node i32)", OK.to_owned(), PRE_BIND),
            At::Bind if n == 0 => ("(param $cycle i64) (param $node i32)", "(call $err (i32.const 5))".to_owned(), ""),
            At::PreBind | At::Bind => {
                ("(param $cycle i64) (param $node i32)", format!("(call $ok (i32.const {at}) (i32.const {n}))"), "")
            }
            At::PostBind => ("(param $cycle i64) (param $node i32)", String::new(), ""),
        };
        let result = if self == At::PostBind { "" } else { "(result i32)" };
        let dry_run = match self {
            At::DryRun => DRY_RUN.replace("BODY", body),
            At::Sync | At::Begin | At::Filter => DRY_RUN.replace("BODY", ""),
            _ => String::new(),
        };
        let body = if matches!(self, At::Sync | At::Begin | At::DryRun) { "" } else { body };
        let (name, locals) = (self.interface(), "(local $bits i32) (local $word i32) (local $at i32)");
        format!(
            "(func (export \"berth:scheduler/{name}@0.2.0#{name}\") {parameters} {result} {locals} {body} {answer})\n\
             {others}\n{dry_run}"
        )
    }
}

/// A plugin of this name at one extension point. `body` is its action before it answers, in the text form of
/// WebAssembly, and `rest` is the rest of its module.
pub(crate) fn plugin(name: &str, at: At, body: &str, effects: (u32, u32), rest: &str) -> Result<Vec<u8>> {
    plugin_that_starts(name, at, body, effects, rest, Start::default())
}

/// The plugin with actions in its first calls.
pub(crate) fn plugin_that_starts(
    name: &str,
    at: At,
    body: &str,
    effects: (u32, u32),
    rest: &str,
    start: Start,
) -> Result<Vec<u8>> {
    let interface = format!("export berth:scheduler/{}@0.2.0", at.interface());
    let mut items = vec![
        "export berth:scheduler/lifecycle@0.2.0",
        "export berth:scheduler/sync@0.2.0",
        "export berth:scheduler/cycle@0.2.0",
        &interface,
    ];
    // The point is only called for plugins that have both interfaces.
    if at == At::PreBindPreFlight {
        items.push("export berth:scheduler/pre-bind@0.2.0");
    }
    let in_frame = |wanted: At| if at == wanted { body } else { "" };
    let (in_sync, in_begin) = (in_frame(At::Sync), in_frame(At::Begin));
    let functions = at.functions(body, effects);
    let text = format!(
        "(func (export \"berth:scheduler/sync@0.2.0#apply\") (param $delta i32) {in_sync})\n\
         (func (export \"berth:scheduler/cycle@0.2.0#begin\") (param $parameters i32) {in_begin})\n\
         (func (export \"berth:scheduler/cycle@0.2.0#end\") (param $cycle i64))\n{functions}\n{rest}"
    );
    encode::component(&items, &[], &encode::module_that_starts(name, "", &text, start))
}

/// The plugin of this name that lets everything pass at an extension point.
///
/// # Errors
/// The text does not assemble.
pub fn harmless(name: &str, at: At) -> Result<Vec<u8>> {
    plugin(name, at, "", (0, 0), "")
}

/// A plugin of this name for Filter that does nothing. The plugin has as much code as a small plugin in C: about 20 KB.
///
/// # Errors
/// The text does not assemble.
pub fn as_large_as_in_c(name: &str) -> Result<Vec<u8>> {
    let step = |number: usize| {
        format!(
            "local.get {} i32.const {number} i32.add local.get {} i32.xor local.set {}\n",
            number % 8,
            number % 7,
            number % 8
        )
    };
    let function = |number: usize| {
        let steps: String = (number..number + 40).map(step).collect();
        format!(
            "(func (export \"never-called-{number}\") (result i32) (local{}) {steps} local.get 0)\n",
            " i32".repeat(8)
        )
    };
    plugin(name, At::Filter, "", (0, 0), &(0..50).map(function).collect::<String>())
}

/// A plugin of this name for Filter that does nothing but takes a compiler many seconds: a function with many nested
/// loops, each of which passes on many values.
///
/// # Errors
/// The text does not assemble.
pub fn slow_to_compile(name: &str) -> Result<Vec<u8>> {
    const VALUES: usize = 2_000;
    const LOOPS: usize = 300;
    let change = |value: usize| {
        let other = (value * 7 + 1) % VALUES;
        format!("local.get {value} local.get {other} i32.mul i32.const {value} i32.xor local.set {value}\n")
    };
    let rest = format!(
        "(func (export \"never-called\") (result i32) (local{})\n{}{}{}local.get 0)",
        " i32".repeat(VALUES),
        "loop\n".repeat(LOOPS),
        (0..VALUES).map(change).collect::<String>(),
        (0..LOOPS).map(|value| format!("local.get {value} br_if 0 end\n")).collect::<String>(),
    );
    plugin(name, At::Filter, "", (0, 0), &rest)
}

/// The plugin of this name that holds every pod at Permit for ten minutes.
///
/// # Errors
/// The text does not assemble.
pub fn holds(name: &str) -> Result<Vec<u8>> {
    let wait = "(i32.store (i32.const 2048) (i32.const 1)) (i64.store (i32.const 2056) (i64.const 600000))\
        (i64.store (i32.const 2072) (i64.const 0)) (return (i32.const 2048))";
    plugin(name, At::Permit, wait, (0, 0), "")
}

const OK: &str = "(call $ok (i32.const 0) (i32.const 0))";

const FILTER: &str = "(call $ok (local.get $rows) (local.get $n))";

const EXPLAIN: &str = r#"
  (func (export "berth:scheduler/filter@0.2.0#node-to-status") (param i64 i32 i32) (result i32)
    (call $ok (i32.const 0) (i32.const 0)))"#;

/// Success for each case. The answer consists of zeros, like memory that was never used.
const DRY_RUN: &str = r#"
  (func (export "berth:scheduler/filter@0.2.0#dry-run")
    (param $cycle i64) (param $keep i32) (param $pods i32) (param $n_pods i32) (param $cases i32) (param $n i32) (result i32)
    BODY
    (call $ok
      (call $allocate (i32.const 0) (i32.const 0) (i32.const 4) (i32.mul (local.get $n) (i32.const 12)))
      (local.get $n)))"#;

/// A score of 50 for each node, in the second page, which has room for 8,192 scores.
const SCORE: &str = r"
    (loop $count
      (local.set $bits (i32.add (local.get $bits)
        (i32.wrap_i64 (i64.popcnt (i64.load (i32.add (local.get $rows) (i32.mul (local.get $word) (i32.const 8))))))))
      (local.set $word (i32.add (local.get $word) (i32.const 1)))
      (br_if $count (i32.lt_u (local.get $word) (local.get $n))))
    (loop $next
      (i64.store (i32.add (i32.const 65536) (local.get $at)) (i64.const 50))
      (local.set $at (i32.add (local.get $at) (i32.const 8)))
      (br_if $next (i32.lt_u (local.get $at) (i32.mul (local.get $bits) (i32.const 8)))))
    (call $ok (i32.const 65536) (local.get $bits))";

const PRE_BIND: &str = r#"
  (func (export "berth:scheduler/pre-bind@0.2.0#pre-bind") (param i64 i32) (result i32)
    (call $ok (i32.const 0) (i32.const 0)))"#;

/// No effects.
const UNRESERVE: &str = r#"
  (func (export "berth:scheduler/reserve@0.2.0#unreserve") (param $cycle i64) (param $node i32) (result i32)
    (i64.store (i32.const 2048) (i64.const 0))
    (i32.const 2048))"#;

/// The verdict with room for a wait or a status, followed by the effects.
const ALLOW: &str = r"
  (func $allow (param $effects i32) (param $n i32) (result i32)
    (i64.store (i32.const 2048) (i64.const 0))
    (i32.store (i32.const 2072) (local.get $effects))
    (i32.store (i32.const 2076) (local.get $n))
    (i32.const 2048))";

/// `ok` of a status with the code unschedulable and no reason, no change of the nomination, and the effects.
const OUTCOME: &str = r"
  (func $outcome (param $effects i32) (param $n i32) (result i32)
    (i32.store (i32.const 2048) (i32.const 0))
    (i32.store (i32.const 2052) (i32.const 2))
    (i64.store (i32.const 2056) (i64.const 0))
    (i64.store (i32.const 2064) (i64.const 0))
    (i32.store (i32.const 2072) (local.get $effects))
    (i32.store (i32.const 2076) (local.get $n))
    (i32.const 2048))";
