//! `berth explain`: why a pod of a running scheduler is on its node, or why it waits. The program is also a plugin of
//! kubectl if it is called `kubectl-berth`: `kubectl berth explain`.

use std::{
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use anyhow::Result;
use berth_config::Usage;
use berth_plugin_cli::{Server, block_on};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

const EXAMPLES: &str = "\
Examples:
  berth explain pod default/web                 why is it pending, or why is it on its node?
  berth explain pod default/web --node n17      and why not on n17?
  berth explain pod default/web -o json         for programs: `reason` is one word
  berth explain -f pod.yaml                     where would this pod go, and why?

The command asks the scheduler of this machine over the scheduler's admin socket, or with --server a scheduler that serves HTTPS.";

/// The object to explain.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub(crate) struct Explain {
    #[command(subcommand)]
    what: Option<What>,
    /// Manifest of a pod that does not exist yet, YAML or JSON; `-` is standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    how: How,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Explain a pod: its node or queue, the last decision about it, and the current answers of plugins
    Pod(ExplainPod),
    /// Words that are no command: `default/web` without `pod`.
    #[command(external_subcommand)]
    Other(Vec<String>),
}

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
struct ExplainPod {
    /// NAMESPACE/NAME, or NAME for the namespace `default`
    pod: String,
    #[command(flatten)]
    how: How,
}

#[derive(Args, Debug)]
struct How {
    /// Explain why the pod is or is not on this node
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Output for people or for programs
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    server: Server,
}

/// `-o`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// For programs.
    Yaml,
}

/// Prints the explanation on standard output.
pub(crate) fn run(command: Explain) -> Result<()> {
    let Explain { what, file, how } = command;
    let (how, explanation) = match (what, file) {
        (Some(What::Pod(ExplainPod { pod, how })), _) => {
            let (namespace, name) = names(&pod)?;
            let node = how.node()?;
            let explained = async { how.server.client().await?.explain(namespace, name, node).await };
            let explanation = block_on(explained)?;
            (how, explanation)
        }
        (Some(What::Other(words)), _) => return Err(no_command(&words).into()),
        (None, Some(file)) => {
            let manifest = serde_json::to_vec(&pod_in(&file)?)?;
            let node = how.node()?;
            let explained = async { how.server.client().await?.explain_manifest(manifest, node).await };
            let explanation = block_on(explained)?;
            (how, explanation)
        }
        (None, None) => return Err(Usage("name a pod, or a file with one: -f FILE".to_owned()).into()),
    };
    let mut out = io::stdout().lock();
    match how.output {
        Format::Table => write!(out, "{}", explanation.text())?,
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, &explanation)?;
            writeln!(out)?;
        }
        Format::Yaml => write!(out, "{}", serde_saphyr::to_string(&explanation)?)?,
    }
    Ok(())
}

/// The error for a pod without `pod` before it, or with another word such as `pods`.
fn no_command(words: &[String]) -> Usage {
    let named = match words {
        [_, rest @ ..] if rest.first().is_some_and(|next| !next.starts_with('-')) => rest,
        _ => words,
    };
    let first = words.first().map_or("", String::as_str);
    Usage(format!("{first:?} is not a command: write `berth explain pod {}`", named.join(" ")))
}

impl How {
    fn node(&self) -> Result<Option<&str>, Usage> {
        match self.node.as_deref() {
            Some(node) if !is_name(node) => Err(Usage(format!("invalid --node {node:?}: expected the name of a node"))),
            node => Ok(node),
        }
    }
}

/// Reads the pod of a manifest, which must hold exactly one object.
fn pod_in(file: &Path) -> Result<Value, Usage> {
    let unusable = |problem: &dyn std::fmt::Display| Usage(format!("-f {}: {problem}", file.display()));
    let text = if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().lock().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(|error| unusable(&error))?;
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).map_err(|error| unusable(&error))?;
    objects.retain(|object| !object.is_null());
    let found = objects.len();
    match (objects.pop(), found) {
        (Some(object), 1) if object["kind"] == "Pod" => Ok(object),
        (Some(object), 1) => {
            let kind = object["kind"].as_str().unwrap_or("nothing");
            Err(unusable(&format!("found {kind}, but only a Pod can be explained; use `berth simulate` for workloads")))
        }
        _ => Err(unusable(&format!("expected exactly one Pod, found {found} objects"))),
    }
}

fn names(pod: &str) -> Result<(&str, &str), Usage> {
    let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
    if is_name(namespace) && is_name(name) {
        Ok((namespace, name))
    } else {
        Err(Usage(format!("invalid pod {pod:?}: expected NAME or NAMESPACE/NAME")))
    }
}

/// Whether the text has only characters that names of pods and nodes may have. None of these characters has a meaning
/// in a query.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|it| it.is_ascii_alphanumeric() || "-.".contains(it))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn a_pod_is_named_with_or_without_its_namespace() {
        assert_eq!(names("infra/web-0").unwrap(), ("infra", "web-0"));
        assert_eq!(names("web-0").unwrap(), ("default", "web-0"));
        for bad in ["", "/", "a/", "a/b/c", "a b", "a/b?c=d"] {
            let error = names(bad).unwrap_err();
            assert!(error.0.contains("expected NAME or NAMESPACE/NAME"), "{bad}");
        }
    }

    #[test]
    fn a_pod_without_its_kind_is_understood() {
        let refused = |arguments: &[&str]| {
            let words = ["berth", "explain"].iter().chain(arguments);
            let Command::Explain(command) = Cli::try_parse_from(words).expect("a command line").command else {
                panic!("another command");
            };
            run(command).expect_err("no command").to_string()
        };
        for (arguments, first, meant) in [
            (&["default/web"][..], "default/web", "default/web"),
            (&["web", "-o", "json"], "web", "web -o json"),
            (&["pods", "default/web", "--node", "n17"], "pods", "default/web --node n17"),
        ] {
            let expected = format!("{first:?} is not a command: write `berth explain pod {meant}`");
            assert_eq!(refused(arguments), expected);
        }
    }

    #[test]
    fn a_manifest_holds_one_pod() {
        let dir = tempfile::tempdir().expect("a folder");
        let read = |text: &str| {
            let file = dir.path().join("pod.yaml");
            std::fs::write(&file, text).expect("a file");
            pod_in(&file)
        };
        let pod = read("---\nkind: Pod\nmetadata: {name: a}\n").expect("a pod");
        assert_eq!(pod["metadata"]["name"], "a");
        for (text, part) in [
            ("kind: Deployment", "found Deployment"),
            ("kind: Pod\n---\nkind: Pod\n", "found 2 objects"),
            ("", "found 0 objects"),
            ("kind: [", "pod.yaml: "),
        ] {
            let error = read(text).expect_err("refused").to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
