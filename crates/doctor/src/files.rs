//! Files: the configuration, the plugins directory, the directory for compiled plugins, and the files that the
//! scheduler writes.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use berth_config::{ConfigError, FailurePolicy, Profile, Settings, points_of_missing_plugin};
use berth_lifecycle::OperatorPolicy as _;
use berth_plugin_host::{Plugins, Rules, Sources, UnusableFile, settings_file};
use berth_runtime::{
    check_tracing_config,
    configuration::{self, ReadingError},
};
use berth_telemetry::chain;
use berth_wasm_host::FaultSink;
use rustix::fs::{Access, access};

use crate::{
    Options,
    findings::{Area, Findings, IN_NO_PROFILE},
};

/// The settings and plugins that the scheduler would run with.
pub(crate) struct Setup {
    pub(crate) settings: Settings,
    pub(crate) plugins: Plugins,
}

/// Checks all files. `None` means that the files do not yield a setup for the other checks.
pub(crate) fn look(options: &Options, findings: &mut Findings) -> Option<Setup> {
    let PluginSettings { rules, are_known } = plugin_settings(options, findings);
    let artifacts = cache(options, findings);
    written_files(options, findings);
    if let Some(file) = &options.tracing_config_file
        && let Err(error) = check_tracing_config(file)
    {
        findings.problem(Area::Configuration, error.to_string(), "correct the named mistake");
    }
    let plugins_dir = plugins_dir(options, findings);
    let compiler = options.plugins.compiler.clone();
    let sources = Sources { plugins_dir: plugins_dir.map(Path::to_owned), artifacts, compiler };
    let found = match Plugins::inspect(rules, &sources, FaultSink::default()) {
        Ok(found) => found,
        Err(error) => {
            findings.problem(Area::Plugins, chain(&error), "correct the named mistake");
            return None;
        }
    };
    let (mut plugins, unusable) = found;
    // Without the file with its grants, a plugin may be refused although its grants are in that file.
    let is_unchecked = |reason: &UnusableFile| !are_known && matches!(reason, UnusableFile::NotGranted(_));
    let (unchecked, unusable): (Vec<_>, Vec<_>) = unusable.into_iter().partition(|(_, reason)| is_unchecked(reason));
    for (file, _) in &unchecked {
        let text = format!("{}: not checked, because its grants cannot be read", file.display());
        findings.warning(Area::Plugins, text, "correct --plugin-config first");
    }
    if unchecked.is_empty() || plugins.inventory.installed().next().is_some() {
        installed(plugins_dir, &plugins, !unusable.is_empty(), findings);
    }
    let settings = match configuration::read_all(options.config.as_deref(), &options.overrides, &plugins.inventory) {
        Ok(reading) => {
            let file = options.config.as_deref().unwrap_or(Path::new("")).display();
            for what in reading.without_effect {
                findings.warning(Area::Configuration, format!("{file}: {what}"), "correct it, or take it out");
            }
            Some(reading.settings)
        }
        Err(error) => {
            unreadable(&error, findings);
            None
        }
    };
    refused(unusable, settings.as_ref(), &plugins, findings);
    let settings = settings?;
    names(options, &settings, &plugins, findings);
    profiles(&settings, &mut plugins, findings);
    Some(Setup { settings, plugins })
}

/// Adds one problem for each mistake in a configuration, even if the message of a mistake has several lines.
fn unreadable(error: &ReadingError, findings: &mut Findings) {
    let mut problem = |text: String| findings.problem(Area::Configuration, text, "correct the named mistake");
    match error {
        ReadingError::Invalid(ConfigError::Invalid { file, problems }) => {
            problems.iter().for_each(|mistake| problem(format!("{file}: {mistake}")));
        }
        ReadingError::Unreadable { .. } | ReadingError::Invalid(_) => problem(error.to_string()),
    }
}

/// The profiles that enable the plugin.
fn users<'a>(settings: &'a Settings, plugin: &str) -> Vec<&'a str> {
    let enables = |profile: &&Profile| profile.plugins.named().iter().any(|name| *name == plugin);
    settings.profiles.iter().filter(enables).map(|profile| profile.scheduler_name.as_str()).collect()
}

