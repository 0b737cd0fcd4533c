//! Where the files of a release come from: an in-toto statement with SLSA's predicate for builds
//! (<https://slsa.dev/spec/v1.0/provenance>). It contains no time and no name of a machine, so the same commit gives the
//! same bytes.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{Release, image, options::Options, sha256, signature, version_of, write};

/// How a release is made. The guide describes its parameters (`docs/src/install.md`).
const BUILD_TYPE: &str = "https://berth.dev/build/xtask-release/v1";

/// The builder that the statement names. The signature of the checksums covers the statement. A workflow adds a statement
/// of its own.
const BUILDER: &str = "https://berth.dev/builders/local";

impl Release {
    /// Writes the provenance of all files and of the image, and then the checksums of all files.
    pub(super) fn write_provenance(&self, options: &Options, image: &str) -> Result<()> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.out)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        let mut subjects = Vec::new();
        for name in &names {
            subjects.push(json!({"name": name, "digest": {"sha256": sha256(&self.out.join(name))?}}));
        }
        // A registry shows this digest, and not the digest of the file with the layout.
        let digest = image.strip_prefix("sha256:").context("the image's digest is not a SHA-256")?;
        subjects.push(json!({"name": image::NAME, "digest": {"sha256": digest}}));
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": subjects,
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": self.predicate(options)?,
        });
        let provenance = self.provenance_file();
        write(&self.out.join(&provenance), format!("{statement:#}\n").as_bytes())?;
        names.push(provenance);
        let sums = names.iter().map(|name| Ok(format!("{}  {name}\n", sha256(&self.out.join(name))?)));
        write(&self.out.join(signature::SUMS), sums.collect::<Result<String>>()?.as_bytes())
    }

    fn provenance_file(&self) -> String {
        format!("berth-{}.intoto.json", self.version)
    }

    fn predicate(&self, options: &Options) -> Result<Value> {
        let mut source = json!({"name": "source", "digest": {"gitCommit": self.commit.trim_end_matches("-dirty")}});
        if self.commit.ends_with("-dirty") {
            source["annotations"] = json!({"dirty": true});
        }
        let lock = sha256("Cargo.lock".as_ref())?;
        let mut dependencies = vec![source, json!({"name": "Cargo.lock", "digest": {"sha256": lock}})];
        let architectures: Vec<&&str> = self.c_toolchains.keys().collect();
        let mut parameters = json!({"command": "cargo xtask release", "architectures": architectures});
        if let Some(file) = &options.authorities {
            parameters["authorities"] = json!("the dependency authorities");
            dependencies.push(json!({"name": "authorities", "digest": {"sha256": sha256(file)?}}));
        }
        let glibc: BTreeMap<&str, &str> =
            self.c_toolchains.iter().map(|(name, toolchain)| (*name, toolchain.glibc.as_str())).collect();
        let c_compilers: BTreeMap<&str, &str> =
            self.c_toolchains.iter().map(|(name, toolchain)| (*name, toolchain.compiler.as_str())).collect();
        Ok(json!({
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": parameters,
                "internalParameters": {
                    "version": self.version, "rustc": version_of("rustc")?, "cCompilers": c_compilers, "glibc": glibc,
                    "tar": version_of("tar")?, "gzip": version_of("gzip")?,
                },
                "resolvedDependencies": dependencies,
            },
            "runDetails": {"builder": {"id": BUILDER}},
        }))
    }
}

