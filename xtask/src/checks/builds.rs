//! A crate that the program, its build scripts and xtask use in the same version is compiled once for all of them.
//!
//! Cargo compiles a crate, and all crates that use it, once for each set of features. `crates/plugin-builder/Cargo.toml`
//! and `xtask/Cargo.toml` therefore name the features of the program. The parser and the encoder of components alone
//! cost half a minute of processor time.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
};

use anyhow::Result;

use crate::output_of;

/// The sets of features with which each crate is compiled, by the crate's name and version.
type Builds<'a> = BTreeMap<(&'a str, &'a str), BTreeSet<&'a str>>;

/// The crates that are compiled twice.
pub(super) fn check() -> Result<Vec<String>> {
    let (program, xtask) = (tree("berth-host")?, tree("xtask")?);
    Ok(complaints(&builds(&program), &builds(&xtask)))
}

/// A line for each crate: its name, its version, marks that do not matter, `|`, and its features. With a target, even
/// the machine's own, cargo lists the features for build scripts and those for the program separately.
fn tree(package: &str) -> Result<String> {
    let cargo = env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let arguments = "--edges normal,build --prefix none --format {p}|{f} --target host-tuple --locked";
    let arguments: Vec<&str> = ["tree", "--package", package].into_iter().chain(arguments.split(' ')).collect();
    output_of(&cargo, &arguments)
}

fn builds(tree: &str) -> Builds<'_> {
    let mut builds = Builds::new();
    for line in tree.lines() {
        let Some((package, features)) = line.split_once('|') else { continue };
        let mut words = package.split(' ');
        let (Some(name), Some(version)) = (words.next(), words.next()) else { continue };
        // The mark of a crate whose dependencies stand further up.
        let features = features.strip_suffix(" (*)").unwrap_or(features);
        builds.entry((name, version)).or_default().insert(features);
    }
    builds
}

fn complaints(program: &Builds<'_>, xtask: &Builds<'_>) -> Vec<String> {
    let mut complaints = Vec::new();
    for ((name, version), features) in program {
        if features.len() > 1 {
            complaints.push(format!(
                "{name} {version} is compiled twice, with different features: for the program and for its build \
                 scripts. Name the features of the program in crates/plugin-builder/Cargo.toml; `cargo tree --package \
                 berth-host --edges normal,build,features --invert {name}` shows where the features come from."
            ));
        }
    }
    for ((name, version), features) in xtask {
        if program.get(&(*name, *version)).is_some_and(|known| !features.is_subset(known)) {
            complaints.push(format!(
                "{name} {version} is compiled twice, with different features: for the program and for xtask. Name the \
                 features of the program in xtask/Cargo.toml."
            ));
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_features_of_the_same_version_are_a_complaint() {
        let tree = "syn v2.0.119|full\nsyn v3.0.9|derive\nlibc v0.2.191|std\n\nlibc v0.2.191|std (*)\n";
        assert_eq!(complaints(&builds(tree), &Builds::new()), Vec::<String>::new());
        let tree = "wasmparser v0.254.2|serde,std\nwasmparser v0.254.2|std (*)\n";
        let twice = complaints(&builds(tree), &Builds::new());
        assert_eq!(twice.len(), 1);
        assert!(twice[0].starts_with("wasmparser v0.254.2 is compiled twice"), "{}", twice[0]);
    }

    #[test]
    fn xtask_has_the_features_of_the_program() {
        let program = builds("memchr v2.8.3|alloc,default,std\nserde_derive v1.0.229 (proc-macro)|default\n");
        let xtask =
            "memchr v2.8.3|alloc,default,std\nserde_derive v1.0.229 (proc-macro)|default\nown v0.1.0 (/a)|std\n";
        assert_eq!(complaints(&program, &builds(xtask)), Vec::<String>::new());
        let twice = complaints(&program, &builds("memchr v2.8.3|alloc,std\n"));
        assert_eq!(twice.len(), 1);
        assert!(twice[0].contains("for xtask"), "{}", twice[0]);
    }
}
