//! The binaries that can serve under a plugin's name, and the binary that serves.

use berth_model::{BinaryId, Digest};

/// The counters that a caller's handle on a binary must provide.
pub trait CountCalls {
    /// The number of calls of all instances of the binary; 0 for native code, whose calls are not counted.
    fn n_calls(&self) -> u64;

    /// The number of questions about pods that the binary answered. They are part of the counted calls.
    fn n_answers(&self) -> u64;
}

/// A component, compiled and checked, ready to make instances.
#[derive(Clone, Debug)]
pub struct Component<B> {
    /// The SHA-256 of the component's bytes.
    pub digest: Digest,
    /// The caller's handle on the component.
    pub binary: B,
}

/// The binary that serves under a plugin's name.
#[derive(Clone, Debug)]
pub enum Service<B> {
    /// The code that is linked into this program.
    Native(B),
    /// The component of a built-in plugin that comes with this program.
    Embedded(Component<B>),
    /// A component of the plugins directory.
    Directory(Component<B>),
    /// No binary serves, for this reason. Pods are scheduled without the plugin.
    Pass(String),
    /// No binary serves, for this reason. Pods wait.
    Hold(String),
}

impl<B> Service<B> {
    /// The id of the binary that serves; `None` if no binary serves.
    pub fn id(&self) -> Option<BinaryId> {
        match self {
            Service::Native(_) => Some(BinaryId::Native),
            Service::Embedded(component) | Service::Directory(component) => Some(component.id()),
            Service::Pass(_) | Service::Hold(_) => None,
        }
    }

    /// The binary that serves; `None` if no binary serves.
    pub fn binary(&self) -> Option<&B> {
        match self {
            Service::Native(binary) => Some(binary),
            Service::Embedded(component) | Service::Directory(component) => Some(&component.binary),
            Service::Pass(_) | Service::Hold(_) => None,
        }
    }
}

impl<B> Component<B> {
    /// The digest of the component as the id of a binary.
    pub fn id(&self) -> BinaryId {
        BinaryId::Component(self.digest)
    }
}
