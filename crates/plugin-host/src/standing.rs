//! Describes which binary currently serves under a plugin's name, for the ends of log lines and events.

use berth_lifecycle::Service;

use crate::inventory::PluginInventory;

/// A sentence without its full stop. If profiles differ, the text describes the first profile, as the list of plugins
/// does.
pub(crate) fn standing(inventory: &PluginInventory, plugin: &str) -> String {
    let status = inventory.status(plugin);
    let Some(status) = status.filter(|status| !status.profiles.is_empty()) else {
        return "no profile uses it".to_owned();
    };
    match &status.service {
        Service::Native(_) => "the built-in plugin runs natively".to_owned(),
        Service::Embedded(component) => {
            format!("the built-in plugin runs as the component {}", component.digest.short())
        }
        Service::Directory(component) => {
            let version = component.binary.factory().version().version;
            format!("{} (version {version}) serves", component.digest.short())
        }
        Service::Hold(_) => "no binary serves, and the pods of its profiles wait".to_owned(),
        Service::Pass(_) => "no binary serves, and pods are scheduled without the plugin".to_owned(),
    }
}
