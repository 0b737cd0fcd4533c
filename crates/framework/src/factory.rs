//! The traits that make configured plugins.

use std::fmt;

use crate::{
    error::{BuildError, ConfigureError},
    manifest::Manifest,
    plugin::{Plugin, PluginVersion, Points},
};

/// The constructor of a plugin that is written in Rust, both natively and inside a component.
/// [`plugin!`](crate::plugin) implements the rest.
pub trait Configure: Plugin + Sized {
    /// The plugin's own description. It is the same for every configuration.
    fn describe() -> Manifest;

    /// Makes an instance for one profile.
    ///
    /// # Errors
    /// The plugin refuses these arguments (`pluginConfig` as JSON, `null` when there are none). The error has the
    /// reason.
    fn configure(args: &str) -> Result<Self, ConfigureError>;
}

/// A type of plugin whose points are known without an instance.
pub trait PluginType: Configure {
    /// The points of every instance.
    const POINTS: Points;
}

/// Makes configured instances of one binary, one for each profile that uses it.
pub trait PluginFactory: Send + Sync + fmt::Debug {
    /// The plugin's own description.
    fn manifest(&self) -> &Manifest;

    /// The points that the instances of this factory implement.
    fn points(&self) -> Points;

    /// The identity of the binary.
    fn version(&self) -> PluginVersion;

    /// Makes an instance configured with `args`, the `pluginConfig` of its profile as JSON (`null` when there is none).
    ///
    /// # Errors
    /// The plugin refuses these arguments or cannot be started.
    fn build(&self, args: &str) -> Result<Box<dyn Plugin>, BuildError>;

    /// Whether building an instance and its first sync take so long that no cycle should wait for them.
    fn takes_long(&self) -> bool {
        false
    }
}
