//! The projects that `berth plugin new` makes: a template, and the SDK and the contract beside it, in `berth/`.
//!
//! Everything is embedded, so that a project needs only this binary and the language's own tools.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use include_dir::{Dir, DirEntry, File, include_dir};

use crate::schema::SchemaName;

static SDKS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../sdks");
static CONTRACT: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../wit");
static MODEL: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../model/src");
static FRAMEWORK: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../framework/src");
static CACHE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../cache/src");
static TESTING: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../testing/src");

/// The crates that the SDK for Rust is built on, with their manifests.
const CRATES: [(&str, &str, &Dir<'_>); 4] = [
    ("model", include_str!("../../../model/Cargo.toml"), &MODEL),
    ("framework", include_str!("../../../framework/Cargo.toml"), &FRAMEWORK),
    ("cache", include_str!("../../../cache/Cargo.toml"), &CACHE),
    ("testing", include_str!("../../../testing/Cargo.toml"), &TESTING),
];
const WORKSPACE: &str = include_str!("../../../../Cargo.toml");
const TOOLCHAIN: &str = include_str!("../../../../rust-toolchain.toml");

/// The files that the build scripts of several SDKs share.
const SHARED: [&str; 3] = ["fetch.py", "methods.py", "world.py"];

/// The folder of a project with the schemas of its files.
const SCHEMAS: &str = "berth/schemas";

/// The folders of an SDK that become the project itself and are not copied with the SDK.
const TEMPLATES: [&str; 2] = ["template", "templates"];

/// The file with the grants that the operator gives the plugin, in the templates that need grants.
const GRANTS: &str = "plugin-host.yaml";

/// The folders that builds leave in a working tree.
const LEFT_BEHIND: [&str; 4] = ["build", "node_modules", "__pycache__", "target"];

/// A language in which a plugin can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    Rust,
    Go,
    Python,
    Js,
    C,
}

impl Language {
    /// The folder of the SDK.
    fn folder(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Go => "go",
            Self::Python => "python",
            Self::Js => "js",
            Self::C => "c",
        }
    }
}

/// The files with which a project begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Template {
    /// Keeps pods out of one zone and prefers nodes that are not cordoned: the guide's first plugin
    AvoidZone,
    /// Runs pods that have a label on nodes whose label has the same value
    FilterByLabel,
    /// Prefers nodes with the lower number in an annotation, such as a measured load
    ScoreByMetric,
    /// Limits the number of pods of each tenant in the whole cluster: the guide's second plugin
    Quota,
    /// Holds pods at Permit until somebody approves them by changing a label
    Approval,
}

impl Template {
    /// The value of `--template`, with a description.
    pub(super) fn shown(self) -> (String, String) {
        let value = self.to_possible_value();
        let help = value.as_ref().and_then(|value| value.get_help()).map(ToString::to_string);
        (value.map(|value| value.get_name().to_owned()).unwrap_or_default(), help.unwrap_or_default())
    }
}

/// The commands that run the built plugin in a sandbox.
pub(super) fn to_run(template: Template, name: &str) -> [String; 3] {
    let option = grants(template).map(|_| format!(" --plugin-config {GRANTS}"));
    let sandbox =
        "berth sandbox --nodes 3 --kubeconfig sandbox.kubeconfig --plugins-dir ../plugins --config config.yaml";
    [
        "mkdir -p ../plugins".to_owned(),
        format!("cp build/{name}.wasm ../plugins/"),
        format!("{sandbox}{}", option.unwrap_or_default()),
    ]
}

/// The grants that the plugin needs: `{effects: [wait]}`.
pub(super) fn grants(template: Template) -> Option<&'static str> {
    let (folder, _) = template.shown();
    let text = SDKS.get_file(Path::new("templates").join(folder).join(GRANTS))?.contents_utf8()?;
    text.lines().find_map(|line| line.trim().strip_prefix("grants: "))
}