/// Adds a problem for each file that the scheduler would not use, with the consequence for the profiles that enable its
/// plugin.
fn refused(
    unusable: Vec<(PathBuf, UnusableFile)>,
    settings: Option<&Settings>,
    plugins: &Plugins,
    findings: &mut Findings,
) {
    for (file, reason) in unusable {
        let fix = match &reason {
            UnusableFile::NotGranted(_) => {
                "if you trust the plugin with this right, grant the right in --plugin-config".to_owned()
            }
            UnusableFile::OtherName { name, .. } => format!("rename it to {name}.wasm"),
            UnusableFile::NoPlugin(_) => {
                "replace it, or take it out of the directory: the scheduler starts without it".to_owned()
            }
        };
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let users = settings.map(|settings| users(settings, &name)).unwrap_or_default();
        let follows = match users.as_slice() {
            [] => String::new(),
            users => {
                let until = match plugins.inventory.rules().plugin(&name).failure_policy {
                    FailurePolicy::Fail => "their pods stay pending (failurePolicy: Fail)",
                    FailurePolicy::Ignore => "their pods are scheduled without it (failurePolicy: Ignore)",
                };
                format!("; the profiles {} enable this plugin: until this is corrected, {until}", users.join(", "))
            }
        };
        findings.problem(
            Area::Plugins,
            format!("{} is refused: it {reason}", file.display()),
            format!("{fix}{follows}"),
        );
    }
}

/// Warns of names in the plugin configuration that match nothing, and of plugins that no profile enables.
fn names(options: &Options, settings: &Settings, plugins: &Plugins, findings: &mut Findings) {
    let file = options.plugins.plugin_config.as_deref().unwrap_or(Path::new("")).display();
    for useless in plugins.inventory.useless_names(settings) {
        findings.warning(Area::Configuration, format!("{file}: {useless}"), "correct the name, or take the entry out");
    }
    for plugin in plugins.inventory.installed().filter(|plugin| users(settings, &plugin.name).is_empty()) {
        let origin = plugins.inventory.rules().origin(&plugin.name).unwrap_or_default();
        findings.warning(Area::Plugins, format!("{origin} is not used: no profile enables it"), IN_NO_PROFILE);
    }
}

/// The operator's rules for plugins.
struct PluginSettings {
    rules: Rules,
    /// Whether the rules come from the operator's file. Otherwise the file cannot be used, and nothing is granted.
    are_known: bool,
}

fn plugin_settings(options: &Options, findings: &mut Findings) -> PluginSettings {
    let mut rules = Rules::of_options(&options.plugins);
    let Some(file) = &options.plugins.plugin_config else { return PluginSettings { rules, are_known: true } };
    let read = settings_file::read(file);
    let are_known = read.is_ok();
    match read {
        Ok(read) => {
            (rules.settings, rules.provenance) = (read.settings, read.provenance);
            findings.ok(Area::Configuration, format!("{}: limits and grants are valid", file.display()));
            for misspelt in settings_file::misspelt_kinds(&rules.settings) {
                let text = format!("{}: {misspelt}", file.display());
                findings.warning(Area::Configuration, text, "correct the kind, unless a CRD defines it");
            }
        }
        Err(error) => findings.problem(Area::Configuration, error.to_string(), "correct the named mistake"),
    }
    PluginSettings { rules, are_known }
}

/// The plugins directory, if it is configured and readable.
fn plugins_dir<'a>(options: &'a Options, findings: &mut Findings) -> Option<&'a Path> {
    let dir = options.plugins.plugins_dir.as_deref()?;
    let error = fs::read_dir(dir).err();
    if let Some(error) = &error {
        let text = format!("--plugins-dir {}: cannot be read: {error}", dir.display());
        findings.problem(Area::Plugins, text, "name a directory that the scheduler's user may read");
    }
    error.is_none().then_some(dir)
}

/// Checks that the folders of the files that the scheduler writes exist: the scheduler creates files, but no folders.
fn written_files(options: &Options, findings: &mut Findings) {
    let audit_log = options.audit_log.as_deref().filter(|file| *file != Path::new("-"));
    for (option, file) in [("--plugin-state", options.plugins.plugin_state.as_deref()), ("--audit-log", audit_log)] {
        let Some(file) = file else { continue };
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let text = match access(folder, Access::WRITE_OK | Access::EXEC_OK) {
            Err(error) => format!("its folder cannot be written to: {error}"),
            Ok(()) if file.is_dir() => "is a folder".to_owned(),
            Ok(()) => continue,
        };
        let text = format!("{option} {}: {text}", file.display());
        findings.problem(Area::Configuration, text, "name a file in a folder that the scheduler's user may write to");
    }
}

