//! `cargo xtask sbom`: the crates of `berth` and of its components, as a CycloneDX bill of materials
//! (<https://cyclonedx.org/docs/1.6/json/>).
//!
//! Cargo provides all the information: the host's crates as resolved for the targets that it is built for, the plugins'
//! crates as resolved for wasm, and the checksums in `Cargo.lock`. Rust's standard library comes with the compiler, and
//! a static program contains glibc. The same sources and compilers give the same bytes, so the bill has the time of the
//! commit, and no serial number.

mod licences;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::{output_of, target_dir};

const HOST: &str = "berth-host";
const WASM: &str = "wasm32-unknown-unknown";

/// Rust's standard library, which contains crates that cargo does not list.
const STANDARD_LIBRARY: &str = "rust-std";

/// The way in which a crate is part of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    /// The crate is only used in the build.
    Build,
    /// The crate is a procedural macro, or is only used by procedural macros: it writes code of the program.
    Macro,
    /// The crate's code is in the program.
    Code,
}

/// Crates with the dependencies of each, by cargo's ids.
#[derive(Debug, Default)]
struct Bill {
    packages: BTreeMap<String, Value>,
    scopes: BTreeMap<String, Scope>,
    edges: BTreeMap<String, BTreeSet<String>>,
}

/// Writes `sbom/berth.cdx.json` in the target directory.
pub(crate) fn sbom() -> Result<()> {
    let folder = target_dir().join("sbom");
    let file = folder.join("berth.cdx.json");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let created = output_of("git", &["log", "-1", "--format=%cI"])?;
    let text = text(&[compiler("host: ")?], &BTreeSet::new(), &created)?;
    fs::write(&file, text).with_context(|| file.display().to_string())?;
    eprintln!("{}", file.display());
    Ok(())
}

/// The text of the bill for the workspace, whose host is built for these targets and contains these versions of glibc.
/// `created` is the time of the commit in RFC 3339.
pub(crate) fn text(targets: &[String], c_libraries: &BTreeSet<&str>, created: &str) -> Result<String> {
    Ok(format!("{:#}\n", document(Path::new("."), targets, c_libraries, created)?))
}

/// The licences of the code of others in the static programs for these targets.
pub(crate) fn licences(targets: &[String]) -> Result<String> {
    let (bill, _) = Bill::read(Path::new("."), targets)?;
    let in_program = bill.scopes.iter().filter(|(_, scope)| **scope >= Scope::Macro);
    let packages = in_program.filter_map(|(id, _)| bill.packages.get(id));
    licences::text(packages.filter(|package| !package["source"].is_null()))
}

/// The bill of the workspace at `root`.
fn document(root: &Path, targets: &[String], c_libraries: &BTreeSet<&str>, created: &str) -> Result<Value> {
    let (bill, host) = Bill::read(root, targets)?;
    let checksums = checksums(&fs::read_to_string(root.join("Cargo.lock")).context("Cargo.lock")?);
    let mut libraries = vec![library(STANDARD_LIBRARY, &compiler("release: ")?, "MIT OR Apache-2.0", "rust-lang:rust")];
    libraries.extend(c_libraries.iter().map(|version| library("glibc", version, "LGPL-2.1-or-later", "gnu:glibc")));
    let mut document = bill.document(&host, &checksums, &libraries);
    document["metadata"]["timestamp"] = json!(created);
    Ok(document)
}

/// Whether the crate is a procedural macro, whose own code is not in the program.
fn is_macro(package: &Value) -> bool {
    package["targets"].as_array().into_iter().flatten().any(|target| target["kind"] == json!(["proc-macro"]))
}

/// Whether the crate is a built-in plugin: a folder of `plugins`, except the folder that embeds the plugins.
fn is_embedded(package: &Value) -> bool {
    let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
    let folders: Vec<_> = manifest.components().rev().skip(1).take(2).map(|part| part.as_os_str()).collect();
    folders.get(1).is_some_and(|parent| *parent == "plugins") && folders[0] != "components"
}

fn metadata(root: &Path, target: &str) -> Result<Value> {
    let output = Command::new(env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
        .current_dir(root)
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", target])
        .output()
        .context("cannot start cargo metadata")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The text after `beginning` on its line in the output of `rustc -vV`.
fn compiler(beginning: &str) -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let text = String::from_utf8(output.stdout)?;
    let found = text.lines().find_map(|line| line.strip_prefix(beginning));
    Ok(found.with_context(|| format!("rustc -vV has no line `{beginning}`"))?.to_owned())
}

/// The component of a library that is not a crate. `product` is its vendor and its name in the dictionary of the National
/// Vulnerability Database, which scanners compare.
fn library(name: &str, version: &str, licence: &str, product: &str) -> Value {
    let purl = format!("pkg:generic/{name}@{version}");
    json!({
        "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl, "scope": "required",
        "cpe": format!("cpe:2.3:a:{product}:{version}:*:*:*:*:*:*:*"), "licenses": [{"expression": licence}],
    })
}

/// The checksums by name and version. Crates of the workspace have no checksums.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let field = |package: &str, name: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""));
        line.and_then(|rest| rest.strip_suffix('"')).map(str::to_owned)
    };
    let packages = lock.split("[[package]]").skip(1);
    packages
        .filter_map(|package| {
            Some(((field(package, "name")?, field(package, "version")?), field(package, "checksum")?))
        })
        .collect()
}

