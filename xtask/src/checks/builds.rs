//! A crate that the program and a build script use in the same version is compiled once for both.
//!
//! Cargo compiles the crate twice if the two get different features. `crates/plugin-builder/Cargo.toml` therefore names
//! the features of the program. The parser and the encoder of components cost half a minute of processor time.

use std::{collections::BTreeSet, env};

use anyhow::Result;

use crate::output_of;

/// Crates of wasmtime that generate code for an interpreter when wasmtime is built. They are small, and only wasmtime
/// decides their features.
const TWICE: [&str; 4] = ["cranelift-bitset", "object", "pulley-interpreter", "wasmtime-internal-core"];

/// The crates that are compiled twice.
pub(super) fn check() -> Result<Vec<String>> {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let arguments = "tree --package berth-host --edges normal,build --duplicates --depth 0 --prefix none --locked";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    Ok(complaints(&output_of(&cargo, &arguments)?))
}

/// `tree` has a line for each different build of a crate: the crate's name, its version, and marks that do not matter.
fn complaints(tree: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut complaints = Vec::new();
    for line in tree.lines() {
        let mut words = line.split(' ');
        let (Some(name), Some(version)) = (words.next(), words.next()) else { continue };
        if !seen.insert((name, version)) && !TWICE.contains(&name) {
            complaints.push(format!(
                "{name} {version} is compiled twice, with different features: for the program and for its build \
                 scripts. Name the features of the program in crates/plugin-builder/Cargo.toml; `cargo tree --package \
                 berth-host --edges normal,build,features --invert {name}` shows where the features come from."
            ));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_version_twice_is_a_complaint() {
        let tree = "syn v2.0.119\n\nsyn v3.0.9\n\nobject v0.39.1\n\nobject v0.39.1\n\n[build-dependencies]\n";
        assert_eq!(complaints(tree), Vec::<String>::new());
        let twice = complaints("wasmparser v0.254.2\n\nwasmparser v0.254.2 (*)\n");
        assert_eq!(twice.len(), 1);
        assert!(twice[0].starts_with("wasmparser v0.254.2 is compiled twice"), "{}", twice[0]);
    }
}