/// Checks the directory for compiled plugins, and returns it if it can be used.
fn cache(options: &Options, findings: &mut Findings) -> Option<PathBuf> {
    let Some(dir) = options.plugins.artifact_cache() else {
        let fix = "set HOME, XDG_CACHE_HOME or --artifact-cache";
        findings.warning(Area::Cache, "no directory for compiled plugins: each start compiles all plugins", fix);
        return None;
    };
    let mode = fs::metadata(&dir).ok().map(|metadata| metadata.mode() & 0o777);
    if let Some(mode) = mode.filter(|mode| mode & 0o077 != 0) {
        let text = format!("{} was open to other users (mode {mode:o}), who may have put code there", dir.display());
        findings.warning(Area::Cache, text, "empty it; it is now closed to them");
    }
    match berth_wasm_host::check_artefacts(&dir) {
        Ok(()) => {
            findings.ok(Area::Cache, format!("{} is writable and closed to other users", dir.display()));
            Some(dir)
        }
        Err(error) => {
            let fix = "set --artifact-cache to a directory that the scheduler's user owns";
            findings.problem(Area::Cache, format!("compiled plugins cannot be kept: {}", chain(&error)), fix);
            None
        }
    }
}

/// Describes the plugins of the directory. `has_refused` says whether the directory also has files that are refused.
fn installed(plugins_dir: Option<&Path>, plugins: &Plugins, has_refused: bool, findings: &mut Findings) {
    let mut n_plugins = 0;
    for plugin in plugins.inventory.installed() {
        n_plugins += 1;
        let origin = plugins.inventory.rules().origin(&plugin.name).unwrap_or_default();
        findings.ok(Area::Plugins, format!("{origin}: {}", plugin.text));
    }
    if let Some(dir) = plugins_dir.filter(|_| n_plugins == 0) {
        let what = if has_refused { "no usable plugins" } else { "no plugins" };
        findings.ok(Area::Plugins, format!("{}: {what}", dir.display()));
    }
}

fn profiles(settings: &Settings, plugins: &mut Plugins, findings: &mut Findings) {
    let mut is_complete = true;
    for profile in &settings.profiles {
        for name in profile.plugins.named() {
            is_complete &= is_there(name, &profile.scheduler_name, plugins, findings);
        }
    }
    // `refused_arguments` builds an instance of each plugin. The new instance checks its arguments.
    for refused in plugins.inventory.refused_arguments(settings) {
        findings.problem(Area::Configuration, refused, "correct the plugin's pluginConfig");
        is_complete = false;
    }
    if !is_complete {
        return;
    }
    match plugins.inventory.profiles(settings) {
        Err(error) => findings.problem(Area::Configuration, chain(&error), "correct the named mistake"),
        Ok(profiles) => {
            let names: Vec<&str> = profiles.iter().map(|profile| profile.scheduler_name.as_str()).collect();
            let text = format!("profiles {}: every plugin exists and accepts its arguments", names.join(", "));
            findings.ok(Area::Configuration, text);
        }
    }
}

/// Whether a plugin of this name is available. Otherwise, this function adds a finding.
fn is_there(name: &str, profile: &str, plugins: &Plugins, findings: &mut Findings) -> bool {
    if plugins.inventory.points(name).is_some() {
        return true;
    }
    if points_of_missing_plugin(name).is_some() {
        let text = format!("profile {profile:?} enables {name}, which is not in this build: it decides nothing");
        findings.warning(Area::Configuration, text, "disable it, or bring a plugin of that name");
        return false;
    }
    if plugins.inventory.has_refused_file(name) {
        // The refused file is already a finding.
        return false;
    }
    let rules = plugins.inventory.rules();
    let origin = rules.origin(name).unwrap_or_else(|| format!("{name}.wasm in --plugins-dir"));
    let text = format!("profile {profile:?} enables {name}, but {origin} does not exist");
    match rules.plugin(name).failure_policy {
        FailurePolicy::Fail => {
            let fix = "put the file there; until then the profile's pods stay pending (failurePolicy: Fail)";
            findings.problem(Area::Plugins, text, fix);
        }
        FailurePolicy::Ignore => {
            findings.warning(
                Area::Plugins,
                text,
                "put the file there; until then pods are scheduled without the plugin (failurePolicy: Ignore)",
            );
        }
    }
    false
}
