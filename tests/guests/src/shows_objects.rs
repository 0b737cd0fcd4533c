//! Plugins that read objects or need events about objects. One plugin shows the last object that it has seen.

use anyhow::Result;

use crate::{
    encode,
    points::{self, At},
};

/// The plugin of this name that asks for objects of one kind, and rejects every pod with the JSON of the last object
/// that it saw.
///
/// # Errors
/// The text does not assemble.
pub fn shows_objects(name: &str, api_version: &str, kind: &str) -> Result<Vec<u8>> {
    let items = [
        "export berth:scheduler/lifecycle@0.2.0",
        "export berth:scheduler/sync@0.2.0",
        "export berth:scheduler/cycle@0.2.0",
        "export berth:scheduler/filter@0.2.0",
    ];
    let (version_length, kind_length) = (api_version.len(), kind.len());
    let functions = format!(
        r#"{FUNCTIONS}
  (data (i32.const 512) "{api_version}{kind}")
  ;; The one kind, and in the manifest the list of it, which follows columns, pods and pod-json.
  (data (i32.const 640) "\00\02\00\00\{version_length:02x}\00\00\00")
  (data (i32.const 648) "\{kind_at:02x}\02\00\00\{kind_length:02x}\00\00\00")
  (data (i32.const 284) "\80\02\00\00\01\00\00\00")"#,
        kind_at = version_length,
    );
    encode::component(&items, &[], &encode::module(name, "", &functions))
}

/// The plugin of this name for Filter that lets everything pass, and registers for new objects of a resource. The
/// resource has the form of registrations for events.
///
/// # Errors
/// The text does not assemble.
pub fn hears_of(name: &str, resource: &str) -> Result<Vec<u8>> {
    let length = resource.len();
    let data = format!(
        r#"(data (i32.const 512) "{resource}")
  ;; The one event, and in the manifest the list of it, which follows the objects.
  (data (i32.const 640) "\00\02\00\00\{length:02x}\00\00\00\01\00\00\00")
  (data (i32.const 292) "\01\00\00\00\80\02\00\00\01\00\00\00")"#
    );
    points::plugin(name, At::Filter, "", (0, 0), &data)
}

const FUNCTIONS: &str = r#"
  (global $json (mut i32) (i32.const 0))
  (global $length (mut i32) (i32.const 0))
  ;; The last list of the delta holds objects of 44 bytes; whether there is JSON, and where, is in the last twelve.
  (func (export "berth:scheduler/sync@0.2.0#apply") (param $delta i32)
    (local $at i32) (local $left i32)
    (local.set $at (i32.load offset=76 (local.get $delta)))
    (local.set $left (i32.load offset=80 (local.get $delta)))
    (block $done
      (loop $next
        (br_if $done (i32.eqz (local.get $left)))
        (if (i32.load8_u offset=32 (local.get $at)) (then
          (global.set $json (i32.load offset=36 (local.get $at)))
          (global.set $length (i32.load offset=40 (local.get $at)))))
        (local.set $at (i32.add (local.get $at) (i32.const 44)))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br $next))))
  (func (export "berth:scheduler/cycle@0.2.0#begin") (param i32))
  (func (export "berth:scheduler/cycle@0.2.0#end") (param i64))
  (func (export "berth:scheduler/filter@0.2.0#filter") (param i64 i32 i32) (result i32)
    (i32.store (i32.const 2112) (global.get $json))
    (i32.store (i32.const 2116) (global.get $length))
    (drop (call $err (i32.const 1)))
    (i32.store (i32.const 2056) (i32.const 2112))
    (i32.store (i32.const 2060) (i32.const 1))
    (i32.const 2048))
  (func (export "berth:scheduler/filter@0.2.0#node-to-status") (param i64 i32 i32) (result i32)
    (call $ok (i32.const 0) (i32.const 0)))
  (func (export "berth:scheduler/filter@0.2.0#dry-run") (param i64 i32 i32 i32 i32 i32) (result i32)
    (call $ok (i32.const 0) (i32.const 0)))"#;
