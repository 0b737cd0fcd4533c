//! The name of a plugin.

use std::{borrow::Borrow, fmt, ops::Deref, sync::Arc};

/// The name by which profiles, settings and the plugins directory refer to a plugin: `NodeAffinity`, or `Mine` for the
/// file `Mine.wasm`.
///
/// The type accepts any text. A name from outside (a configuration file, a command line) is checked where it is read.
/// Cloning is cheap.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginName(Arc<str>);

impl PluginName {
    /// The name as users write it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for PluginName {
    fn default() -> Self {
        Self(Arc::from(""))
    }
}

impl From<&str> for PluginName {
    fn from(name: &str) -> Self {
        Self(Arc::from(name))
    }
}

impl From<String> for PluginName {
    fn from(name: String) -> Self {
        Self(Arc::from(name))
    }
}

impl From<&PluginName> for PluginName {
    fn from(name: &PluginName) -> Self {
        name.clone()
    }
}

impl Deref for PluginName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for PluginName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for PluginName {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for PluginName {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

impl fmt::Debug for PluginName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, formatter)
    }
}

impl fmt::Display for PluginName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