impl Bill {
    /// Reads the packages of the host for these targets and of the built-in components, with the host's id.
    fn read(root: &Path, targets: &[String]) -> Result<(Self, String)> {
        let mut bill = Self::default();
        let mut host = None;
        for target in targets {
            host = bill.add(&metadata(root, target)?, |package| package["name"] == HOST)?.into_iter().next();
        }
        let host = host.context("the workspace has no host")?;
        let plugins = bill.add(&metadata(root, WASM)?, is_embedded)?;
        bill.edges.entry(host.clone()).or_default().extend(plugins);
        Ok((bill, host))
    }

    /// Adds the chosen packages and all their dependencies. Returns the ids of the chosen packages.
    fn add(&mut self, metadata: &Value, is_root: impl Fn(&Value) -> bool) -> Result<Vec<String>> {
        let id = |value: &Value| value["id"].as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let packages: BTreeMap<String, Value> =
            list(&metadata["packages"]).into_iter().map(|it| (id(&it), it)).collect();
        let nodes: BTreeMap<String, Value> =
            list(&metadata["resolve"]["nodes"]).into_iter().map(|it| (id(&it), it)).collect();
        let roots: Vec<String> = packages.values().filter(|package| is_root(package)).map(id).collect();
        let mut open: Vec<(String, Scope)> = roots.iter().map(|root| (root.clone(), Scope::Code)).collect();
        // Another target may have had the same crate with other dependencies, so only this target's crates count.
        let mut seen: BTreeMap<String, Scope> = BTreeMap::new();
        while let Some((found, scope)) = open.pop() {
            if seen.get(&found).is_some_and(|known| *known >= scope) {
                continue;
            }
            seen.insert(found.clone(), scope);
            let known = self.scopes.entry(found.clone()).or_insert(scope);
            *known = scope.max(*known);
            self.packages.insert(found.clone(), packages.get(&found).with_context(|| found.clone())?.clone());
            for dependency in list(&nodes.get(&found).with_context(|| found.clone())?["deps"]) {
                let kinds = list(&dependency["dep_kinds"]);
                let of_kind = |kind: Value| kinds.iter().any(|it| it["kind"] == kind);
                let to = dependency["pkg"].as_str().unwrap_or_default().to_owned();
                let scope = match (of_kind(Value::Null), of_kind(json!("build"))) {
                    (true, _) if packages.get(&to).is_some_and(is_macro) => scope.min(Scope::Macro),
                    (true, _) => scope,
                    (false, true) => Scope::Build,
                    // The dependency is only for tests.
                    (false, false) => continue,
                };
                self.edges.entry(found.clone()).or_default().insert(to.clone());
                open.push((to, scope));
            }
        }
        Ok(roots)
    }

    /// The document. `libraries` are components of the host that are no crates.
    fn document(&self, host: &str, checksums: &BTreeMap<(String, String), String>, libraries: &[Value]) -> Value {
        let mut components: Vec<Value> = self
            .scopes
            .iter()
            .filter(|(id, _)| *id != host)
            .map(|(id, scope)| {
                let mut component = component(&self.packages[id], "library", checksums);
                component["scope"] = json!(if *scope == Scope::Code { "required" } else { "excluded" });
                component
            })
            .collect();
        components.extend_from_slice(libraries);
        let reference = |id: &String| purl(&self.packages[id]);
        let name = |library: &Value| library["bom-ref"].as_str().unwrap_or_default().to_owned();
        let nothing = BTreeSet::new();
        let mut dependencies: Vec<Value> = self
            .scopes
            .keys()
            .map(|id| {
                let mut edges: BTreeSet<String> =
                    self.edges.get(id).unwrap_or(&nothing).iter().map(reference).collect();
                if id == host {
                    edges.extend(libraries.iter().map(name));
                }
                json!({"ref": reference(id), "dependsOn": edges})
            })
            .collect();
        // A component without an entry has unknown dependencies, and a component with an empty list has none.
        let (unknown, known): (Vec<&Value>, Vec<&Value>) =
            libraries.iter().partition(|library| library["name"] == STANDARD_LIBRARY);
        dependencies.extend(known.into_iter().map(|library| json!({"ref": name(library), "dependsOn": []})));
        let unknown: Vec<String> = unknown.into_iter().map(name).collect();
        let mut subject = component(&self.packages[host], "application", checksums);
        subject["name"] = json!("berth");
        json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {
                "lifecycles": [{"phase": "build"}],
                "tools": {"components": [
                    {"type": "application", "name": "cargo xtask sbom", "version": env!("CARGO_PKG_VERSION")},
                ]},
                "supplier": {"name": "The Berth maintainers"},
                "component": subject,
            },
            "components": components,
            "dependencies": dependencies,
            "compositions": [{"aggregate": "unknown", "dependencies": unknown}],
        })
    }
}

