//! A placeholder answers for a plugin that has no binary in service.
//!
//! A placeholder implements no extension point. If the placeholder lets pods pass, the plugin has no effect. If the
//! placeholder holds pods, it rejects every pod of its profile at the beginning of the cycle. The message names the
//! plugin and the remedy. These pods wait, and are not tried again until a binary replaces the placeholder.
//!
//! The manifest of a placeholder for a plugin that will serve again, after a quarantine or a restart, names the kinds of
//! the plugin. So these kinds are still watched when the plugin comes back.

use berth_framework::{
    BuildError, DeltaSource, Hosted, Manifest, Plugin, PluginFactory, PluginVersion, Points, Status,
};

/// Makes placeholders for one plugin.
#[derive(Debug)]
pub(crate) struct PlaceholderFactory {
    manifest: Manifest,
    /// The message for pods; `None` lets them pass.
    hold: Option<String>,
}

impl PlaceholderFactory {
    pub(crate) fn that_passes(name: &str) -> Self {
        Self::new(name, None)
    }

    pub(crate) fn that_holds(name: &str, reason: &str) -> Self {
        Self::new(name, Some(reason.to_owned()))
    }

    /// A placeholder for a plugin that will serve again.
    pub(crate) fn until_return_of(mut self, absent: &Manifest) -> Self {
        self.manifest.needs.objects.clone_from(&absent.needs.objects);
        self.manifest.events_to_register.clone_from(&absent.events_to_register);
        self
    }

    fn new(name: &str, hold: Option<String>) -> Self {
        let manifest = Manifest { name: name.to_owned(), events_to_register: Some(Vec::new()), ..Manifest::default() };
        Self { manifest, hold }
    }
}

impl PluginFactory for PlaceholderFactory {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn points(&self) -> Points {
        Points::default()
    }

    fn version(&self) -> PluginVersion {
        version(&self.manifest)
    }

    fn build(&self, _args: &str) -> Result<Box<dyn Plugin>, BuildError> {
        Ok(Box::new(Placeholder { manifest: self.manifest.clone(), hold: self.hold.clone() }))
    }
}

struct Placeholder {
    manifest: Manifest,
    hold: Option<String>,
}

impl Plugin for Placeholder {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn version(&self) -> PluginVersion {
        version(&self.manifest)
    }

    berth_framework::points!();
    berth_framework::hooks!(Hosted);
}

impl Hosted for Placeholder {
    fn sync(&mut self, _source: &dyn DeltaSource) -> Result<(), Status> {
        self.out_of_service().map_or(Ok(()), Err)
    }

    fn out_of_service(&self) -> Option<Status> {
        // The status is unresolvable, because another node or an eviction would not help.
        self.hold.as_ref().map(|reason| Status::unresolvable(reason.as_str()))
    }

    /// The body does nothing, because a placeholder is never asked.
    fn answered_badly(&mut self, _reason: &str) {}
}

fn version(manifest: &Manifest) -> PluginVersion {
    PluginVersion { name: manifest.name.clone(), ..PluginVersion::default() }
}
