//! Configuration documents, and the arguments of plugins.

use std::str;

use berth_config::{InTree, PluginHostSettings, Settings};
use serde_json::Value;

use crate::{cluster, single};

/// A document that is accepted is written and read back as the same settings.
pub(crate) fn scheduler(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let in_tree = InTree::new(&berth_builtins::factories());
    match Settings::from_text("config.yaml", text, &in_tree) {
        Ok(settings) => {
            let again = settings.to_yaml().map(|text| Settings::from_text("again.yaml", &text, &in_tree));
            assert!(matches!(again, Ok(Ok(again)) if again == settings), "accepted settings must read back");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

pub(crate) fn plugin_host(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match PluginHostSettings::from_text("plugins.yaml", text) {
        Ok(settings) => {
            for name in settings.named().map(|name| name.as_str()).chain(["Other"]) {
                let _ = (settings.plugin(name), settings.execution(name, "default-scheduler", None));
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Passes the arguments to every plugin. The plugins that accept the arguments must work with these arguments.
pub(crate) fn plugin_args(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let (cluster, pod) = cluster::small();
    let factories = berth_builtins::factories();
    let in_tree = InTree::new(&factories);
    for factory in factories {
        match factory.build(text) {
            Ok(mut plugin) => single::ask(&mut *plugin, &cluster, &pod),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    // The arguments, after they have passed through a configuration.
    let Ok(args) = serde_json::from_str::<Value>(text) else { return };
    let Some(plugin) = args.get("kind").and_then(Value::as_str).and_then(|kind| kind.strip_suffix("Args")) else {
        return;
    };
    let profile = serde_json::json!({"pluginConfig": [{"name": plugin, "args": args}]});
    if let Ok(profile) = berth_config::Profile::from_json(Some(&profile), &in_tree)
        && let (Some(factory), Some(args)) = (berth_builtins::factory(plugin), profile.plugin_config.get(plugin))
    {
        let built = factory.build(&args.to_string());
        assert!(built.is_ok(), "{plugin} refuses args that its configuration accepts: {}", args);
    }
}