/// The package URL of the crate, which also identifies it within the bill. The type `cargo` means a crate of crates.io,
/// where crates of others may have the names of this workspace's crates.
fn purl(package: &Value) -> String {
    let text = |field: &str| package[field].as_str().unwrap_or_default();
    let kind = if package["source"].is_null() { "generic" } else { "cargo" };
    format!("pkg:{kind}/{}@{}", text("name"), text("version"))
}

fn component(package: &Value, kind: &str, checksums: &BTreeMap<(String, String), String>) -> Value {
    let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
    let purl = purl(package);
    let mut component = json!({
        "type": kind, "bom-ref": purl, "name": text("name"), "version": text("version"), "purl": purl,
    });
    // Old manifests write a slash for a choice of licences.
    if let Some(license) = package["license"].as_str() {
        let choices: Vec<&str> = license.split('/').map(str::trim).collect();
        component["licenses"] = json!([{"expression": choices.join(" OR ")}]);
    }
    if let Some(checksum) = checksums.get(&(text("name"), text("version"))) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATED: &str = "2023-11-14T22:13:20Z";

    #[test]
    fn the_bill_has_the_host_its_crates_and_the_components() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let targets = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"].map(str::to_owned);
        let c_libraries = BTreeSet::from(["2.36"]);
        let bill = document(root, &targets, &c_libraries, CREATED).unwrap();
        assert_eq!(bill["metadata"]["component"]["name"], "berth");
        assert_eq!(bill["metadata"]["timestamp"], CREATED);
        let components = bill["components"].as_array().unwrap();
        let find = |name: &str| components.iter().find(|component| component["name"] == name);
        let scope = |name: &str| find(name).map(|component| component["scope"].clone());
        assert_eq!(scope("wasmtime"), Some(json!("required")));
        assert_eq!(scope("berth-sdk"), Some(json!("required")), "of the components alone");
        assert_eq!(scope("cranelift-isle"), Some(json!("excluded")));
        assert_eq!(scope("serde_derive"), Some(json!("excluded")), "a macro");
        assert_eq!(scope("proptest"), None, "for tests");
        let foreign = find("wasmtime").unwrap();
        assert!(foreign["purl"].as_str().unwrap().starts_with("pkg:cargo/wasmtime@"), "{foreign}");
        assert_eq!(foreign["hashes"][0]["content"].as_str().map(str::len), Some(64));
        assert!(foreign["licenses"][0]["expression"].is_string());
        let references: BTreeSet<&str> =
            components.iter().chain([&bill["metadata"]["component"]]).filter_map(|it| it["bom-ref"].as_str()).collect();
        assert_eq!(references.len(), components.len() + 1, "each once");
        for dependency in bill["dependencies"].as_array().unwrap() {
            let names = dependency["dependsOn"].as_array().unwrap().iter().chain([&dependency["ref"]]);
            assert!(names.filter_map(Value::as_str).all(|name| references.contains(name)), "{dependency}");
        }
        let host = &bill["metadata"]["component"]["bom-ref"];
        let of_host = bill["dependencies"].as_array().unwrap().iter().find(|it| it["ref"] == *host).unwrap();
        let n_plugins = of_host["dependsOn"].as_array().unwrap().iter().filter(|it| find_plugin(it)).count();
        assert_eq!(n_plugins, 2, "{of_host}");
        let glibc = find("glibc").unwrap();
        assert_eq!(glibc["cpe"], "cpe:2.3:a:gnu:glibc:2.36:*:*:*:*:*:*:*");
        assert!(of_host["dependsOn"].as_array().unwrap().contains(&glibc["bom-ref"]), "{of_host}");
        let standard = &find(STANDARD_LIBRARY).unwrap()["bom-ref"];
        assert_eq!(bill["compositions"], json!([{"aggregate": "unknown", "dependencies": [standard]}]));
        assert!(bill["dependencies"].as_array().unwrap().iter().all(|it| it["ref"] != *standard), "unknown, not none");
        assert_eq!(document(root, &targets, &c_libraries, CREATED).unwrap(), bill, "the same sources, the same bill");
        let of_one = document(root, &targets[..1], &c_libraries, CREATED).unwrap();
        let mut of_one = of_one["components"].as_array().unwrap().iter().filter_map(|it| it["bom-ref"].as_str());
        let has_all = of_one.all(|name| references.contains(name));
        assert!(has_all, "the bill of two targets has the crates of each");
    }

    fn find_plugin(reference: &Value) -> bool {
        let reference = reference.as_str().unwrap_or_default();
        ["node-affinity", "volume-zone"].iter().any(|name| reference.starts_with(&format!("pkg:generic/berth-{name}@")))
    }
}
