//! What the operator allows: which binary may serve, what it may see and ask for.
//!
//! A built-in's *name* is granted what the built-in needs, whoever answers under it. Whoever may write into the plugins
//! directory already decides how that name filters, scores and binds, and a profile must go on working when its
//! DefaultBinder is replaced; so a component under a built-in's name gets what the built-in gets, and no more. Under any
//! other name a component is granted nothing but what the operator's configuration says: it may look at nodes and pods,
//! filter and score, and that is all.

use std::path::{Path, PathBuf};

use berth_config::{Execution, PluginGrants, PluginHostSettings, PluginSettings};
use berth_framework::{Grants, Manifest, ObjectKind, Permission};
use berth_lifecycle::{OperatorPolicy, PluginPolicy};

use crate::options::Scheduling;

/// The operator's word on plugins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    pub settings: PluginHostSettings,
    /// `--execution`.
    pub on_command_line: Option<Execution>,
    /// The plugins directory, for messages.
    pub directory: Option<PathBuf>,
    /// Whether the watches keep the JSON of pending pods, which is decided when they start.
    pub has_pod_json: bool,
}

/// What one plugin may see and ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Granted {
    pub effects: Vec<Permission>,
    pub reads: Vec<ObjectKind>,
    /// Pending pods whole.
    pub pod_json: bool,
}

/// Why a binary may not serve, as it wants to see more than it may. Reads on from the file's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotGranted {
    #[error("wants pending pods as JSON, which grants.podJson in --plugin-config does not allow")]
    PodJson,
    /// With the kinds.
    #[error("wants to read {0}, which is not among its grants.reads in --plugin-config")]
    Reads(String),
    /// The watches drop what nobody may see, and cannot get it back while they run.
    #[error("wants pending pods as JSON, which no plugin was granted when the scheduler started: restart it")]
    PodJsonNotKept,
}

impl Rules {
    /// What the command line says, without the settings that it names.
    pub(crate) fn of_options(options: &Scheduling) -> Self {
        Self {
            settings: PluginHostSettings::default(),
            on_command_line: options.execution.map(Into::into),
            directory: options.plugins_dir.clone(),
            has_pod_json: true,
        }
    }

    pub(crate) fn plugin(&self, name: &str) -> PluginSettings {
        self.settings.plugin(name)
    }

    pub(crate) fn execution(&self, name: &str, scheduler_name: &str) -> Execution {
        self.settings.execution(name, scheduler_name, self.on_command_line)
    }

    /// Whether a built-in may have to run as a component somewhere.
    pub(crate) fn may_run_as_component(&self, name: &str) -> bool {
        // No profile has an empty name: it stands for all that have no entry.
        let mut profiles = self.settings.profiles().chain([""]);
        profiles.any(|profile| self.execution(name, profile) == Execution::Wasm)
    }

    /// # Errors
    /// The plugin wants what the watches do not keep.
    pub(crate) fn check_pod_json(&self, manifest: &Manifest) -> Result<(), NotGranted> {
        if self.has_pod_json || !manifest.needs.pod_json { Ok(()) } else { Err(NotGranted::PodJsonNotKept) }
    }

    /// What the plugin of this name is granted. `built_in` is the manifest of the native built-in of that name, if there is
    /// one; never what a component says about itself.
    pub(crate) fn granted(&self, name: &str, built_in: Option<&Manifest>) -> Granted {
        if let Some(own) = self.plugin(name).grants {
            return Granted::from(&own);
        }
        let mut granted = Granted::from(&self.settings.default_grants());
        if let Some(built_in) = built_in {
            granted.effects.extend(&built_in.effects);
            granted.reads.extend(built_in.needs.objects.iter().cloned());
            granted.pod_json |= built_in.needs.pod_json;
        }
        granted
    }
}

impl OperatorPolicy for Rules {
    fn plugin(&self, plugin: &str) -> PluginPolicy {
        let PluginSettings { failure_policy, quarantine, probation, .. } = self.settings.plugin(plugin);
        PluginPolicy { failure_policy, quarantine, probation }
    }

    fn execution(&self, plugin: &str, scheduler_name: &str) -> Execution {
        self.settings.execution(plugin, scheduler_name, self.on_command_line)
    }

    fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }
}

impl Granted {
    pub(crate) fn grants(&self) -> Grants {
        self.effects.iter().copied().collect()
    }

    /// The kinds that may be read, as `apiVersion/kind`.
    pub(crate) fn read_names(&self) -> impl Iterator<Item = String> {
        self.reads.iter().map(kind_name)
    }

    /// The kinds of effects that may be asked for.
    pub(crate) fn effect_names(&self) -> impl Iterator<Item = String> {
        self.effects.iter().map(|effect| effect.as_str().to_owned())
    }

