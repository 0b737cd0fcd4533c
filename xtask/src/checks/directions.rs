//! The dependencies that each crate may have. Every other dependency is refused.
//!
//! Only dependencies of the libraries and programs themselves count; tests may use anything. A heavy crate also counts
//! as an indirect dependency.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use anyhow::{Context, Result, ensure};

/// External crates that determine the kind of a crate: a crate that depends on such a crate runs threads, speaks to an
/// API server, or compiles components.
const HEAVY: [&str; 9] = ["axum", "clap", "hyper", "k8s-openapi", "kube", "notify", "reqwest", "tokio", "wasmtime"];

/// A crate of the workspace, with the dependencies that it may have.
struct Rule {
    /// The crate.
    name: &'static str,
    /// The crates of the workspace that this crate may name in its manifest.
    ours: &'static [&'static str],
    /// The heavy crates that this crate may depend on, directly or indirectly.
    heavy: &'static [&'static str],
}

const fn rule(name: &'static str, ours: &'static [&'static str], heavy: &'static [&'static str]) -> Rule {
    Rule { name, ours, heavy }
}

const KUBERNETES: &[&str] = &["hyper", "k8s-openapi", "kube", "tokio"];
const EVERYTHING: &[&str] = &HEAVY;

/// The rules. Crates of plugins are not listed: they may name the SDK and the built-in plugins.
const RULES: &[Rule] = &[
    rule("berth-model", &[], &[]),
    rule("berth-framework", &["berth-model"], &[]),
    rule("berth-lifecycle", &["berth-model"], &[]),
    rule("berth-builtins", &["berth-framework", "berth-model"], &[]),
    rule("berth-queue", &["berth-framework", "berth-model"], &[]),
    rule("berth-cache", &["berth-framework", "berth-model"], &[]),
    rule("berth-explain", &["berth-framework", "berth-model"], &[]),
    rule(
        "berth-scheduler",
        &["berth-cache", "berth-explain", "berth-framework", "berth-lifecycle", "berth-model", "berth-queue"],
        &[],
    ),
    rule("berth-config", &["berth-framework", "berth-model"], &[]),
    rule("berth-kube-flags", &["berth-config", "berth-model"], &["clap"]),
    rule(
        "berth-bench",
        &[
            "berth-builtins",
            "berth-config",
            "berth-framework",
            "berth-model",
            "berth-scheduler",
            "berth-testing",
            "berth-what-if",
        ],
        &["clap"],
    ),
    rule(
        "berth-bench-processes",
        &["berth-bench", "berth-cluster", "berth-config", "berth-model", "berth-telemetry"],
        &["axum", "clap", "hyper", "k8s-openapi", "kube", "tokio"],
    ),
    rule("berth-what-if", &["berth-framework", "berth-model", "berth-scheduler"], &[]),
    rule("berth-author", &["berth-framework", "berth-model", "berth-scheduler", "berth-testing"], &[]),
    rule("berth-sdk", &["berth-framework", "berth-model", "berth-testing"], &[]),
    rule("berth-threads", &[], &[]),
    rule("berth-file-watch", &[], &["notify"]),
    rule(
        "berth-telemetry",
        &["berth-config", "berth-framework", "berth-model", "berth-scheduler", "berth-threads"],
        &["tokio"],
    ),
    rule(
        "berth-serving",
        &["berth-cluster", "berth-config", "berth-file-watch", "berth-model", "berth-scheduler", "berth-telemetry"],
        &["axum", "hyper", "k8s-openapi", "kube", "notify", "tokio"],
    ),
    rule("berth-wasm-host", &["berth-framework", "berth-model", "berth-threads"], &["wasmtime"]),
    rule(
        "berth-plugin-host",
        &[
            "berth-builtins",
            "berth-components",
            "berth-config",
            "berth-file-watch",
            "berth-framework",
            "berth-lifecycle",
            "berth-model",
            "berth-provenance",
            "berth-scheduler",
            "berth-telemetry",
            "berth-threads",
            "berth-wasm-host",
        ],
        &["hyper", "notify", "tokio", "wasmtime"],
    ),
    rule(
        "berth-plugin-cli",
        &[
            "berth-author",
            "berth-builtins",
            "berth-cluster",
            "berth-config",
            "berth-explain",
            "berth-framework",
            "berth-lifecycle",
            "berth-model",
            "berth-page",
            "berth-plugin-builder",
            "berth-plugin-host",
            "berth-provenance",
            "berth-serving",
            "berth-telemetry",
            "berth-wasm-host",
        ],
        EVERYTHING,
    ),
    rule(
        "berth-page",
        &[
            "berth-cluster",
            "berth-explain",
            "berth-lifecycle",
            "berth-model",
            "berth-plugin-host",
            "berth-queue",
            "berth-scheduler",
            "berth-serving",
            "berth-telemetry",
        ],
        &["axum", "hyper", "k8s-openapi", "kube", "notify", "tokio", "wasmtime"],
    ),
    rule(
        "berth-runtime",
        &[
            "berth-cluster",
            "berth-config",
            "berth-explain",
            "berth-file-watch",
            "berth-framework",
            "berth-model",
            "berth-otlp",
            "berth-page",
            "berth-plugin-host",
            "berth-queue",
            "berth-scheduler",
            "berth-serving",
            "berth-telemetry",
            "berth-threads",
            "berth-wasm-host",
            "berth-what-if",
        ],
        &["axum", "hyper", "k8s-openapi", "kube", "notify", "tokio", "wasmtime"],
    ),
    rule("berth-cluster", &["berth-model"], KUBERNETES),
    rule("berth-otlp", &[], &["hyper", "tokio"]),
    rule("berth-provenance", &["berth-model"], &["hyper", "tokio"]),
    rule("berth-faults", &[], &["axum", "hyper", "tokio"]),
    rule("berth-sandbox", &["berth-faults", "berth-model"], &["axum", "hyper", "k8s-openapi", "tokio"]),
    rule("berth-plugin-builder", &[], &[]),
    rule("berth-components", &[], &[]),
    rule(
        "berth-simulator",
        &[
            "berth-config",
            "berth-model",
            "berth-plugin-host",
            "berth-runtime",
            "berth-scheduler",
            "berth-telemetry",
            "berth-wasm-host",
            "berth-what-if",
        ],
        &["axum", "hyper", "k8s-openapi", "kube", "notify", "tokio", "wasmtime"],
    ),
    rule(
        "libberth",
        &["berth-config", "berth-simulator", "berth-telemetry", "berth-what-if"],
        &["axum", "hyper", "k8s-openapi", "kube", "notify", "tokio", "wasmtime"],
    ),
    rule(
        "berth-doctor",
        &[
            "berth-cluster",
            "berth-config",
            "berth-lifecycle",
            "berth-plugin-cli",
            "berth-plugin-host",
            "berth-runtime",
            "berth-telemetry",
            "berth-wasm-host",
        ],
        EVERYTHING,
    ),
    rule(
        "berth-host",
        &[
            "berth-bench",
            "berth-bench-processes",
            "berth-builtins",
            "berth-cluster",
            "berth-components",
            "berth-config",
            "berth-doctor",
            "berth-framework",
            "berth-kube-flags",
            "berth-model",
            "berth-page",
            "berth-plugin-cli",
            "berth-plugin-host",
            "berth-runtime",
            "berth-sandbox",
            "berth-serving",
            "berth-simulator",
            "berth-telemetry",
            "berth-wasm-host",
            "berth-what-if",
        ],
        EVERYTHING,
    ),
    rule("berth-testing", &["berth-cache", "berth-framework", "berth-model"], &[]),
    rule("berth-test-components", &["berth-components"], &[]),
    rule(
        "berth-chaos",
        &["berth-faults", "berth-sandbox", "berth-test-control-plane", "berth-test-processes"],
        &["axum", "clap", "hyper", "k8s-openapi", "kube", "tokio"],
    ),
    rule("berth-test-control-plane", &["berth-test-processes"], KUBERNETES),
    rule("berth-test-guests", &[], &[]),
    rule(
        "berth-test-languages",
        &["berth-author", "berth-model", "berth-testing", "berth-wasm-host"],
        &["notify", "wasmtime"],
    ),
    rule("berth-test-processes", &[], &["tokio"]),
    rule("berth-test-registry", &[], &["axum", "hyper", "tokio"]),
    rule(
        "fuzz-targets",
        &["berth-builtins", "berth-cache", "berth-config", "berth-framework", "berth-model", "berth-testing"],
        &[],
    ),
    rule(
        "oracle",
        &[
            "berth-builtins",
            "berth-cache",
            "berth-components",
            "berth-config",
            "berth-explain",
            "berth-framework",
            "berth-model",
            "berth-testing",
            "berth-wasm-host",
        ],
        &["clap", "notify", "wasmtime"],
    ),
    rule(
        "properties",
        &["berth-framework", "berth-model", "berth-scheduler", "berth-testing", "berth-what-if", "oracle"],
        &["clap", "notify", "wasmtime"],
    ),
    rule(
        "berth-differential",
        &["berth-test-control-plane", "berth-test-processes", "properties"],
        &["clap", "hyper", "k8s-openapi", "kube", "notify", "tokio", "wasmtime"],
    ),
    rule(
        "berth-e2e",
        &["berth-components", "berth-test-control-plane", "berth-test-processes"],
        &["axum", "clap", "hyper", "k8s-openapi", "kube", "tokio"],
    ),
    rule(
        "berth-storm",
        &[
            "berth-cluster",
            "berth-components",
            "berth-test-guests",
            "berth-test-processes",
            "berth-test-registry",
            "berth-testing",
            "berth-wasm-host",
        ],
        &["axum", "clap", "hyper", "k8s-openapi", "kube", "notify", "tokio", "wasmtime"],
    ),
    rule("xtask", &[], &[]),
];

const PLUGIN: Rule = rule("", &["berth-builtins", "berth-sdk"], &[]);

/// The workspace's dependencies.
#[derive(Debug, Default, PartialEq)]
struct Graph {
    /// The crates of the workspace, and the crates in the folders of plugins.
    ours: BTreeSet<String>,
    plugins: BTreeSet<String>,
    edges: BTreeMap<String, BTreeSet<String>>,
}

pub(super) fn check() -> Result<Vec<String>> {
    let arguments =
        ["tree", "--workspace", "--all-features", "--target", "all", "--locked", "-e", "normal", "--prefix", "depth"];
    let tree = Command::new("cargo").args(arguments).output().context("cannot run cargo tree")?;
    ensure!(tree.status.success(), "cargo tree: {}", String::from_utf8_lossy(&tree.stderr));
    let mut complaints = complaints(&Graph::parse(&String::from_utf8_lossy(&tree.stdout))?);
    if !complaints.is_empty() {
        complaints.push("the list of what crates may depend on is in xtask/src/checks/directions.rs".to_owned());
    }
    Ok(complaints)
}

impl Graph {
    /// Reads lines such as `1berth-model v0.1.0 (/path)`: the depth, and the crate. A crate that appears again has
    /// `(*)` in place of the lines below it.
    fn parse(text: &str) -> Result<Self> {
        let mut graph = Self::default();
        let mut above: Vec<String> = Vec::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let digits = line.chars().take_while(char::is_ascii_digit).count();
            let (depth, rest) = line.split_at(digits);
            let depth: usize = depth.parse().with_context(|| format!("cargo tree: {line}"))?;
            let name = rest.split(' ').next().unwrap_or_default().to_owned();
            above.truncate(depth);
            if let Some(parent) = above.last() {
                graph.edges.entry(parent.clone()).or_default().insert(name.clone());
            } else {
                if rest.contains("/plugins/") && name != "berth-components" || rest.contains("/tests/components/") {
                    graph.plugins.insert(name.clone());
                }
                graph.ours.insert(name.clone());
            }
            above.push(name);
        }
        Ok(graph)
    }

    /// A chain of dependencies from one crate to another.
    fn chain(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut next = vec![from];
        while let Some(name) = next.pop() {
            if name == to {
                let mut chain = vec![name.to_owned()];
                while let Some(before) = came_from.get(chain.last()?.as_str()) {
                    chain.push((*before).to_owned());
                }
                chain.reverse();
                return Some(chain);
            }
            for dependency in self.edges.get(name).into_iter().flatten() {
                if dependency != from && !came_from.contains_key(dependency.as_str()) {
                    came_from.insert(dependency, name);
                    next.push(dependency);
                }
            }
        }
        None
    }
}

fn complaints(graph: &Graph) -> Vec<String> {
    let mut complaints = Vec::new();
    for name in &graph.ours {
        let listed = RULES.iter().find(|rule| rule.name == name);
        let Some(rule) = listed.or_else(|| graph.plugins.contains(name).then_some(&PLUGIN)) else {
            complaints.push(format!("{name}: not in the list of crates and what they may depend on"));
            continue;
        };
        for dependency in graph.edges.get(name).into_iter().flatten().filter(|name| graph.ours.contains(*name)) {
            if !rule.ours.contains(&dependency.as_str()) {
                complaints.push(format!("{name} must not depend on {dependency}"));
            }
        }
        for heavy in HEAVY.iter().filter(|heavy| !rule.heavy.contains(heavy)) {
            if let Some(chain) = graph.chain(name, heavy) {
                complaints.push(format!("{name} must not depend on {heavy}: {}", chain.join(" -> ")));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests;
