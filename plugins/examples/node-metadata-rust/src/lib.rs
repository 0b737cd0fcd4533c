//! NodeMetadata: prefers nodes by the integer in one of their labels, and can require that label.
//!
//! Arguments: `key` (required); `order`, `ascending` (the default: higher values score higher) or `descending`; `require`
//! (nodes without the label are rejected).

use berth_sdk::{
    NodePlugin, NodeView, PerNode, PodView,
    framework::{ConfigureError, Needs, Status},
    model::Column,
};
use serde_json::Value;

berth_sdk::export!(PerNode<NodeMetadata>: Filter, Score, Normalize);

/// A score that is lower than the score of any 32-bit value.
const NO_VALUE: i64 = i32::MIN as i64 - 1;

/// The plugin, configured.
#[derive(Debug)]
pub struct NodeMetadata {
    key: String,
    is_descending: bool,
    is_required: bool,
}

impl NodePlugin for NodeMetadata {
    const NAME: &'static str = "NodeMetadata";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    /// The arguments are read by hand, so that each refusal says what to write.
    type Args = Value;

    fn needs() -> Needs {
        Needs { columns: [Column::Labels].into_iter().collect(), ..Needs::default() }
    }

    fn new(args: Value) -> Result<Self, ConfigureError> {
        let key = args.get("key").and_then(Value::as_str).unwrap_or_default().to_owned();
        if key.is_empty() {
            return Err("key: the name of a node label is required".into());
        }
        let is_descending = match args.get("order").map_or(Some("ascending"), Value::as_str) {
            Some("ascending") => false,
            Some("descending") => true,
            _ => return Err("order: must be \"ascending\" or \"descending\"".into()),
        };
        let Some(is_required) = args.get("require").map_or(Some(false), Value::as_bool) else {
            return Err("require: must be true or false".into());
        };
        Ok(Self { key, is_descending, is_required })
    }

    fn filter(&self, _pod: PodView<'_>, node: NodeView<'_>) -> Result<(), Status> {
        if !self.is_required || node.label(&self.key).is_some() {
            return Ok(());
        }
        Err(Status::unresolvable(format!("node(s) didn't have the label {}", self.key)))
    }

    fn score(&self, _pod: PodView<'_>, node: NodeView<'_>) -> i64 {
        match node.label(&self.key).and_then(|text| text.parse::<i32>().ok()) {
            Some(value) if self.is_descending => -i64::from(value),
            Some(value) => i64::from(value),
            None => NO_VALUE,
        }
    }

    /// The scores are 1 to 100 for nodes with a value, and 0 for nodes without a value.
    fn normalize(&self, scores: &mut [i64]) {
        let values = || scores.iter().copied().filter(|score| *score != NO_VALUE);
        let (least, most) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
        for score in scores {
            *score = match *score {
                NO_VALUE => 0,
                _ if most == least => 100,
                value => 1 + 99 * (value - least) / (most - least),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_sdk::{
        framework::Configure,
        testing::{TestCluster, node, pod},
    };

    use super::*;

    #[test]
    fn nodes_are_ranked_by_the_label() {
        let mut cluster = TestCluster::default();
        for (name, rank) in [("low", "-10"), ("middle", "0"), ("high", "90")] {
            cluster.set_node(&node(name).label("rank", rank).build());
        }
        cluster.set_node(&node("without").build());
        let pod = cluster.intern(&pod("p").build());
        let mut plugin = PerNode::<NodeMetadata>::configure(r#"{"key": "rank", "require": true}"#).unwrap();
        let answers = cluster.ask(&mut plugin, &pod).unwrap();
        let scores: Vec<_> = answers.scores.iter().map(|(name, score)| (name.as_str(), *score)).collect();
        assert_eq!(scores, [("high", 100), ("low", 1), ("middle", 10)]);
        assert_eq!(answers.rejected["without"], Status::unresolvable("node(s) didn't have the label rank"));
    }

    #[test]
    fn arguments_are_refused_with_what_to_write() {
        for (args, reason) in [
            ("null", "key: the name of a node label is required"),
            (r#"{"key": "rank", "order": "up"}"#, "order: must be \"ascending\" or \"descending\""),
            (r#"{"key": "rank", "require": "yes"}"#, "require: must be true or false"),
        ] {
            assert_eq!(PerNode::<NodeMetadata>::configure(args).unwrap_err().to_string(), reason);
        }
    }
}