    /// # Errors
    /// What a plugin asks to see without having been granted it.
    pub(crate) fn check_reads(&self, manifest: &Manifest) -> Result<(), NotGranted> {
        if manifest.needs.pod_json && !self.pod_json {
            return Err(NotGranted::PodJson);
        }
        let wanted = manifest.needs.objects.iter().filter(|kind| !self.reads.contains(kind));
        let wanted: Vec<String> = wanted.map(kind_name).collect();
        if wanted.is_empty() { Ok(()) } else { Err(NotGranted::Reads(wanted.join(", "))) }
    }
}

impl From<&PluginGrants> for Granted {
    fn from(grants: &PluginGrants) -> Self {
        let PluginGrants { reads, effects, pod_json } = grants.clone();
        Self { effects, reads, pod_json }
    }
}

fn kind_name(kind: &ObjectKind) -> String {
    format!("{}/{}", kind.api_version, kind.kind)
}

#[cfg(test)]
mod tests {
    use berth_framework::Needs;

    use super::*;

    fn rules(plugins: &str) -> Rules {
        let text = format!("apiVersion: berth.dev/v1alpha1\nkind: PluginHostConfiguration\n{plugins}");
        Rules { settings: PluginHostSettings::from_text("test", &text).expect("valid"), ..Rules::default() }
    }

    fn kind(kind: &str) -> ObjectKind {
        ObjectKind { api_version: "v1".to_owned(), kind: kind.to_owned() }
    }

    fn that_reads(kinds: &[&str]) -> Manifest {
        let needs = Needs { objects: kinds.iter().copied().map(kind).collect(), ..Needs::default() };
        Manifest { needs, ..Manifest::default() }
    }

    #[test]
    fn a_strange_name_is_granted_nothing() {
        assert_eq!(Rules::default().granted("Strange", None), Granted::default());
        // Not even under the name of a built-in that this build does not have.
        assert_eq!(Rules::default().granted("VolumeBinding", None), Granted::default());
        let error = Granted::default().check_reads(&that_reads(&["Secret", "ConfigMap"])).expect_err("not granted");
        let error = error.to_string();
        assert!(error.starts_with("wants to read v1/Secret, v1/ConfigMap, which is not"), "{error}");
    }

    #[test]
    fn a_built_in_name_is_granted_what_the_built_in_needs() {
        let built_in = Manifest { effects: vec![Permission::Bind], ..that_reads(&["PersistentVolumeClaim"]) };
        let granted = Rules::default().granted("DefaultBinder", Some(&built_in));
        assert_eq!(granted.effects, [Permission::Bind]);
        assert!(granted.grants().allows(Permission::Bind) && !granted.grants().allows(Permission::Evict));
        granted.check_reads(&that_reads(&["PersistentVolumeClaim"])).expect("as the built-in");
        granted.check_reads(&that_reads(&["Secret"])).expect_err("the built-in does not");
    }

    #[test]
    fn pods_are_shown_whole_only_if_granted() {
        let needs = Needs { pod_json: true, ..Needs::default() };
        let nosy = Manifest { needs, ..Manifest::default() };
        let error = Rules::default().granted("Nosy", None).check_reads(&nosy).expect_err("not granted");
        assert!(error.to_string().contains("grants.podJson"), "{error}");
        rules("plugins: [{name: Nosy, grants: {podJson: true}}]\n")
            .granted("Nosy", None)
            .check_reads(&nosy)
            .expect("granted");
        Rules::default().granted("Nosy", Some(&nosy)).check_reads(&nosy).expect("as the built-in");
    }

    #[test]
    fn default_grants_add_and_own_grants_decide() {
        let built_in = Manifest { effects: vec![Permission::Bind], ..Manifest::default() };
        let rules = rules(
            "defaults: {grants: {effects: [event]}}\n\
             plugins:\n- name: DefaultBinder\n  grants: {}\n- name: Mine\n  grants: {reads: [v1/Secret], effects: [evict]}\n",
        );
        assert_eq!(rules.granted("DefaultBinder", Some(&built_in)), Granted::default());
        let mine = Granted { effects: vec![Permission::Evict], reads: vec![kind("Secret")], ..Granted::default() };
        assert_eq!(rules.granted("Mine", None), mine);
        assert_eq!(rules.granted("Other", None).effects, [Permission::Event]);
        let rules = self::rules("defaults: {grants: {effects: [event]}}\n");
        let effects = rules.granted("DefaultBinder", Some(&built_in)).effects;
        assert_eq!(effects, [Permission::Event, Permission::Bind]);
    }

    #[test]
    fn built_ins_are_compiled_only_where_they_may_run_as_components() {
        assert!(!Rules::default().may_run_as_component("NodeName"));
        assert!(rules("profiles: [{schedulerName: canary, execution: wasm}]\n").may_run_as_component("NodeName"));
        let one = rules("plugins: [{name: NodeName, execution: wasm}]\n");
        assert!(one.may_run_as_component("NodeName") && !one.may_run_as_component("NodePorts"));
        let all = Rules { on_command_line: Some(Execution::Wasm), ..Rules::default() };
        assert!(all.may_run_as_component("NodeName"));
    }
}
