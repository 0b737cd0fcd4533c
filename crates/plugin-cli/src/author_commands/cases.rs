//! Files of cases for `test`, `verify` and `bench`. The files must be about this plugin; their limits and grants are
//! used.

use std::{fs, path::Path};

use anyhow::Result;
use berth_author::{CaseFile, CaseHost};
use berth_config::{PluginSettings, Usage};
use berth_framework::{Grants, Manifest, PluginFactory as _};
use berth_plugin_host::{Granted, NotGranted, limits};
use berth_telemetry::chain;
use berth_wasm_host::{ComponentFactory, Limits};

use super::project::Loaded;

/// A file of cases, with its limits and grants for the plugin.
pub(super) struct Cases {
    pub(super) file: CaseFile,
    limits: Option<Limits>,
    grants: Grants,
}

impl Cases {
    /// Reads the file.
    ///
    /// # Errors
    /// The file is about another plugin, or does not grant the reads that the plugin needs.
    pub(super) fn read(path: &Path, loaded: &Loaded) -> Result<Self> {
        let text =
            fs::read_to_string(path).map_err(|error| Usage(format!("cannot read {}: {error}", path.display())))?;
        let file = CaseFile::from_text(path, &text).map_err(|error| Usage(chain(&error)))?;
        let manifest = loaded.factory.manifest();
        let (path, name) = (path.display(), &manifest.name);
        if file.plugin != *name {
            let text = format!("{path}: plugin: the cases are about {:?}, and the component is {name:?}", file.plugin);
            return Err(Usage(text).into());
        }
        let settings = PluginSettings::with_terms_in(&text);
        let settings = settings.map_err(|error| Usage(format!("{path}: {}", chain(&error))))?;
        let mut grants = Grants::ALL;
        if let Some(granted) = settings.grants.as_ref().map(Granted::from) {
            let checked = granted.check_reads(name, manifest, None);
            checked
                .map_err(|error| Usage(format!("{path}: grants: {name} {}", missing(&granted, manifest, &error))))?;
            grants = granted.grants();
        }
        // No scheduler waits for the plugin, so its share of time does not matter.
        let limits = (!file.limits.is_null()).then(|| Limits { share: None, ..limits(&settings) });
        Ok(Self { file, limits, grants })
    }

    /// The plugin with the limits of the file.
    pub(super) fn limited(&self, factory: &ComponentFactory) -> ComponentFactory {
        self.limits.clone().map_or_else(|| factory.clone(), |limits| factory.with_limits(limits))
    }

    /// The host that the plugin uses in the cases.
    pub(super) fn host(&self, factory: &ComponentFactory) -> CaseHost {
        let clock = factory.clone();
        CaseHost::new(self.grants.clone(), move |milliseconds| clock.set_now(milliseconds))
    }
}

/// The grants in a file of cases; `None` if the file has no grants, because the cases of such a file grant everything.
///
/// # Errors
/// The field has another form.
pub(super) fn granted_in(path: &Path) -> Result<Option<Granted>> {
    let text = fs::read_to_string(path).map_err(|error| Usage(format!("cannot read {}: {error}", path.display())))?;
    let settings = PluginSettings::with_terms_in(&text);
    let settings = settings.map_err(|error| Usage(format!("{}: {}", path.display(), chain(&error))))?;
    Ok(settings.grants.as_ref().map(Granted::from))
}

/// The reads that the plugin needs beyond these grants, and the text to write. The text continues the plugin's name.
fn missing(granted: &Granted, manifest: &Manifest, error: &NotGranted) -> String {
    let reads = manifest.needs.objects.clone();
    let mut wanted: Vec<String> =
        reads.iter().filter(|kind| !granted.reads.contains(kind)).map(ToString::to_string).collect();
    wanted.extend((manifest.needs.pod_json && !granted.pod_json).then(|| "whole pending pods (podJson)".to_owned()));
    if wanted.is_empty() {
        return error.to_string().replace(" in --plugin-config", " here and in --plugin-config");
    }
    let needs = Granted { reads, pod_json: manifest.needs.pod_json, ..Granted::default() };
    let field = granted.clone().with(&needs).grants().field();
    format!(
        "reads {}, as its manifest says, but `grants` does not allow these reads: write `{field}` here, and in the \
         plugin's entry of --plugin-config",
        wanted.join(" and ")
    )
}
