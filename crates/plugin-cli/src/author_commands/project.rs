//! A plugin on disk: a component file, or the folder from which the component is built.

use std::{
    cmp::Reverse,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result};
use berth_config::Usage;
use berth_framework::PluginFactory as _;
use berth_model::duration::render_duration;
use berth_plugin_host::{PluginHostOptions, watched_kinds};
use berth_telemetry::chain;
use berth_wasm_host::{Binary, ComponentFactory, Engine, EngineOptions, LoadError};
use clap::Args;

/// The names, without `.wasm`, of the core modules that a build leaves beside the component.
const INTERMEDIATE: [&str; 4] = ["module", "core", "embedded", "stripped"];

/// The extensions of the files that a component is built from.
const SOURCES: [&str; 8] = ["rs", "go", "c", "h", "py", "ts", "js", "wit"];

/// The beginning of a read of an annotation of an event's node. The SDK for Go reports such a read as undeclared
/// (`EventAnnotationPrefix`), although no manifest can request this data.
const OF_EVENT_NODE: &str = "the event node's annotation ";

/// The size in bytes of a component that contains an interpreter.
const LONG_TO_COMPILE: usize = 4 << 20;

/// The plugin that a command works on.
#[derive(Args, Clone, Debug)]
pub(super) struct Target {
    /// A component file, or a plugin's folder (its build/*.wasm is used)
    #[arg(default_value = ".", value_name = "PLUGIN")]
    plugin: PathBuf,
}

impl Target {
    pub(super) fn of(plugin: &Path) -> Self {
        Self { plugin: plugin.to_owned() }
    }

    /// The component's file.
    pub(super) fn file(&self) -> Result<PathBuf> {
        let plugin = self.plugin.display();
        match fs::metadata(&self.plugin) {
            Err(error) => {
                return Err(Usage(format!("{plugin}: neither a component file nor a plugin's folder: {error}")).into());
            }
            Ok(metadata) if !metadata.is_dir() => return Ok(self.plugin.clone()),
            Ok(_) => {}
        }
        let build = self.plugin.join("build");
        let mut found: Vec<PathBuf> = fs::read_dir(&build)
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "wasm"))
            .filter(|path| path.file_stem().is_some_and(|stem| !INTERMEDIATE.iter().any(|name| stem == *name)))
            .collect();
        found.sort_by_key(|path| Reverse(modified(path)));
        let build = build.display();
        match found.as_slice() {
            [only] => Ok(only.clone()),
            [] => Err(Usage(format!("{build}: contains no component; run `berth plugin build` first")).into()),
            [_, ..] => {
                let listed: Vec<String> = found.iter().map(|file| with_age(file)).collect();
                let text = format!(
                    "{build}: contains several components: {}; name one of them, or remove those that the plugin left \
                     under another name",
                    listed.join(", ")
                );
                Err(Usage(text).into())
            }
        }
    }

    /// The folder that contains the plugin's other files.
    pub(super) fn folder(&self) -> PathBuf {
        if self.plugin.is_dir() {
            return self.plugin.clone();
        }
        let parent = folder_of(&self.plugin);
        let is_build = parent.file_name().is_some_and(|name| name == "build");
        if is_build { folder_of(parent).to_owned() } else { parent.to_owned() }
    }

    /// The files of cases beside the plugin: `cases.yaml` and `*.cases.yaml`.
    pub(super) fn cases(&self) -> Result<Vec<PathBuf>> {
        let folder = self.folder();
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let files = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        let is_case_file = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name == "cases.yaml" || name.ends_with(".cases.yaml")
        };
        let mut found: Vec<PathBuf> = files.filter(is_case_file).collect();
        found.sort();
        Ok(found)
    }

    /// Loads the component as the scheduler does.
    pub(super) fn load(&self) -> Result<Loaded> {
        let file = self.file()?;
        if self.plugin.is_dir()
            && let Some(source) = newer_source(&self.plugin, &file)
        {
            eprintln!("warning: {} is older than {}; run `berth plugin build`", file.display(), source.display());
        }
        load(&file)
    }
}

/// The time of the last change of a file; `None` if it cannot be read.
fn modified(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).and_then(|metadata| metadata.modified()).ok()
}

/// Returns `NAME.wasm (built 3m20s ago)`.
fn with_age(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let age = modified(file).and_then(|time| SystemTime::now().duration_since(time).ok()).unwrap_or_default();
    format!("{name} (built {} ago)", render_duration(Duration::from_secs(age.as_secs())))
}

/// A source of the project that was changed after the component was built.
fn newer_source(project: &Path, component: &Path) -> Option<PathBuf> {
    let built = modified(component)?;
    let files = [project.to_owned(), project.join("src")].into_iter().filter_map(|folder| fs::read_dir(folder).ok());
    let mut paths = files.flatten().filter_map(|entry| entry.ok().map(|entry| entry.path()));
    paths.find(|path| {
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        SOURCES.contains(&&*extension) && modified(path).is_some_and(|time| time > built)
    })
}

/// The folder that a path lies in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A component that the host accepts.
pub(super) struct Loaded {
    pub(super) binary: Binary,
    pub(super) factory: ComponentFactory,
}

impl Loaded {
    /// Returns `NAME 1.0.0 (sha256 0123456789ab)`.
    pub(super) fn title(&self) -> String {
        let version = self.factory.version();
        let digest = self.factory.digest().short();
        format!("{} {} (sha256 {digest})", version.name, version.version)
    }

