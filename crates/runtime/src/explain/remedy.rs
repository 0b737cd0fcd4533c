//! The ways in which an operator ends the wait for a plugin that is not in service for a pod.

use berth_explain::Holder;
use berth_plugin_host::{Message, PluginReport};
use tokio::sync::oneshot;

use super::{ExplainError, Explainer};

impl Explainer {
    /// The notes about the plugins that hold a pod because they are not in service for it.
    pub(super) async fn remedies(&self, holders: &[Holder]) -> Result<Vec<String>, ExplainError> {
        let waits_for =
            |plugin: &PluginReport| holders.iter().any(|holder| holder.point.is_none() && holder.plugin == plugin.name);
        if holders.iter().all(|holder| holder.point.is_some()) {
            return Ok(Vec::new());
        }
        let (answer, plugins) = oneshot::channel();
        self.supervisor.send(Message::List(answer)).await.map_err(|_| ExplainError::Stopping)?;
        let plugins = plugins.await.map_err(|_| ExplainError::Stopping)?;
        Ok(plugins.iter().filter(|plugin| waits_for(plugin)).map(remedy).collect())
    }
}

/// The end of the plugin's quarantine, if it is quarantined, and the commands with which pods go on.
fn remedy(plugin: &PluginReport) -> String {
    let name = &plugin.name;
    let quarantined =
        plugin.quarantined.as_ref().map_or_else(String::new, |it| format!(" is quarantined until {}", it.until));
    let rollback = if plugin.previous_digest.is_some() {
        format!("with `berth plugin rollback {name}`, its previous binary serves again; ")
    } else {
        String::new()
    };
    format!(
        "plugin {name}{quarantined}: {rollback}with `berth plugin disable {name}`, pods are scheduled without the plugin"
    )
}

#[cfg(test)]
mod tests {
    use berth_plugin_host::QuarantinedBinary;

    use super::*;

    #[test]
    fn only_commands_that_help_are_named() {
        let mut plugin = PluginReport { name: "Zone".to_owned(), ..PluginReport::default() };
        let disable = "with `berth plugin disable Zone`, pods are scheduled without the plugin";
        assert_eq!(remedy(&plugin), format!("plugin Zone: {disable}"));
        plugin.previous_digest = Some("built-in".to_owned());
        let until = "2026-01-02T03:04:05Z".to_owned();
        plugin.quarantined = Some(QuarantinedBinary { until, ..QuarantinedBinary::default() });
        let rollback = "with `berth plugin rollback Zone`, its previous binary serves again";
        let expected = format!("plugin Zone is quarantined until 2026-01-02T03:04:05Z: {rollback}; {disable}");
        assert_eq!(remedy(&plugin), expected);
    }
}
