//! Plugins that let every pod pass, and explain that in their own words.

use anyhow::Result;

use crate::encode;

/// The answer of a plugin of [`explains`] that is asked for its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Words {
    /// The plugin says `keeps to` and `itself` on two lines about a pod, and `likes it` about a pod on a node.
    Short,
    /// The plugin says nothing.
    None,
    /// The plugin says a mebibyte of the letter x.
    Mebibyte,
    /// The plugin traps.
    Trap,
    /// The plugin never answers.
    Spin,
}

impl Words {
    pub const ALL: [Words; 5] = [Words::Short, Words::None, Words::Mebibyte, Words::Trap, Words::Spin];

    /// The answer: a text at this address, of this length.
    fn body(self) -> &'static str {
        match self {
            Words::Short => {
                "(if (result i32) (local.get $has_node)
                  (then (call $text (i32.const 65552) (i32.const 8)))
                  (else (call $text (i32.const 65536) (i32.const 15))))"
            }
            Words::None => "(call $text (i32.const 0) (i32.const 0))",
            Words::Mebibyte => {
                "(local.set $at (call $allocate (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 1048576)))
                (memory.fill (local.get $at) (i32.const 120) (i32.const 1048576))
                (call $text (local.get $at) (i32.const 1048576))"
            }
            Words::Trap => "unreachable",
            Words::Spin => "(loop $forever (br $forever)) (i32.const 0)",
        }
    }
}

/// The plugin of this name, for PreFilter.
///
/// # Errors
/// The text does not assemble.
pub fn explains(name: &str, words: Words) -> Result<Vec<u8>> {
    let items = [
        "export berth:scheduler/lifecycle@0.2.0",
        "export berth:scheduler/sync@0.2.0",
        "export berth:scheduler/cycle@0.2.0",
        "export berth:scheduler/pre-filter@0.2.0",
        "export berth:scheduler/explain@0.2.0",
    ];
    encode::component(&items, &[], &encode::module(name, "", &FUNCTIONS.replace("$WORDS", words.body())))
}

const FUNCTIONS: &str = r#"
  (data (i32.const 65536) "keeps to\0aitself")
  (data (i32.const 65552) "likes it")
  (func $text (param $at i32) (param $length i32) (result i32)
    (i32.store (i32.const 2048) (local.get $at))
    (i32.store (i32.const 2052) (local.get $length))
    (i32.const 2048))
  (func (export "berth:scheduler/sync@0.2.0#apply") (param $delta i32))
  (func (export "berth:scheduler/cycle@0.2.0#begin") (param $parameters i32))
  (func (export "berth:scheduler/cycle@0.2.0#end") (param $cycle i64))
  (func (export "berth:scheduler/pre-filter@0.2.0#pre-filter") (param $cycle i64) (result i32)
    (call $ok (i32.const 0) (i32.const 0)))
  (func (export "berth:scheduler/explain@0.2.0#explain")
    (param $cycle i64) (param $has_node i32) (param $node i32) (result i32)
    (local $at i32)
    $WORDS)"#;
