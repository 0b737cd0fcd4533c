//! `cargo xtask sbom`: the crates of `berth` and of its components, as a CycloneDX bill of materials
//! (<https://cyclonedx.org/docs/1.6/json/>).
//!
//! Cargo provides all the information: the host's crates as resolved for the targets that it is built for, the plugins'
//! crates as resolved for wasm, and the checksums in `Cargo.lock`. The same sources give the same bytes.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::Path,
    process::Command,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::target_dir;

const HOST: &str = "berth-host";
const WASM: &str = "wasm32-unknown-unknown";

/// The way in which a crate is part of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    /// The crate is only used in the build.
    Build,
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
    fs::write(&file, text(&[host_triple()?])?).with_context(|| file.display().to_string())?;
    eprintln!("{}", file.display());
    Ok(())
}

/// The text of the bill for the workspace, whose host is built for these targets.
pub(crate) fn text(targets: &[String]) -> Result<String> {
    Ok(format!("{:#}\n", document(Path::new("."), targets)?))
}

/// The bill of the workspace at `root`.
fn document(root: &Path, targets: &[String]) -> Result<Value> {
    let mut bill = Bill::default();
    let mut host = None;
    for target in targets {
        host = bill.add(&metadata(root, target)?, |package| package["name"] == HOST)?.into_iter().next();
    }
    let host = host.context("the workspace has no host")?;
    let plugins = bill.add(&metadata(root, WASM)?, is_embedded)?;
    bill.edges.entry(host.clone()).or_default().extend(plugins);
    let checksums = checksums(&fs::read_to_string(root.join("Cargo.lock")).context("Cargo.lock")?);
    Ok(bill.document(&host, &checksums))
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

fn host_triple() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let text = String::from_utf8(output.stdout)?;
    let triple = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(triple.context("rustc -vV names no host")?.to_owned())
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
                let scope = match (of_kind(Value::Null), of_kind(json!("build"))) {
                    (true, _) => scope,
                    (false, true) => Scope::Build,
                    // The dependency is only for tests.
                    (false, false) => continue,
                };
                let to = dependency["pkg"].as_str().unwrap_or_default().to_owned();
                self.edges.entry(found.clone()).or_default().insert(to.clone());
                open.push((to, scope));
            }
        }
        Ok(roots)
    }

    fn document(&self, host: &str, checksums: &BTreeMap<(String, String), String>) -> Value {
        let components: Vec<Value> = self
            .scopes
            .iter()
            .filter(|(id, _)| *id != host)
            .map(|(id, scope)| {
                let mut component = component(&self.packages[id], "library", checksums);
                component["scope"] = json!(if *scope == Scope::Code { "required" } else { "excluded" });
                component
            })
            .collect();
        let reference = |id: &String| purl(&self.packages[id]);
        let nothing = BTreeSet::new();
        let dependencies: Vec<Value> = self
            .scopes
            .keys()
            .map(|id| {
                let edges = self.edges.get(id).unwrap_or(&nothing);
                json!({"ref": reference(id), "dependsOn": edges.iter().map(reference).collect::<BTreeSet<_>>()})
            })
            .collect();
        let mut subject = component(&self.packages[host], "application", checksums);
        subject["name"] = json!("berth");
        json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {"component": subject},
            "components": components,
            "dependencies": dependencies,
        })
    }
}

/// The package URL of the crate, which also identifies it within the bill.
fn purl(package: &Value) -> String {
    let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}

fn component(package: &Value, kind: &str, checksums: &BTreeMap<(String, String), String>) -> Value {
    let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
    let purl = purl(package);
    let mut component = json!({
        "type": kind, "bom-ref": purl, "name": text("name"), "version": text("version"), "purl": purl,
    });
    // Old manifests write a slash for a choice of licences.
    if let Some(license) = package["license"].as_str() {
        component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
    }
    if let Some(checksum) = checksums.get(&(text("name"), text("version"))) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bill_has_the_host_its_crates_and_the_components() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let targets = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"].map(str::to_owned);
        let bill = document(root, &targets).unwrap();
        assert_eq!(bill["metadata"]["component"]["name"], "berth");
        let components = bill["components"].as_array().unwrap();
        let find = |name: &str| components.iter().find(|component| component["name"] == name);
        let scope = |name: &str| find(name).map(|component| component["scope"].clone());
        assert_eq!(scope("wasmtime"), Some(json!("required")));
        assert_eq!(scope("berth-sdk"), Some(json!("required")), "of the components alone");
        assert_eq!(scope("cranelift-isle"), Some(json!("excluded")));
        assert_eq!(scope("proptest"), None, "for tests");
        let foreign = find("wasmtime").unwrap();
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
        assert_eq!(document(root, &targets).unwrap(), bill, "the same sources, the same bill");
        let of_one = document(root, &targets[..1]).unwrap();
        let mut of_one = of_one["components"].as_array().unwrap().iter().filter_map(|it| it["bom-ref"].as_str());
        let has_all = of_one.all(|name| references.contains(name));
        assert!(has_all, "the bill of two targets has the crates of each");
    }

    fn find_plugin(reference: &Value) -> bool {
        let reference = reference.as_str().unwrap_or_default();
        reference.starts_with("pkg:cargo/berth-node-affinity@") || reference.starts_with("pkg:cargo/berth-volume-zone@")
    }
}
