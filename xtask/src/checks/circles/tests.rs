//! Small crates with and without circles.

use std::fs;

use super::{Circle, circles, forbidden_imports};
use crate::checks::module_tree::Tree;

/// A crate with these files, which include `lib.rs`.
fn tree(files: &[(&str, &str)]) -> Tree {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    Tree::read(&folder.path().join("lib.rs")).expect("a crate")
}

fn rooms(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    circles(&tree(files)).into_iter().map(|Circle { rooms, .. }| rooms).collect()
}

#[test]
fn two_modules_that_import_each_other_are_a_circle() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use super::a::A; pub struct B;"),
    ];
    assert_eq!(rooms(&files), [["crate::a", "crate::b"]]);
}

#[test]
fn imports_in_one_direction_are_no_circle() {
    let files = [("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", "pub struct B;")];
    assert_eq!(rooms(&files), [[""; 0]; 0]);
}

#[test]
fn paths_in_bodies_and_macros_count() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub fn a() { crate::b::b(); }"),
        ("b.rs", "pub fn b() { assert!(super::a::is_fine()); }"),
    ];
    assert_eq!(rooms(&files), [["crate::a", "crate::b"]]);
}

#[test]
fn a_reexport_leads_to_the_module_that_defines_the_name() {
    let files = [
        ("lib.rs", "mod a; mod b; pub use a::A; pub use b::{B as Other};"),
        ("a.rs", "use crate::Other; pub struct A;"),
        ("b.rs", "use crate::A; pub struct B;"),
    ];
    assert_eq!(rooms(&files), [["crate::a", "crate::b"]]);
}

#[test]
fn a_glob_reexport_leads_there_too() {
    let files = [
        ("lib.rs", "mod a; mod b; pub use a::*;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use crate::A; pub struct B;"),
    ];
    assert_eq!(rooms(&files), [["crate::a", "crate::b"]]);
}

#[test]
fn parent_and_child_are_one_room() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a.rs", "mod inner; use inner::I; pub struct A;"),
        ("a/inner.rs", "use super::A; pub struct I;"),
    ];
    assert_eq!(rooms(&files), [[""; 0]; 0]);
}

#[test]
fn children_of_one_parent_may_not_know_each_other() {
    let files = [
        ("lib.rs", "mod a;"),
        ("a.rs", "mod x; mod y;"),
        ("a/x.rs", "use super::y::Y; pub struct X;"),
        ("a/y.rs", "use super::x::X; pub struct Y;"),
    ];
    assert_eq!(rooms(&files), [["crate::a::x", "crate::a::y"]]);
}

#[test]
fn an_import_from_inside_a_room_is_one_of_the_room() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "mod inner; use crate::b::B;"),
        ("a/inner.rs", "pub struct I;"),
        ("b.rs", "use crate::a::inner::I; pub struct B;"),
    ];
    assert_eq!(rooms(&files), [["crate::a", "crate::b"]]);
}

#[test]
fn tests_may_know_everything() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "pub struct A; #[cfg(test)] mod tests { use crate::b::B; } #[cfg(test)] use crate::b::B;"),
        ("b.rs", "use crate::a::A; pub struct B;"),
    ];
    assert_eq!(rooms(&files), [[""; 0]; 0]);
}

#[test]
fn three_modules_in_a_ring_are_a_circle() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b;"),
        ("b.rs", "use crate::c;"),
        ("c.rs", "use crate::a;"),
    ];
    assert_eq!(rooms(&files), [["crate::a", "crate::b", "crate::c"]]);
}

#[test]
fn a_forbidden_import_is_found_wherever_it_stands() {
    let files = [
        ("lib.rs", "mod bindings; mod cycle; mod cycles;"),
        ("bindings.rs", "mod stage; use crate::cycles::Other;"),
        ("bindings/stage.rs", "use crate::cycle::Pods;"),
        ("cycle.rs", "pub struct Pods;"),
        ("cycles.rs", "pub struct Other;"),
    ];
    let found = forbidden_imports(&tree(&files), "crate::bindings", "crate::cycle");
    assert_eq!(found, ["crate::bindings::stage -> crate::cycle"]);
}