    /// Warns of kinds in the manifest with names that resemble names of Kubernetes' own kinds. The scheduler accepts
    /// any kind, because a CRD may come later, so a plugin with a misspelt kind would see no objects.
    pub(super) fn warn_of_misspelt_kinds(&self) -> Result<()> {
        let mut err = io::stderr().lock();
        for kind in &self.factory.manifest().needs.objects {
            if let Some(meant) = watched_kinds::nearest(&kind.api_version, &kind.kind) {
                let (version, kind) = (&kind.api_version, &kind.kind);
                writeln!(
                    err,
                    "warning: the manifest names {version}/{kind}, which is not a Kubernetes kind: did you mean {meant}?"
                )?;
            }
        }
        Ok(())
    }

    /// Warns of reads that the manifest does not declare. Such data is not sent, so the plugin finds it empty. A read
    /// gets one line with the number of instances that reported this read.
    pub(super) fn warn_of_undeclared_reads(&self) -> Result<()> {
        // Standard output is for the results.
        let mut err = io::stderr().lock();
        let name = &self.factory.manifest().name;
        for (what, n_instances) in self.factory.stats().undeclared_reads() {
            let instances = if n_instances == 1 { "instance" } else { "instances" };
            let why = if what.starts_with(OF_EVENT_NODE) {
                "which the node of an event never has: look the node up by its name among all nodes"
            } else {
                "which its manifest does not name: it is always empty"
            };
            writeln!(err, "warning: {name} reads {what}, {why} (reported by {n_instances} {instances})")?;
        }
        Ok(())
    }
}

pub(super) fn read(file: &Path) -> Result<Binary> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(Binary::new(name, bytes))
}

/// The name in the component's manifest.
pub(super) fn name_in_manifest(component: &[u8]) -> Result<String> {
    match engine()?.load(&Binary::new("", component)) {
        Ok(factory) => Ok(factory.manifest().name.clone()),
        Err(LoadError::Name { manifest }) => Ok(manifest),
        Err(error) => Err(anyhow::anyhow!("the component {}", chain(&error))),
    }
}

/// An engine that uses compiled code from earlier runs, also from the user's scheduler, and stores its own code for
/// later runs.
fn engine() -> Result<Engine> {
    let artefacts = PluginHostOptions::default().usable_artifact_cache();
    let engine = Engine::new(EngineOptions { artefacts, ..EngineOptions::default() });
    engine.map_err(|error| anyhow::anyhow!(chain(&error)))
}

pub(super) fn load(file: &Path) -> Result<Loaded> {
    load_from(read(file)?, &file.display().to_string(), Some(file))
}

/// Loads a binary. `title` is its source, for messages.
pub(super) fn load_binary(binary: Binary, title: &str) -> Result<Loaded> {
    load_from(binary, title, None)
}

fn load_from(binary: Binary, title: &str, file: Option<&Path>) -> Result<Loaded> {
    let engine = engine()?;
    let is_compiled = engine.load_compiled(binary.name(), binary.digest()).is_some();
    if !is_compiled && binary.bytes().len() > LONG_TO_COMPILE {
        eprintln!(
            "compiling {title}: this takes some seconds, for Python up to half a minute, because no compiled form of it \
             is cached"
        );
    }
    let factory = engine.load(&binary).map_err(|error| {
        let places = match &error {
            LoadError::Name { manifest } => file.and_then(|file| places_of_names(file, manifest)),
            _ => None,
        };
        anyhow::anyhow!("{title} {}{}", chain(&error), places.unwrap_or_default())
    })?;
    Ok(Loaded { binary, factory })
}

/// The places of the two names in a project that must be equal, if the project's build.sh wrote the component.
fn places_of_names(component: &Path, manifest: &str) -> Option<String> {
    let project = folder_of(folder_of(component));
    let script = place_of(&project.join("build.sh"), &component.file_stem()?.to_string_lossy())?;
    let entries = fs::read_dir(project).ok()?.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let is_source = |path: &PathBuf| SOURCES.contains(&&*path.extension().unwrap_or_default().to_string_lossy());
    let mut sources: Vec<PathBuf> = entries.filter(is_source).collect();
    sources.sort();
    let source = sources.iter().find_map(|source| place_of(source, manifest))?;
    Some(format!(". The file name is set at {script}, and the manifest name at {source}"))
}

/// The first line with the text in quotes, as the file and the line's number: `plugin.py:9`.
fn place_of(file: &Path, text: &str) -> Option<String> {
    let lines = fs::read_to_string(file).ok()?;
    let quoted = [format!("\"{text}\""), format!("'{text}'")];
    let at = lines.lines().position(|line| quoted.iter().any(|it| line.contains(it)))?;
    Some(format!("{}:{}", file.file_name()?.to_string_lossy(), at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A renamed plugin leaves the component of its former name in the folder.
    #[test]
    fn several_components_are_listed_the_newest_first() {
        let project = tempfile::tempdir().expect("a folder");
        let build = project.path().join("build");
        fs::create_dir(&build).expect("a folder");
        for (name, age) in [("Old", 7200), ("New", 60)] {
            let file = fs::File::create(build.join(format!("{name}.wasm"))).expect("a file");
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).expect("a time");
        }
        let refused = Target::of(project.path()).file().expect_err("there are two").to_string();
        let (new, old) = (refused.find("New.wasm (built 1m"), refused.find("Old.wasm (built 2h0m"));
        assert!(new.is_some() && new < old, "{refused}");
        assert!(refused.contains("name one of them"), "{refused}");
    }
}
