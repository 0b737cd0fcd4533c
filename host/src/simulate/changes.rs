//! Changes to the cluster before its pods are placed.

use std::{collections::BTreeSet, fs, path::PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use berth_config::Usage;
use berth_model::{api, selector::LabelMatcher};
use berth_what_if::{Cluster, ClusterNode};
use clap::Args;

const ZONE: &str = "topology.kubernetes.io/zone";

/// Nodes that come and go.
#[derive(Args, Debug)]
pub(super) struct Changes {
    /// Remove `node/NAME`, or all nodes of `zone/NAME`: their pods are recreated and placed elsewhere. Can be repeated
    #[arg(long, value_name = "KIND/NAME", value_parser = removed)]
    without: Vec<Removed>,
    /// Remove the nodes with these labels, as in `pool=old,arch!=arm64`
    #[arg(long, value_name = "SELECTOR", value_parser = selector)]
    without_selector: Option<Selector>,
    /// Add N nodes like the node in FILE, with the pods of DaemonSets, as in `10=node.yaml`. Can be repeated
    #[arg(long, value_name = "N=FILE", value_parser = added)]
    add: Vec<Added>,
}

#[derive(Clone, Debug)]
enum Removed {
    Node(String),
    Zone(String),
}

#[derive(Clone, Debug)]
struct Selector(LabelMatcher);

#[derive(Clone, Debug)]
struct Added {
    n: usize,
    file: PathBuf,
}

fn removed(text: &str) -> Result<Removed> {
    match text.split_once('/') {
        Some(("node", name)) if !name.is_empty() => Ok(Removed::Node(name.to_owned())),
        Some(("zone", name)) if !name.is_empty() => Ok(Removed::Zone(name.to_owned())),
        _ => bail!("invalid value `{text}`: expected node/NAME or zone/NAME"),
    }
}

fn added(text: &str) -> Result<Added> {
    let (n, file) =
        text.split_once('=').with_context(|| format!("invalid value `{text}`: expected N=FILE, as in 10=node.yaml"))?;
    let n =
        n.parse().map_err(|_| anyhow::anyhow!("invalid number of nodes `{n}`: expected N=FILE, as in 10=node.yaml"))?;
    Ok(Added { n, file: file.into() })
}

/// `key=value`, `key!=value`, `key` and `!key`, with commas between them.
fn selector(text: &str) -> Result<Selector> {
    let mut selector = api::LabelSelector::default();
    for part in text.split(',').map(str::trim) {
        let (key, operator, value) = match (part.split_once("!="), part.split_once('=')) {
            (Some((key, value)), _) => (key, "NotIn", Some(value)),
            (None, Some((key, value))) => (key, "In", Some(value.trim_start_matches('='))),
            (None, None) if part.starts_with('!') => (&part[1..], "DoesNotExist", None),
            (None, None) => (part, "Exists", None),
        };
        ensure!(
            !key.is_empty() && !part.contains(['(', ')', ' ']),
            "invalid requirement `{part}`: expected key=value, key!=value, key or !key"
        );
        selector.match_expressions.push(api::NodeSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: value.map(str::to_owned).into_iter().collect(),
        });
    }
    Ok(Selector(LabelMatcher::compile(Some(&selector)).map_err(|error| anyhow::anyhow!("{error}"))?))
}

impl Changes {
    /// Makes the changes, in the order in which the options are described.
    pub(super) fn apply(&self, cluster: &mut Cluster) -> Result<()> {
        for removed in &self.without {
            self.remove(removed, cluster)?;
        }
        if let Some(Selector(selector)) = &self.without_selector {
            let n = cluster.remove_nodes(|node| selector.matches(&node.node.metadata.labels));
            ensure!(n > 0, Usage("--without-selector: no node of the cluster has these labels".to_owned()));
        }
        for Added { n, file } in &self.add {
            let name = file.display().to_string();
            let text = fs::read_to_string(file).map_err(|error| Usage(format!("--add: {name}: {error}")))?;
            let template = ClusterNode::read(&name, &text).map_err(|error| Usage(format!("--add: {error}")))?;
            cluster.add_nodes(*n, &template).map_err(|error| Usage(format!("--add: {error}")))?;
        }
        Ok(())
    }

    fn remove(&self, removed: &Removed, cluster: &mut Cluster) -> Result<()> {
        let n = match removed {
            Removed::Node(name) => cluster.remove_nodes(|node| node.node.metadata.name == *name),
            Removed::Zone(name) => {
                cluster.remove_nodes(|node| node.node.metadata.labels.get(ZONE).is_some_and(|zone| zone == name))
            }
        };
        if n > 0 {
            return Ok(());
        }
        let (kind, name, known) = match removed {
            Removed::Node(name) => ("node", name, names(cluster, |node| Some(&node.node.metadata.name))),
            Removed::Zone(name) => ("zone", name, names(cluster, |node| node.node.metadata.labels.get(ZONE))),
        };
        bail!(Usage(format!("--without: {kind} {name} not found; the cluster has {known}")))
    }
}

/// The names of up to five nodes or zones, for error messages.
fn names<'a>(cluster: &'a Cluster, name: impl Fn(&'a ClusterNode) -> Option<&'a String>) -> String {
    let names: BTreeSet<&str> = cluster.nodes().iter().filter_map(|node| Some(name(node)?.as_str())).collect();
    let shown: Vec<&str> = names.iter().copied().take(5).collect();
    match names.len() {
        0 => "none".to_owned(),
        n if n > shown.len() => format!("{} and {} more", shown.join(", "), n - shown.len()),
        _ => shown.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_read_and_others_refused() {
        let labels = |text: &str| -> api::StringMap {
            text.split(',').filter_map(|it| it.split_once('=')).map(|(key, value)| (key.into(), value.into())).collect()
        };
        let matches = |text: &str, of: &str| selector(text).unwrap().0.matches(&labels(of));
        assert!(matches("a=1,b!=2,!c,d", "a=1,d=4") && matches("a==1", "a=1"));
        assert!(!matches("a=1,b!=2", "a=1,b=2") && !matches("!c", "c=3"));
        assert!(
            selector("a in (b)").is_err() && selector("").is_err() && removed("pod/x").is_err() && added("x").is_err()
        );
    }
}
