//! What is found out about a plugin's binary, whether it came from the plugins directory or from a registry, at the start or
//! later. There is one way in for all of it: `PluginInventory::take_in`.

use berth_lifecycle::Component;
use berth_model::{Digest, PluginName};
use berth_telemetry::{audit::By, chain};

use crate::{
    directory::{DirectoryChange, DirectoryEvent, FileError},
    ready_binary::{Origin, ReadyBinary, component},
};

/// Something was found out about a plugin's binary.
#[derive(Debug)]
pub struct Finding {
    pub(crate) plugin: PluginName,
    pub(crate) found_in: FoundIn,
    pub(crate) found: Found,
}

/// Where a binary was found. A plugin comes from one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundIn {
    Directory,
    Registry,
}

#[derive(Debug)]
pub(crate) enum Found {
    /// A plugin, ready to be built. It may serve if it is granted what it wants.
    Binary(Component<ReadyBinary>),
    /// These bytes are no plugin; `digest` is `None` if they could not be read. `reason` reads on from the file's name.
    NoPlugin { digest: Option<Digest>, reason: String },
    /// No trusted signer has signed these bytes: they may not serve, and are taken out of service. Reads on as well.
    NotAdmitted { digest: Option<Digest>, reason: String },
    /// The registry gave nothing: what serves goes on. Reads on from the reference.
    Unreachable(String),
    /// There is no file any more.
    Gone,
}

impl FoundIn {
    /// Who causes what follows, for the audit log.
    pub(crate) fn by(self) -> By {
        match self {
            FoundIn::Directory => By::PluginsDirectory,
            FoundIn::Registry => By::Registry,
        }
    }
}

impl From<DirectoryEvent> for Finding {
    fn from(event: DirectoryEvent) -> Self {
        let DirectoryEvent { name, change } = event;
        let found = match change {
            DirectoryChange::Loaded { factory, approval } => {
                Found::Binary(component(factory, Origin { reference: None, signed_by: approval.signed_by }))
            }
            DirectoryChange::Removed => Found::Gone,
            DirectoryChange::Refused { digest, error: FileError::NotAdmitted(reason) } => {
                Found::NotAdmitted { digest, reason: reason.to_string() }
            }
            DirectoryChange::Refused { digest, error } => Found::NoPlugin { digest, reason: chain(&error) },
        };
        Self { plugin: PluginName::from(name), found_in: FoundIn::Directory, found }
    }
}
