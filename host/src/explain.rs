//! `berth explain`: why a pod of a running scheduler is where it is, or waits. Also as `kubectl-berth`, so `kubectl berth explain`.

use std::io::{self, Write as _};

use anyhow::Result;
use berth_config::Usage;
use berth_plugin_cli::{Server, block_on};
use clap::{Args, Subcommand, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  berth explain pod default/web                 why is it pending, or why is it there?
  berth explain pod default/web --node n17      and why not on n17?
  berth explain pod default/web -o json         for programs: `reason` is one word

It asks the scheduler of this machine over its admin socket, or with --server one that serves HTTPS.";

/// What to explain.
#[derive(Debug, Subcommand)]
pub(crate) enum Explain {
    /// A pod: where it is, what was decided about it, and what plugins say now
    Pod(ExplainPod),
}

#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainPod {
    /// NAMESPACE/NAME, or NAME for the namespace `default`
    pod: String,
    /// Why it is on this node or is not
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

/// Explains it on standard output.
pub(crate) fn run(command: Explain) -> Result<()> {
    let Explain::Pod(ExplainPod { pod, node, output, server }) = command;
    let (namespace, name) = names(&pod)?;
    if let Some(node) = node.as_deref().filter(|node| !is_name(node)) {
        return Err(Usage(format!("--node {node:?} is no name of a node")).into());
    }
    let explanation = block_on(async { server.client()?.explain(namespace, name, node.as_deref()).await })?;
    let mut out = io::stdout().lock();
    match output {
        Format::Table => write!(out, "{}", explanation.text())?,
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, &explanation)?;
            writeln!(out)?;
        }
        Format::Yaml => write!(out, "{}", serde_saphyr::to_string(&explanation)?)?,
    }
    Ok(())
}

fn names(pod: &str) -> Result<(&str, &str), Usage> {
    let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
    if is_name(namespace) && is_name(name) {
        Ok((namespace, name))
    } else {
        Err(Usage(format!("{pod:?} is no pod: write NAMESPACE/NAME")))
    }
}

/// Whether it has the characters of names of pods and nodes: none of them means anything in a query.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|it| it.is_ascii_alphanumeric() || "-.".contains(it))
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_pod_is_named_with_or_without_its_namespace() {
        assert_eq!(names("infra/web-0").unwrap(), ("infra", "web-0"));
        assert_eq!(names("web-0").unwrap(), ("default", "web-0"));
        for bad in ["", "/", "a/", "a/b/c", "a b", "a/b?c=d"] {
            let error = names(bad).unwrap_err();
            assert!(error.0.contains("write NAMESPACE/NAME"), "{bad}");
        }
    }
}
