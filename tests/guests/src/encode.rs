//! Makes a component from a module's text and a list of interfaces.

use std::path::Path;

use anyhow::{Context, Result};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// A component of a world with these items, over the contract and further packages in WIT text.
pub(crate) fn component(items: &[&str], packages: &[&str], module: &str) -> Result<Vec<u8>> {
    let mut resolve = Resolve::default();
    let contract = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
    resolve.push_dir(contract).context("cannot read the contract")?;
    encode(resolve, items, packages, module)
}

/// Assembles a component without the contract in `wit/`, for components that were written for another contract.
pub(crate) fn foreign_component(items: &[&str], packages: &[&str], module: &str) -> Result<Vec<u8>> {
    encode(Resolve::default(), items, packages, module)
}

fn encode(mut resolve: Resolve, items: &[&str], packages: &[&str], module: &str) -> Result<Vec<u8>> {
    for package in packages {
        resolve.push_str("package.wit", package)?;
    }
    let items: String = items.iter().map(|item| format!("{item};\n")).collect();
    let package = resolve.push_str("guest.wit", &format!("package test:guest;\nworld guest {{\n{items}}}\n"))?;
    let world = resolve.select_world(&[package], None)?;
    let mut module = wat::parse_str(module)?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    ComponentEncoder::default().module(&module)?.validate(true).encode()
}

/// A module with a memory, an allocator that never frees, and `describe` and `configure`: the beginning of every guest.
///
/// The manifest names the column `name`. `configure` refuses arguments of eight bytes, such as `"refuse"`. The bytes
/// below 1024 belong to this text. The bytes from 2048 to 2303 and the second page are for answers.
pub(crate) fn module(name: &str, imports: &str, rest: &str) -> String {
    module_that_starts(name, imports, rest, Start::default())
}

/// The actions of a guest before it answers `describe` and `configure`, in the text form of WebAssembly.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Start {
    pub(crate) describe: &'static str,
    pub(crate) configure: &'static str,
}

/// Assembles a component with actions in its first calls.
pub(crate) fn module_that_starts(name: &str, imports: &str, rest: &str, start: Start) -> String {
    let Start { describe, configure } = start;
    let name_length = name.len();
    format!(
        r#"(module
  {imports}
  (memory (export "memory") 3)
  (global $free (mut i32) (i32.const 131072))
  (data (i32.const 64) "{name}")
  (data (i32.const 192) "1.2.3")
  (data (i32.const 208) "refused on demand")
  ;; The manifest: name, version, columns, pods, pod-json, objects, events_to_register.
  (data (i32.const 256) "\40\00\00\00")
  (data (i32.const 264) "\c0\00\00\00\05\00\00\00\80\01\00\00\01\00\00\00")
  (func $allocate (export "cabi_realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
    (global.set $free (i32.add (local.get $at) (local.get $size)))
    (block $enough
      (loop $grow
        (br_if $enough (i32.le_u (global.get $free) (i32.mul (memory.size) (i32.const 65536))))
        (drop (memory.grow (i32.const 1)))
        (br $grow)))
    (local.get $at))
  (func (export "berth:scheduler/lifecycle@0.2.0#describe") (result i32)
    {describe}
    (i32.store (i32.const 260) (i32.const {name_length}))
    (i32.const 256))
  (func (export "berth:scheduler/lifecycle@0.2.0#configure") (param $args i32) (param $length i32) (result i32)
    (local $count i64)
    {configure}
    (i32.store8 (i32.const 2048) (i32.eq (local.get $length) (i32.const 8)))
    (i32.store (i32.const 2052) (i32.const 208))
    (i32.store (i32.const 2056) (i32.const 17))
    (i32.const 2048))
  ;; `ok` of a list, and `err` of a status with a code but no reason.
  (func $ok (param $items i32) (param $length i32) (result i32)
    (i32.store8 (i32.const 2048) (i32.const 0))
    (i32.store (i32.const 2052) (local.get $items))
    (i32.store (i32.const 2056) (local.get $length))
    (i32.const 2048))
  (func $err (param $code i32) (result i32)
    (i32.store8 (i32.const 2048) (i32.const 1))
    (i32.store (i32.const 2052) (local.get $code))
    (i32.store (i32.const 2056) (i32.const 0))
    (i32.store (i32.const 2060) (i32.const 0))
    (i32.const 2048))
  {rest}
)"#
    )
}
