//! A source of each package names each dependency of the package.
//!
//! Some dependencies are in a manifest only because of their features. They are below a comment with the words of
//! [`FOR_FEATURES`], until the next section of the manifest.

use std::{collections::HashSet, fs};

use anyhow::{Context, Result};

use super::packages::Package;

const FOR_FEATURES: &str = "Not used here";

/// Packages with another name in sources than in manifests: the package, then its name in sources.
const OTHER_NAMES: [(&str, &str); 1] = [("rustls-webpki", "webpki")];

/// The dependencies that no source names.
pub(super) fn check(packages: &[Package]) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for package in packages {
        let path = package.folder.join("Cargo.toml");
        let manifest = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut sources = String::new();
        for file in &package.files {
            sources.push_str(&fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?);
        }
        for name in unused(&manifest, &sources) {
            complaints.push(format!("{}: no source of the package names {name}; remove it", path.display()));
        }
    }
    Ok(complaints)
}

/// The dependencies in the manifest that are not in the sources.
fn unused<'m>(manifest: &'m str, sources: &str) -> Vec<&'m str> {
    let is_separator = |character: char| !character.is_alphanumeric() && character != '_';
    let words: HashSet<&str> = sources.split(is_separator).collect();
    let (mut is_about_dependencies, mut is_for_features) = (false, false);
    let mut unused = Vec::new();
    for line in manifest.lines() {
        if let Some(section) = line.strip_prefix('[') {
            is_about_dependencies = section.trim_end().ends_with("dependencies]");
            is_for_features = false;
        } else if line.starts_with('#') {
            is_for_features |= line.contains(FOR_FEATURES);
        } else if is_about_dependencies && !is_for_features {
            let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
            let other = OTHER_NAMES.iter().find(|(package, _)| *package == name).map(|(_, other)| (*other).to_owned());
            let in_sources = other.unwrap_or_else(|| name.replace('-', "_"));
            if !name.is_empty() && !words.contains(in_sources.as_str()) {
                unused.push(name);
            }
        }
    }
    unused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_that_no_source_names_is_found() {
        let manifest = "[package]\nname = \"x\"\n\n[dependencies]\nberth-model.workspace = true\nserde = \"1\"\n\n\
                        [dev-dependencies]\nrustls-webpki.workspace = true\ntempfile = { workspace = true }\n";
        let sources = "use berth_model::Pod;\nuse webpki::Certificate;\n";
        assert_eq!(unused(manifest, sources), ["serde", "tempfile"]);
        assert_eq!(unused(manifest, "use berth_models::Pod;").len(), 4, "a longer name is another name");
    }

    #[test]
    fn a_dependency_may_be_there_for_its_features() {
        let manifest = "[dependencies]\nlibc = \"0.2\"\n# Not used here. It gets the features of the program.\n\
                        syn = \"3\"\n\n[build-dependencies]\nsemver = \"1\"\n";
        assert_eq!(unused(manifest, ""), ["libc", "semver"]);
    }
}