/// Writes a project into `dir`, which must not exist yet. Returns the number of files.
pub(super) fn instantiate(
    language: Language,
    template: Template,
    name: &str,
    kebab: &str,
    dir: &Path,
) -> Result<usize> {
    let mut project = Project { dir: dir.to_owned(), n_files: 0 };
    let sdk = SDKS.get_dir(language.folder()).context("this binary was built without that SDK")?;
    let common = sdk.get_dir(sdk.path().join("template")).context("that SDK has no template")?;
    let dependencies = dependencies();
    let (file, about) = template.shown();
    let run = to_run(template, name).join("\n");
    let granted = grants(template).map(|it| format!(" `{GRANTS}` has the grants that the plugin needs: `{it}`."));
    let edit = |text: &str| {
        let text = text.replace("{{name}}", name).replace("{{kebab}}", kebab).replace("{{about}}", &about);
        let text = text.replace("{{run}}", &run).replace("{{granted}}", granted.as_deref().unwrap_or_default());
        text.replace("{{dependencies}}", &dependencies)
    };
    project.copy(common, common.path(), Path::new(""), &edit)?;
    if template != Template::AvoidZone {
        let own = sdk.get_dir(sdk.path().join("templates").join(&file)).context("that SDK lacks the template")?;
        project.copy(own, own.path(), Path::new(""), &edit)?;
    }
    // The plugin's exports, answers and execution are the same in every language; only the source differs.
    let shared = SDKS.get_dir(Path::new("templates").join(&file)).context("template not found")?;
    let is_used = |entry: &&DirEntry<'_>| language != Language::Rust || !entry.path().ends_with("plugin.wit");
    for entry in shared.entries().iter().filter(is_used) {
        project.copy_entry(entry, shared.path(), Path::new(""), &edit)?;
    }
    let chapter = SDKS.get_file("templates/run.md").and_then(File::contents_utf8).context("the SDKs are incomplete")?;
    project.append(Path::new("README.md"), &edit(chapter))?;
    let as_it_is = |text: &str| text.to_owned();
    project.copy(&CONTRACT, CONTRACT.path(), Path::new("berth/wit"), &as_it_is)?;
    for schema in SchemaName::value_variants() {
        project.write(&Path::new(SCHEMAS).join(schema.file()), &schema.text()?)?;
    }
    if language == Language::Rust {
        let manifest = sdk.get_file(sdk.path().join("Cargo.toml")).and_then(File::contents_utf8);
        let sources = sdk.get_dir(sdk.path().join("src"));
        let (manifest, sources) = manifest.zip(sources).context("the SDK for Rust is incomplete")?;
        for (krate, manifest, sources) in CRATES.into_iter().chain([("sdk", manifest, sources)]) {
            let home = Path::new("berth/crates").join(krate);
            project.write(&home.join("Cargo.toml"), &without_dev_dependencies(manifest))?;
            project.copy(sources, sources.path(), &home.join("src"), &as_it_is)?;
        }
        project.write(Path::new("rust-toolchain.toml"), TOOLCHAIN)?;
    } else {
        let is_template = |entry: &&DirEntry<'_>| TEMPLATES.iter().any(|name| entry.path().ends_with(name));
        for entry in sdk.entries().iter().filter(|entry| !is_template(entry)) {
            project.copy_entry(entry, sdk.path(), Path::new("berth"), &as_it_is)?;
        }
        for name in SHARED {
            let text = SDKS.get_file(name).and_then(File::contents_utf8).context("the SDKs are incomplete")?;
            project.write(&Path::new("berth").join(name), text)?;
        }
    }
    Ok(project.n_files)
}

/// The dependencies of the SDK for Rust, with their versions in the workspace.
fn dependencies() -> String {
    let manifests =
        CRATES.map(|(_, manifest, _)| manifest).into_iter().chain([include_str!("../../../../sdks/rust/Cargo.toml")]);
    let manifests: String = manifests.map(without_dev_dependencies).collect();
    let names = manifests.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once([' ', '.']));
    let used: BTreeSet<&str> = names.map(|(name, _)| name).collect();
    let section = WORKSPACE.split("[workspace.dependencies]").nth(1).unwrap_or_default();
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    let needed = lines.filter(|line| {
        let name = line.split(' ').next().unwrap_or_default();
        !name.starts_with("berth-") && used.contains(name)
    });
    needed.collect::<Vec<_>>().join("\n")
}

