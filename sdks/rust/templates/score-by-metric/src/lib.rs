//! {{name}}: prefers nodes with a lower load. A monitor writes the load as a number from 0 to 100 into an annotation:
//!
//! ```console
//! kubectl annotate --overwrite node node-00001 example.com/load=35
//! ```

use berth_sdk::{
    NodePlugin, NodeView, PerNode, PodView,
    framework::{ConfigureError, Needs},
    model::Column,
};
use serde::Deserialize;

berth_sdk::export!(PerNode<{{name}}>: Score);

const METRIC: &str = "example.com/load";

/// The plugin's `pluginConfig`. The plugin takes no arguments.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {}

/// The plugin.
#[derive(Debug)]
pub struct {{name}};

impl NodePlugin for {{name}} {
    const NAME: &'static str = "{{name}}";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    type Args = Args;

    fn needs() -> Needs {
        Needs {
            columns: [Column::Annotations].into_iter().collect(),
            annotation_keys: vec![METRIC.to_owned()],
            ..Needs::default()
        }
    }

    fn new(_args: Args) -> Result<Self, ConfigureError> {
        Ok(Self)
    }

    /// From 0 to 100: without `Normalize` this is the score.
    fn score(&self, _pod: PodView<'_>, node: NodeView<'_>) -> i64 {
        100 - load_of(node)
    }
}

/// The load of a node, from 0 to 100. A node without a number has the load 100.
fn load_of(node: NodeView<'_>) -> i64 {
    let load = node.annotation(METRIC).and_then(|text| text.parse().ok());
    load.filter(|load| (0..=100).contains(load)).unwrap_or(100)
}
