//! Binaries that the host must refuse to load.

use anyhow::Result;

use crate::encode;

const LIFECYCLE: &str = "export berth:scheduler/lifecycle@0.2.0";

/// A valid WebAssembly module that is not a component.
///
/// # Errors
/// The text does not assemble.
pub fn core_module() -> Result<Vec<u8>> {
    Ok(wat::parse_str("(module)")?)
}

/// A plugin that imports WASI files.
///
/// # Errors
/// The text does not assemble.
pub fn imports_wasi() -> Result<Vec<u8>> {
    opens_files("Wasi")
}

/// The component under another name.
///
/// # Errors
/// The text does not assemble.
pub fn opens_files(name: &str) -> Result<Vec<u8>> {
    imports(name, "wasi:filesystem", "preopens", "get-directories")
}

/// The plugin of this name that imports WASI sockets.
///
/// # Errors
/// The text does not assemble.
pub fn opens_sockets(name: &str) -> Result<Vec<u8>> {
    imports(name, "wasi:sockets", "instance-network", "instance-network")
}

/// The plugin of this name that imports the WASI environment.
///
/// # Errors
/// The text does not assemble.
pub fn reads_environment(name: &str) -> Result<Vec<u8>> {
    imports(name, "wasi:cli", "environment", "get-environment")
}

fn imports(name: &str, package: &str, interface: &str, function: &str) -> Result<Vec<u8>> {
    let text = format!("package {package}@0.2.0;\ninterface {interface} {{ {function}: func() -> u32; }}");
    let module = format!(r#"(import "{package}/{interface}@0.2.0" "{function}" (func (result i32)))"#);
    let import = format!("import {package}/{interface}@0.2.0");
    encode::component(&[&import, LIFECYCLE], &[&text], &encode::module(name, &module, ""))
}

/// A component that exports nothing of the contract.
///
/// # Errors
/// The text does not assemble.
pub fn of_another_world() -> Result<Vec<u8>> {
    let package = "package example:greeter@1.0.0;\ninterface greet { hello: func(); }";
    let module = r#"(module (func (export "example:greeter/greet@1.0.0#hello")))"#;
    encode::foreign_component(&["export example:greeter/greet@1.0.0"], &[package], module)
}

/// A plugin with `queue-sort` and without `lifecycle`.
///
/// # Errors
/// The text does not assemble.
pub fn sorts_without_lifecycle() -> Result<Vec<u8>> {
    let sort_key =
        r#"(func (export "berth:scheduler/queue-sort@0.2.0#sort-key") (param i32) (result i32) unreachable)"#;
    encode::component(&["export berth:scheduler/queue-sort@0.2.0"], &[], &encode::module("Sorter", "", sort_key))
}

/// A plugin with `score` and without `cycle`. This plugin never sees the pod for which it scores nodes.
///
/// # Errors
/// The text does not assemble.
pub fn without_cycle() -> Result<Vec<u8>> {
    let score = r#"(func (export "berth:scheduler/score@0.2.0#score") (param i64 i32 i32) (result i32) unreachable)"#;
    encode::component(
        &[LIFECYCLE, "export berth:scheduler/score@0.2.0"],
        &[],
        &encode::module("WithoutCycle", "", score),
    )
}

/// A component with a `configure` that takes a number, which differs from the contract.
///
/// # Errors
/// The text does not assemble.
pub fn wrong_signature() -> Result<Vec<u8>> {
    let package = "package berth:scheduler@0.2.0;\n\
        interface lifecycle { describe: func() -> u32; configure: func(args: u32); }";
    let module = r#"(module
        (func (export "berth:scheduler/lifecycle@0.2.0#describe") (result i32) (i32.const 0))
        (func (export "berth:scheduler/lifecycle@0.2.0#configure") (param i32)))"#;
    encode::foreign_component(&[LIFECYCLE], &[package], module)
}

/// A plugin with a `describe` that never returns.
///
/// # Errors
/// The text does not assemble.
pub fn loops_in_describe() -> Result<Vec<u8>> {
    encode::component(&[LIFECYCLE], &[], &lifecycle("(loop $forever (br $forever)) (i32.const 0)"))
}

/// A plugin that traps in `describe`.
///
/// # Errors
/// The text does not assemble.
pub fn traps_in_describe() -> Result<Vec<u8>> {
    encode::component(&[LIFECYCLE], &[], &lifecycle("unreachable"))
}

fn lifecycle(describe: &str) -> String {
    format!(
        r#"(module
        (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
        (func $describe (export "berth:scheduler/lifecycle@0.2.0#describe") (result i32) {describe})
        (func (export "berth:scheduler/lifecycle@0.2.0#configure") (param i32 i32) (result i32) unreachable))"#
    )
}
