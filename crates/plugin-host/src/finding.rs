//! Results about a plugin's binary from the plugins directory or from a registry, at the start or later.
//! `PluginInventory::take_in` takes all of them.

use berth_lifecycle::Component;
use berth_model::{Digest, PluginName};
use berth_telemetry::{audit::By, chain};

use crate::{
    directory::{DirectoryChange, DirectoryEvent, FileError, LONGEST_WAIT},
    ready_binary::{Origin, ReadyBinary, component},
};

/// A result about a plugin's binary.
#[derive(Debug)]
pub struct Finding {
    pub(crate) plugin: PluginName,
    pub(crate) found_in: FoundIn,
    pub(crate) found: Found,
}

/// The place where a binary was found. Each plugin comes from one of these places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundIn {
    Directory,
    Registry,
}

#[derive(Debug)]
pub(crate) enum Found {
    /// A plugin that is ready to be built. It may serve if its needs are granted.
    Binary(Component<ReadyBinary>),
    /// The bytes are not the plugin of this name. `digest` is `None` if the bytes could not be read. `reason` continues
    /// the file's name. `own_name` is the name in the manifest, if only the name is wrong.
    NoPlugin { digest: Option<Digest>, reason: String, own_name: Option<String> },
    /// No trusted signer has signed these bytes: they may not serve, and are taken out of service. `reason` continues
    /// the file's name.
    NotAdmitted { digest: Option<Digest>, reason: String },
    /// The registry returned nothing, or its artifact cannot be compiled at the moment. The present binary continues to
    /// serve. The text continues the reference.
    Unreachable(String),
    /// The file no longer exists.
    Gone,
}

impl FoundIn {
    /// The cause of the consequences, for the audit log.
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
            DirectoryChange::Refused { digest, error } => {
                let own_name = error.own_name().map(str::to_owned);
                let mut reason = chain(&error);
                if error.is_of_the_moment() {
                    reason += &format!("; a running scheduler tries again within {} s", LONGEST_WAIT.as_secs());
                }
                Found::NoPlugin { digest, reason, own_name }
            }
        };
        Self { plugin: PluginName::from(name), found_in: FoundIn::Directory, found }
    }
}
