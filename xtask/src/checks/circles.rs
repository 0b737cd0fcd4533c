//! No circles between modules, and no import that is listed as forbidden.
//!
//! A module and everything inside it (`foo.rs` and `foo/`) are one room. A child may use its parent, and a parent its
//! child: that is not a circle. The check looks for circles between rooms with the same parent. An import from deep
//! inside one room to deep inside another room counts as an import between these rooms, at every level. Tests are left
//! out, and a re-export is followed to the module that defines the name.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use anyhow::Result;

use super::{module_tree::Tree, packages::Package};

/// Forbidden imports, with paths from the root of the package: no module in `from` may name anything in `to`.
struct Forbidden {
    package: &'static str,
    from: &'static str,
    to: &'static [&'static str],
    because: &'static str,
}

const fn forbidden(from: &'static str, to: &'static [&'static str], because: &'static str) -> Forbidden {
    Forbidden { package: "berth-scheduler", from, to, because }
}

/// The machines of the scheduler. Three of these machines pass pods and events on to `bindings`, which must name none
/// of the machines.
const FORBIDDEN: [Forbidden; 4] = [
    forbidden(
        "crate::bindings",
        &["crate::event_handlers", "crate::cycle", "crate::swaps"],
        "what follows a placement must not depend on what led to it",
    ),
    forbidden(
        "crate::event_handlers",
        &["crate::cycle", "crate::swaps"],
        "crate::scheduler routes between the machines",
    ),
    forbidden(
        "crate::cycle",
        &["crate::event_handlers", "crate::swaps"],
        "crate::scheduler routes between the machines",
    ),
    forbidden(
        "crate::swaps",
        &["crate::event_handlers", "crate::cycle"],
        "crate::scheduler routes between the machines",
    ),
];

/// Rooms with the same parent that name one another, with an example of each import.
#[derive(Debug, PartialEq)]
struct Circle {
    rooms: Vec<String>,
    imports: Vec<String>,
}

/// The number of imports that are shown of a large circle.
const SHOWN: usize = 12;

impl fmt::Display for Circle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rooms, imports } = self;
        write!(formatter, "{} modules know each other: {}", rooms.len(), rooms.join(", "))?;
        for import in imports.iter().take(SHOWN) {
            write!(formatter, "\n    {import}")?;
        }
        match imports.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(formatter, "\n    and {more} more"),
        }
    }
}

pub(super) fn check(packages: &[Package]) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for package in packages {
        let Some(root) = package.main_root() else { continue };
        let tree = Tree::read(root)?;
        for circle in circles(&tree) {
            complaints.push(format!("{}: {circle}", package.name));
        }
        for Forbidden { package: name, from, to, because } in FORBIDDEN {
            if package.name == name {
                let found = to.iter().flat_map(|to| forbidden_imports(&tree, from, to));
                complaints.extend(found.map(|import| format!("{name}: {import}, but {because}")));
            }
        }
    }
    if !complaints.is_empty() {
        complaints.push(
            "xtask/src/checks/circles.rs says what counts as a circle, and which imports are forbidden".to_owned(),
        );
    }
    Ok(complaints)
}

/// Every import between two modules that are not inside one another, without tests.
fn imports(tree: &Tree) -> Vec<(usize, usize)> {
    let modules = (0..tree.modules.len()).filter(|module| !tree.modules[*module].is_test);
    let named = modules.flat_map(|from| tree.named_by(from).into_iter().map(move |to| (from, to)));
    let mut imports: Vec<_> = named.filter(|(from, to)| rooms(tree, *from, *to).is_some()).collect();
    imports.sort_unstable();
    imports
}

/// The rooms of two modules under their nearest common ancestor. `None` means that one module is inside the other.
fn rooms(tree: &Tree, from: usize, to: usize) -> Option<(usize, usize)> {
    let pairs = tree.lineage(from).into_iter().zip(tree.lineage(to));
    pairs.into_iter().find(|(one, other)| one != other)
}

fn circles(tree: &Tree) -> Vec<Circle> {
    let mut edges: BTreeMap<usize, BTreeMap<usize, String>> = BTreeMap::new();
    for (from, to) in imports(tree) {
        if let Some((one, other)) = rooms(tree, from, to) {
            let example = || format!("{} -> {}", tree.path(from), tree.path(to));
            edges.entry(one).or_default().entry(other).or_insert_with(example);
        }
    }
    let mut circles = Vec::new();
    let mut done = BTreeSet::new();
    for room in edges.keys() {
        let circle: BTreeSet<usize> =
            reachable(&edges, *room).into_iter().filter(|other| reachable(&edges, *other).contains(room)).collect();
        if circle.contains(room) && done.insert(circle.clone()) {
            circles.push(describe(tree, &edges, &circle));
        }
    }
    circles
}

fn describe(tree: &Tree, edges: &BTreeMap<usize, BTreeMap<usize, String>>, circle: &BTreeSet<usize>) -> Circle {
    let inside = circle.iter().filter_map(|room| edges.get(room));
    let inside = inside.flat_map(|to| to.iter().filter(|(room, _)| circle.contains(room)));
    Circle {
        rooms: circle.iter().map(|room| tree.path(*room)).collect(),
        imports: inside.map(|(_, example)| example.clone()).collect(),
    }
}

/// The rooms that can be reached from one room. The room itself counts only if a circle leads back to it.
fn reachable(edges: &BTreeMap<usize, BTreeMap<usize, String>>, from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut next = vec![from];
    while let Some(room) = next.pop() {
        for to in edges.get(&room).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(*to) {
                next.push(*to);
            }
        }
    }
    reached
}

fn forbidden_imports(tree: &Tree, from: &str, to: &str) -> Vec<String> {
    let is_in =
        |path: &str, room: &str| path == room || path.strip_prefix(room).is_some_and(|rest| rest.starts_with("::"));
    let imports = imports(tree).into_iter().map(|(from, to)| (tree.path(from), tree.path(to)));
    let forbidden = imports.filter(|(source, target)| is_in(source, from) && is_in(target, to));
    forbidden.map(|(source, target)| format!("{source} -> {target}")).collect()
}

#[cfg(test)]
mod tests;
