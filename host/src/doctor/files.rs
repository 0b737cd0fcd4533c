//! Files: configuration, the plugins directory, the directory for compiled plugins.

use std::{fs, os::unix::fs::MetadataExt as _};

use berth_config::{FailurePolicy, Overrides, Program, Settings, points_of_missing_plugin};
use berth_lifecycle::OperatorPolicy as _;
use berth_wasm_host::FaultSink;

use super::{Area, Findings};
use crate::{
    configuration,
    failure::chain,
    options::Scheduling,
    plugin_supervisor::{Plugins, Rules, UnusableFile, artifact_cache, settings_file},
};

/// What would run.
pub(super) struct Setup {
    pub(super) settings: Settings,
    pub(super) plugins: Plugins,
}

/// Looks at all files. `None` when too little of them can be used to go on.
pub(super) fn look(scheduling: &Scheduling, findings: &mut Findings) -> Option<Setup> {
    let rules = rules(scheduling, findings);
    let artifacts = cache(scheduling, findings);
    let plugins_dir = scheduling.plugins_dir.as_deref();
    let found = match Plugins::inspect(rules, artifacts.as_deref(), plugins_dir, FaultSink::default()) {
        Ok(found) => found,
        Err(error) => {
            findings.problem(Area::Plugins, format!("{error:#}"), "give --plugins-dir a directory that can be read");
            return None;
        }
    };
    let (mut plugins, unusable) = found;
    for (file, reason) in unusable {
        let file = file.display();
        let fix = match &reason {
            UnusableFile::NotGranted(_) => "grant it in --plugin-config, if the plugin is to be trusted with it",
            UnusableFile::NoPlugin(_) => "replace it, or take it out of the directory: the scheduler starts without it",
        };
        findings.problem(Area::Plugins, format!("{file} {reason}"), fix);
    }
    installed(scheduling, &plugins, findings);
    let overrides = Overrides { program: Program::Berth, ..Overrides::default() };
    let settings = match configuration::read(scheduling.config.as_deref(), &overrides, &plugins.inventory) {
        Ok(settings) => settings,
        Err(error) => {
            findings.problem(Area::Configuration, format!("{error:#}"), "correct the field that is named");
            return None;
        }
    };
    profiles(&settings, &mut plugins, findings);
    Some(Setup { settings, plugins })
}

fn rules(scheduling: &Scheduling, findings: &mut Findings) -> Rules {
    let mut rules = Rules::of_options(scheduling);
    let Some(file) = &scheduling.plugin_config else { return rules };
    match settings_file::read(file) {
        Ok(read) => {
            (rules.settings, rules.provenance) = (read.settings, read.provenance);
            findings.ok(Area::Configuration, format!("{}: limits and grants can be used", file.display()));
        }
        Err(error) => findings.problem(Area::Configuration, error.to_string(), "correct the field that is named"),
    }
    rules
}

/// Gives the directory to use, if it can be.
fn cache(scheduling: &Scheduling, findings: &mut Findings) -> Option<std::path::PathBuf> {
    let Some(dir) = artifact_cache(scheduling) else {
        let fix = "set HOME, XDG_CACHE_HOME or --artifact-cache";
        findings.warning(Area::Cache, "there is no directory for compiled plugins: each start compiles all", fix);
        return None;
    };
    let mode = fs::metadata(&dir).ok().map(|metadata| metadata.mode() & 0o777);
    if let Some(mode) = mode.filter(|mode| mode & 0o077 != 0) {
        let text = format!("{} was open to other users (mode {mode:o}), who may have left code there", dir.display());
        findings.warning(Area::Cache, text, "empty it; it is closed to them from here on");
    }
    match berth_wasm_host::check_artefacts(&dir) {
        Ok(()) => {
            findings.ok(Area::Cache, format!("{} is writable and closed to other users", dir.display()));
            Some(dir)
        }
        Err(error) => {
            let fix = "name a directory of the scheduler's own user with --artifact-cache";
            findings.problem(Area::Cache, format!("compiled plugins cannot be kept: {}", chain(&error)), fix);
            None
        }
    }
}

fn installed(scheduling: &Scheduling, plugins: &Plugins, findings: &mut Findings) {
    let mut n_plugins = 0;
    for plugin in plugins.inventory.installed() {
        n_plugins += 1;
        let origin = plugins.inventory.rules.origin(&plugin.name).unwrap_or_default();
        findings.ok(Area::Plugins, format!("{origin}: {}", plugin.text));
    }
    if let Some(dir) = scheduling.plugins_dir.as_ref().filter(|_| n_plugins == 0) {
        findings.ok(Area::Plugins, format!("{}: no plugins", dir.display()));
    }
}

fn profiles(settings: &Settings, plugins: &mut Plugins, findings: &mut Findings) {
    let mut is_complete = true;
    for profile in &settings.profiles {
        for name in profile.plugins.named() {
            is_complete &= is_there(name, &profile.scheduler_name, plugins, findings);
        }
    }
    // Building the instances has each plugin look at its arguments.
    match plugins.inventory.profiles(settings) {
        Err(error) => findings.problem(Area::Configuration, format!("{error:#}"), "correct the plugin's pluginConfig"),
        Ok(profiles) if is_complete => {
            let names: Vec<&str> = profiles.iter().map(|profile| profile.scheduler_name.as_str()).collect();
            let text = format!("profiles {}: every plugin is there and takes its arguments", names.join(", "));
            findings.ok(Area::Configuration, text);
        }
        Ok(_) => {}
    }
}

/// Whether something answers for the plugin; if not, that is a finding.
fn is_there(name: &str, profile: &str, plugins: &Plugins, findings: &mut Findings) -> bool {
    if plugins.inventory.points(name).is_some() {
        return true;
    }
    if points_of_missing_plugin(name).is_some() {
        let text = format!("profile {profile:?} enables {name}, which is not in this build: its rules do not apply");
        findings.warning(Area::Configuration, text, "disable it, or bring a plugin of that name");
        return false;
    }
    let rules = &plugins.inventory.rules;
    let origin = rules.origin(name).unwrap_or_else(|| format!("{name}.wasm in --plugins-dir"));
    let text = format!("profile {profile:?} enables {name}, but there is no {origin} that can be used");
    match rules.plugin(name).failure_policy {
        FailurePolicy::Fail => {
            let fix = "put it there; until then the profile's pods stay pending (failurePolicy: Fail)";
            findings.problem(Area::Plugins, text, fix);
        }
        FailurePolicy::Ignore => {
            findings.warning(
                Area::Plugins,
                text,
                "put it there; until then pods are scheduled without (failurePolicy: Ignore)",
            );
        }
    }
    false
}