/// Removes the dependencies of the SDK's own tests, which are not part of a project.
fn without_dev_dependencies(manifest: &str) -> String {
    let mut kept = String::new();
    let mut is_dev = false;
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_dev = line == "[dev-dependencies]";
        }
        if !is_dev {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

struct Project {
    dir: PathBuf,
    n_files: usize,
}

impl Project {
    /// Writes the files below `from` into the folder `to` of the project. Their paths start with `root`.
    fn copy(&mut self, from: &Dir<'_>, root: &Path, to: &Path, edit: &dyn Fn(&str) -> String) -> Result<()> {
        from.entries().iter().try_for_each(|entry| self.copy_entry(entry, root, to, edit))
    }

    fn copy_entry(
        &mut self,
        entry: &DirEntry<'_>,
        root: &Path,
        to: &Path,
        edit: &dyn Fn(&str) -> String,
    ) -> Result<()> {
        let name = entry.path().file_name().unwrap_or_default().to_string_lossy();
        if LEFT_BEHIND.contains(&&*name) {
            return Ok(());
        }
        match entry {
            DirEntry::Dir(dir) => self.copy(dir, root, to, edit),
            DirEntry::File(file) => {
                let path = to.join(file.path().strip_prefix(root)?);
                let text = file.contents_utf8().with_context(|| format!("{} is not UTF-8 text", path.display()))?;
                self.write(&path, &with_schema(&name, edit(text)))
            }
        }
    }

    /// Adds to the end of a file that was written.
    fn append(&self, path: &Path, text: &str) -> Result<()> {
        let path = self.dir.join(path);
        let before = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        fs::write(&path, before + text).with_context(|| format!("cannot write {}", path.display()))
    }

    fn write(&mut self, path: &Path, text: &str) -> Result<()> {
        let path = self.dir.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        }
        self.n_files += usize::from(!path.exists());
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        if text.starts_with("#!") { make_executable(&path) } else { Ok(()) }
    }
}

/// The text of a file. If the file has a schema, the first line names the schema, so that YAML language servers can
/// complete and check the file. The path is relative to the file, which is in the top folder of the project.
fn with_schema(name: &str, text: String) -> String {
    SchemaName::of_file(name)
        .map_or(text.clone(), |schema| format!("# yaml-language-server: $schema={SCHEMAS}/{}\n{text}", schema.file()))
}

#[cfg(unix)]
fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, executable).with_context(|| format!("cannot make {} executable", path.display()))
}

#[cfg(not(unix))]
fn make_executable(_path: &Path) -> Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each template in each language.
    fn projects() -> impl Iterator<Item = (Language, Template)> {
        let all = Language::value_variants().iter();
        all.flat_map(|language| Template::value_variants().iter().map(|template| (*language, *template)))
    }

    /// An editor finds the schema without network.
    #[test]
    fn the_cases_of_a_new_project_name_their_schema() {
        for (language, template) in projects() {
            let home = tempfile::tempdir().expect("a folder");
            let dir = home.path().join("zone");
            instantiate(language, template, "Zone", "zone", &dir).expect("a project");
            let cases = fs::read_to_string(dir.join("cases.yaml")).expect("a file");
            let first = cases.lines().next().unwrap_or_default();
            let schema = first.strip_prefix("# yaml-language-server: $schema=").expect("a schema");
            let text = fs::read_to_string(dir.join(schema)).expect("a file");
            assert_eq!(text, SchemaName::Cases.text().expect("a schema"));
        }
    }

    #[test]
    fn a_new_project_says_how_it_is_run_and_what_it_needs() {
        for (language, template) in projects() {
            let home = tempfile::tempdir().expect("a folder");
            instantiate(language, template, "Zone", "zone", &home.path().join("zone")).expect("a project");
            let read = |file: &str| fs::read_to_string(home.path().join("zone").join(file));
            let readme = read("README.md").expect("a file");
            assert!(readme.contains(&to_run(template, "Zone").join("\n")) && !readme.contains("{{"), "{readme}");
            assert!(read("config.yaml").expect("a file").contains("- name: Zone\n"));
            let needs_a_grant = template == Template::Approval;
            assert_eq!(readme.contains("has the grants that the plugin needs: `{effects: [wait]}`"), needs_a_grant);
            assert_eq!(read(GRANTS).is_ok_and(|text| text.contains("- name: Zone\n")), needs_a_grant);
        }
    }

    #[test]
    fn a_project_in_rust_names_what_its_sdk_needs() {
        let dependencies = dependencies();
        let names: Vec<&str> = dependencies.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(
            names,
            [
                "jiff",
                "rustc-hash",
                "serde",
                "serde_json",
                "serde_path_to_error",
                "sha2",
                "smallvec",
                "thin-vec",
                "thiserror",
                "wit-bindgen"
            ]
        );
    }
}
