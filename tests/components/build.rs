//! Builds the example plugins in Rust, and the plugins that only tests use, for wasm.

use std::{env, path::PathBuf};

use anyhow::{Context, Result};
use berth_plugin_builder::{Plugin, embed};

/// Folder, crate, and the name by which profiles refer to the plugin.
const PLUGINS: [(&str, &str, &str); 10] = [
    ("plugins/examples/capacity-scheduling", "berth-example-capacity-scheduling", "CapacityScheduling"),
    ("plugins/examples/coscheduling", "berth-example-coscheduling", "Coscheduling"),
    ("plugins/examples/gpu-bin-pack", "berth-example-gpu-bin-pack", "GpuBinPack"),
    ("plugins/examples/load-aware", "berth-example-load-aware", "LoadAware"),
    ("plugins/examples/node-metadata-rust", "berth-example-node-metadata-rust", "NodeMetadata"),
    ("plugins/examples/numa-aware", "berth-example-numa-aware", "NumaAware"),
    ("plugins/examples/qos-sort", "berth-example-qos-sort", "QOSSort"),
    ("plugins/examples/tenant-quota-rust", "berth-example-tenant-quota-rust", "TenantQuota"),
    ("tests/components/breaks-down", "breaks-down", "BreaksDown"),
    ("tests/components/upside-down", "upside-down", "UpsideDown"),
];

fn main() -> Result<()> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let workspace = here.ancestors().nth(2).context("tests/components is not in the workspace")?;
    let plugins = PLUGINS.map(|(folder, package, name)| Plugin {
        folder: workspace.join(folder),
        package: package.to_owned(),
        name: name.to_owned(),
    });
    embed(workspace, "COMPONENTS", "Every component of this crate.", &plugins)
}
