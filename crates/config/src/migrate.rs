//! Migration of configuration files of earlier releases: `v1alpha1` to `v1beta3` of KubeSchedulerConfiguration, Policy
//! files, and the names of plugins that no longer exist.
//!
//! The result is a document that [`Settings`](crate::Settings) accepts. Notes say which settings have no counterpart.

mod plugins;
mod policy;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use crate::{
    error::Usage,
    fields::API_VERSION,
    migrate::plugins::{ProfilePlugins, args_of},
    profile::DEFAULT_SCHEDULER_NAME,
};

/// A document of the current version, and notes for its reader.
#[derive(Clone, Debug, PartialEq)]
pub struct Migration {
    /// A KubeSchedulerConfiguration of `v1`.
    pub configuration: Value,
    /// The changes, and the fields that have no successor.
    pub notes: Vec<String>,
}

/// Makes a document of the current version from a document of an earlier release, in YAML or JSON.
///
/// # Errors
/// The text is not such a document.
pub fn migrate(text: &str) -> Result<Migration, Usage> {
    let document: Value = serde_saphyr::from_str(text).map_err(|error| Usage(error.to_string()))?;
    let Value::Object(document) = document else { return Err(Usage("not a KubeSchedulerConfiguration".to_owned())) };
    let text = |field: &str| document.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut notes = Vec::new();
    let configuration = match text("kind").as_str() {
        "Policy" => policy::configuration(&document, &mut notes),
        "KubeSchedulerConfiguration" => configuration(document, &mut notes)?,
        other => return Err(Usage(format!("unknown kind {other:?}: expected KubeSchedulerConfiguration or Policy"))),
    };
    Ok(Migration { configuration, notes })
}

fn configuration(mut document: Map<String, Value>, notes: &mut Vec<String>) -> Result<Value, Usage> {
    let found = document.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
    let version = found.rsplit('/').next().unwrap_or_default().to_owned();
    if !["v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3", "v1"].contains(&version.as_str()) {
        return Err(Usage(format!("unknown apiVersion {found:?}")));
    }
    if found != API_VERSION {
        notes.push(format!("apiVersion {found} becomes {API_VERSION}"));
        document.insert("apiVersion".to_owned(), API_VERSION.into());
    }
    if version.as_str() < "v1beta3" && version != "v1" {
        let weights = "NodeAffinity 2, TaintToleration 3, InterPodAffinity 2";
        notes.push(format!("missing weights have the defaults of v1: {weights}; in {version} each default was 1"));
    }
    for field in ["healthzBindAddress", "metricsBindAddress"] {
        if document.remove(field).is_some() {
            notes.push(format!(
                "{field} was removed: --bind-address and --secure-port set the address of health and metrics"
            ));
        }
    }
    if document.remove("algorithmSource").is_some() {
        notes.push("algorithmSource was removed: pass the Policy file that it names to this command".to_owned());
    }
    let mut profiles = match document.remove("profiles") {
        Some(Value::Array(profiles)) if !profiles.is_empty() => profiles,
        None | Some(Value::Null | Value::Array(_)) => vec![json!({})],
        Some(_) => return Err(Usage("profiles: expected a list".to_owned())),
    };
    check_shape("", &document)?;
    for (position, profile) in profiles.iter().enumerate() {
        let profile = profile.as_object().ok_or_else(|| Usage(format!("profiles[{position}]: expected an object")))?;
        check_shape(&format!("profiles[{position}]."), profile)?;
    }
    for profile in profiles.iter_mut().filter_map(Value::as_object_mut) {
        move_into_profile(&mut document.clone(), profile);
        migrate_profile(profile, document.get("disablePreemption") == Some(&Value::Bool(true)), notes);
    }
    for field in OF_PROFILES.iter().chain(&["disablePreemption"]) {
        if document.remove(*field).is_some() {
            notes.push(format!("{field} was moved into the profiles"));
        }
    }
    document.insert("profiles".to_owned(), profiles.into());
    Ok(document.into())
}

/// Fields of the old document that are now part of profiles.
const OF_PROFILES: [&str; 5] =
    ["schedulerName", "plugins", "pluginConfig", "hardPodAffinitySymmetricWeight", "bindTimeoutSeconds"];

fn move_into_profile(document: &mut Map<String, Value>, profile: &mut Map<String, Value>) {
    for field in ["schedulerName", "plugins", "pluginConfig"] {
        if let Some(value) = document.remove(field) {
            profile.entry(field).or_insert(value);
        }
    }
    let moved = [
        ("hardPodAffinitySymmetricWeight", "InterPodAffinity", "hardPodAffinityWeight"),
        ("bindTimeoutSeconds", "VolumeBinding", "bindTimeoutSeconds"),
    ];
    for (field, plugin, arg) in moved {
        if let Some(value) = document.remove(field) {
            args_of(profile, plugin).entry(arg).or_insert(value);
        }
    }
}

/// Checks that the values which the migration reads are lists and objects, so that no part of the file is lost.
fn check_shape(path: &str, profile: &Map<String, Value>) -> Result<(), Usage> {
    let wrong = |field: String, what: &str| Err(Usage(format!("{path}{field}: expected a valid {what}")));
    match profile.get("plugins") {
        None | Some(Value::Null) => {}
        Some(Value::Object(points)) => {
            for (point, sets) in points {
                let Some(sets) = sets.as_object() else { return wrong(format!("plugins.{point}"), "object") };
                let is_list = |set: &str| sets.get(set).is_none_or(Value::is_array);
                if let Some(set) = ["enabled", "disabled"].into_iter().find(|set| !is_list(set)) {
                    return wrong(format!("plugins.{point}.{set}"), "list");
                }
            }
        }
        Some(_) => return wrong("plugins".to_owned(), "object"),
    }
    match profile.get("pluginConfig") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Array(entries)) => {
            let is_entry = |entry: &Value| entry.is_object() && entry.get("args").is_none_or(Value::is_object);
            match entries.iter().position(|entry| !is_entry(entry)) {
                Some(position) => wrong(format!("pluginConfig[{position}]"), "object with a name and an object args"),
                None => Ok(()),
            }
        }
        Some(_) => wrong("pluginConfig".to_owned(), "list"),
    }
}

fn migrate_profile(profile: &mut Map<String, Value>, without_preemption: bool, notes: &mut Vec<String>) {
    profile.entry("schedulerName").or_insert_with(|| DEFAULT_SCHEDULER_NAME.into());
    let mut plugins = ProfilePlugins::take(profile, notes);
    plugins.migrate(profile, notes);
    if without_preemption {
        plugins.disable("postFilter", "DefaultPreemption");
    }
    plugins.put(profile);
}