/// The digest of the image, according to the provenance.
pub(super) fn image_digest(provenance: &Path) -> Result<String> {
    let text = fs::read(provenance).with_context(|| provenance.display().to_string())?;
    let statement: Value = serde_json::from_slice(&text).with_context(|| provenance.display().to_string())?;
    let mut subjects = statement["subject"].as_array().into_iter().flatten();
    let image = subjects.find(|subject| subject["name"] == image::NAME);
    let digest = image.and_then(|image| image["digest"]["sha256"].as_str());
    Ok(format!("sha256:{}", digest.with_context(|| format!("{}: no digest of the image", provenance.display()))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statement and the checksums of a release with one file.
    fn written(options: &Options, commit: &str) -> (Value, String) {
        let dir = tempfile::tempdir().expect("a folder");
        let mut release = Release::for_test(dir.path());
        release.commit = commit.to_owned();
        write(&release.out.join("berth.tgz"), b"a chart").expect("a file");
        release.write_provenance(options, "sha256:0123").expect("provenance");
        let file = release.out.join("berth-0.1.0.intoto.json");
        assert_eq!(image_digest(&file).expect("a digest"), "sha256:0123");
        let text = fs::read_to_string(file).expect("a statement");
        let sums = fs::read_to_string(release.out.join(signature::SUMS)).expect("checksums");
        (serde_json::from_str(&text).expect("JSON"), sums)
    }

    const A_CHART: &str = "a8c938318041ff413b5be251f171ce9ea478b3b957e5fd20b00a9d4de73a541d";

    #[test]
    fn the_statement_is_about_each_file_and_the_image() {
        let (statement, sums) = written(&Options::default(), "abc");
        let chart = json!({"name": "berth.tgz", "digest": {"sha256": A_CHART}});
        let image = json!({"name": "registry.example/berth", "digest": {"sha256": "0123"}});
        assert_eq!(statement["subject"], json!([chart, image]));
        let names: Vec<&str> = sums.lines().filter_map(|line| Some(line.split_once("  ")?.1)).collect();
        assert_eq!(names, ["berth.tgz", "berth-0.1.0.intoto.json"]);
        assert!(sums.starts_with(&format!("{A_CHART}  berth.tgz\n")), "{sums}");
    }

    /// The specification defines the names: buildDefinition and runDetails, and a dependency is a
    /// ResourceDescriptor (<https://github.com/in-toto/attestation/blob/main/spec/v1/resource_descriptor.md>).
    #[test]
    fn the_predicate_has_what_a_second_build_needs() {
        let (statement, _) = written(&Options::default(), "abc");
        assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
        assert_eq!(statement["predicateType"], "https://slsa.dev/provenance/v1");
        let predicate = &statement["predicate"];
        assert!(predicate["runDetails"]["builder"]["id"].is_string());
        let build = &predicate["buildDefinition"];
        assert!(build["buildType"].is_string());
        assert_eq!(
            build["externalParameters"],
            json!({"command": "cargo xtask release", "architectures": ["amd64", "arm64"]})
        );
        let tools = &build["internalParameters"];
        assert_eq!(tools["glibc"], json!({"amd64": "2.36", "arm64": "2.36"}));
        assert_eq!(tools["cCompilers"], json!({"amd64": "cc 12.2.0", "arm64": "cc 12.2.0"}));
        for tool in ["rustc", "tar", "gzip"] {
            assert!(tools[tool].as_str().is_some_and(|version| version.starts_with(tool)), "{tools}");
        }
        let source = &build["resolvedDependencies"][0];
        assert_eq!(*source, json!({"name": "source", "digest": {"gitCommit": "abc"}}));
    }

    #[test]
    fn a_changed_tree_and_own_authorities_are_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("authorities.pem");
        write(&file, b"a chart").expect("a file");
        let options = Options { authorities: Some(file), ..Options::default() };
        let (statement, _) = written(&options, "abc-dirty");
        let build = &statement["predicate"]["buildDefinition"];
        let dependencies = &build["resolvedDependencies"];
        let source = json!({"name": "source", "digest": {"gitCommit": "abc"}, "annotations": {"dirty": true}});
        assert_eq!(dependencies[0], source);
        assert_eq!(dependencies[2], json!({"name": "authorities", "digest": {"sha256": A_CHART}}));
        assert!(build["externalParameters"]["authorities"].is_string());
    }
}
