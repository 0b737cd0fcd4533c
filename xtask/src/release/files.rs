//! The files beside programs and image: the bill of materials, notes, provenance and checksums.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};
use serde_json::json;

use super::{Architecture, Release, sha256, write};
use crate::{output_of, run, sbom};

/// A placeholder, as in the manifests of `deploy/`. Put the real host here before you publish.
const PLACEHOLDER_HOST: &str = "releases.example";

const SUMS: &str = "SHA256SUMS";

/// The part of Homebrew's formula that is the same for every release.
const FORMULA_END: &str = r##"  def install
    bin.install "berth", "kubectl-berth"
    bash_completion.install "completions/berth.bash" => "berth"
    zsh_completion.install "completions/_berth"
    fish_completion.install "completions/berth.fish"
    man1.install Dir["man/*.1"]
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/berth --version")
  end
end
"##;

impl Release {
    pub(super) fn write_rest(&self, programs: &[(Architecture, PathBuf)]) -> Result<()> {
        let targets: Vec<String> = programs.iter().map(|(arch, _)| arch.target()).collect();
        write(&self.out.join(format!("berth-{}.cdx.json", self.version)), sbom::text(&targets)?.as_bytes())?;
        write(&self.out.join("berth.krew.yaml"), self.krew(programs)?.as_bytes())?;
        write(&self.out.join("berth.rb"), self.formula(programs)?.as_bytes())?;
        write(&self.out.join("release-notes.md"), self.notes()?.as_bytes())
    }

    /// The manifest with which krew installs `kubectl berth`
    /// (<https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/>).
    fn krew(&self, programs: &[(Architecture, PathBuf)]) -> Result<String> {
        let mut text = format!(
            "apiVersion: krew.googlecontainertools.github.com/v1alpha2\nkind: Plugin\nmetadata: {{name: berth}}\nspec:\n  \
             version: v{}\n  shortDescription: Ask the Berth scheduler why pods are where they are\n  description: |\n    \
             Explains where pods of a running Berth scheduler are and why they wait, shows and controls its plugins,\n    \
             and simulates what another configuration would change.\n  platforms:\n",
            self.version
        );
        for (arch, _) in programs {
            let (name, file) = (arch.name, self.archive_file(*arch));
            let digest = sha256(&self.out.join(&file))?;
            text += &format!(
                "  - selector: {{matchLabels: {{os: linux, arch: {name}}}}}\n    \
                 uri: https://{PLACEHOLDER_HOST}/v{version}/{file}\n    sha256: {digest}\n    \
                 files: [{{from: berth-{version}-linux-{name}/berth, to: kubectl-berth}}]\n    bin: kubectl-berth\n",
                version = self.version
            );
        }
        Ok(text)
    }

    /// The formula with which Homebrew installs `berth` on Linux (<https://docs.brew.sh/Formula-Cookbook>).
    fn formula(&self, programs: &[(Architecture, PathBuf)]) -> Result<String> {
        let version = &self.version;
        let mut text = format!(
            "class Berth < Formula\n  desc \"Kubernetes scheduler whose plugins are WebAssembly components\"\n  \
             homepage \"https://{PLACEHOLDER_HOST}\"\n  version \"{version}\"\n  license \"Apache-2.0\"\n  \
             depends_on :linux\n\n"
        );
        for (arch, _) in programs {
            let file = self.archive_file(*arch);
            let digest = sha256(&self.out.join(&file))?;
            text += &format!(
                "  on_{} do\n    url \"https://{PLACEHOLDER_HOST}/v{version}/{file}\"\n    sha256 \"{digest}\"\n  end\n\n",
                arch.family
            );
        }
        text += FORMULA_END;
        Ok(text)
    }

    /// The subjects of the commits since the previous tag.
    fn notes(&self) -> Result<String> {
        let own = format!("v{}", self.version);
        let tags = output_of("git", &["tag", "--merged", "HEAD", "--sort=-version:refname", "--list", "v*"])?;
        let before = tags.lines().find(|tag| *tag != own);
        let range = before.map_or_else(|| "HEAD".to_owned(), |tag| format!("{tag}..HEAD"));
        let commits = output_of("git", &["log", "--no-merges", "--format=- %s", &range])?;
        let since = before.map_or_else(|| "the beginning".to_owned(), str::to_owned);
        Ok(format!("# Berth {}\n\nCommit {}. What changed since {since}:\n\n{commits}\n", self.version, self.commit))
    }

    /// Writes the provenance of the files (<https://slsa.dev/spec/v1.0/provenance>) and their checksums, and signs
    /// these files if a key is given.
    pub(super) fn write_provenance(&self, programs: &[(Architecture, PathBuf)], key: Option<&str>) -> Result<()> {
        let architectures: Vec<&str> = programs.iter().map(|(arch, _)| arch.name).collect();
        let mut names: Vec<String> = Vec::new();
        for entry in fs::read_dir(&self.out)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        let mut subjects = Vec::new();
        for name in &names {
            subjects.push(json!({"name": name, "digest": {"sha256": sha256(&self.out.join(name))?}}));
        }
        let compiler = output_of("rustc", &["--version"])?;
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": subjects,
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": {
                "buildDefinition": {
                    "buildType": "https://berth.dev/build/xtask-release/v1",
                    "externalParameters": {"command": "cargo xtask release", "version": self.version, "architectures": architectures},
                    "internalParameters": {"compiler": compiler},
                    "resolvedDependencies": [{"name": "source", "digest": {"gitCommit": self.commit}},
                        {"name": "Cargo.lock", "digest": {"sha256": sha256("Cargo.lock".as_ref())?}}],
                },
                "runDetails": {"builder": {"id": "https://berth.dev/builders/local"}},
            },
        });
        let provenance = format!("berth-{}.intoto.json", self.version);
        write(&self.out.join(&provenance), format!("{statement:#}\n").as_bytes())?;
        names.push(provenance);
        let sums = names.iter().map(|name| Ok(format!("{}  {name}\n", sha256(&self.out.join(name))?)));
        let file = self.out.join(SUMS);
        write(&file, sums.collect::<Result<String>>()?.as_bytes())?;
        let Some(key) = key else { return Ok(()) };
        let (sums, signature) = (file.display().to_string(), format!("{}.sig", file.display()));
        run("openssl", &["dgst", "-sha256", "-sign", key, "-out", &signature, &sums])
            .context("cannot sign the checksums")
    }
}

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        process::{Command, Stdio},
    };

    use serde_json::Value;

    use super::*;
    use crate::release::ARCHITECTURES;

    #[test]
    fn packagers_get_the_digest_of_each_archive() {
        let dir = tempfile::tempdir().expect("a folder");
        let release = Release::for_test(dir.path());
        let programs = ARCHITECTURES.map(|arch| (arch, Path::new("berth").to_owned()));
        for (arch, _) in &programs {
            write(&release.out.join(release.archive_file(*arch)), arch.name.as_bytes()).expect("a file");
        }
        let formula = release.formula(&programs).expect("a formula");
        let krew = release.krew(&programs).expect("a manifest");
        for (arch, family) in [(ARCHITECTURES[0], "intel"), (ARCHITECTURES[1], "arm")] {
            let digest = sha256(&release.out.join(release.archive_file(arch))).expect("a digest");
            let url = format!("https://releases.example/v0.1.0/berth-0.1.0-linux-{}.tar.gz", arch.name);
            let block = format!("  on_{family} do\n    url \"{url}\"\n    sha256 \"{digest}\"\n  end\n");
            assert!(formula.contains(&block), "{block} is not in {formula}");
            assert!(krew.contains(&format!("    uri: {url}\n    sha256: {digest}\n")), "{krew}");
        }
        assert!(formula.starts_with("class Berth < Formula\n") && formula.ends_with("end\n"), "{formula}");
    }

    #[test]
    fn provenance_checksums_and_signature_are_about_each_file() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = |name: &str| dir.path().join(name).display().to_string();
        let release = Release::for_test(dir.path());
        write(&release.out.join("berth.tgz"), b"a chart").expect("a file");
        let has_openssl = Command::new("openssl").arg("version").stdout(Stdio::null()).status().is_ok();
        let (key, public) = (has_openssl.then(|| path("key.pem")), path("key.pub"));
        if let Some(key) = &key {
            let algorithm = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
            run("openssl", &[&["genpkey", "-out", key.as_str()][..], &algorithm[..]].concat()).expect("a key");
            run("openssl", &["pkey", "-in", key.as_str(), "-pubout", "-out", &public]).expect("a public key");
        }
        release.write_provenance(&[], key.as_deref()).expect("provenance");
        let read = |name: &str| fs::read_to_string(release.out.join(name)).expect(name);
        let provenance: Value = serde_json::from_str(&read("berth-0.1.0.intoto.json")).expect("JSON");
        let digest = sha256(&release.out.join("berth.tgz")).expect("a digest");
        assert_eq!(provenance["subject"], json!([{"name": "berth.tgz", "digest": {"sha256": digest}}]));
        let source = &provenance["predicate"]["buildDefinition"]["resolvedDependencies"][0];
        assert_eq!(source["digest"]["gitCommit"], "abc");
        let sums = read(SUMS);
        let names: Vec<&str> = sums.lines().filter_map(|line| Some(line.split_once("  ")?.1)).collect();
        assert_eq!(names, ["berth.tgz", "berth-0.1.0.intoto.json"]);
        if has_openssl {
            let (file, signature) = (release.out.join(SUMS), release.out.join("SHA256SUMS.sig"));
            let [file, signature] = [file, signature].map(|path| path.display().to_string());
            let verify = ["dgst", "-sha256", "-verify", &public, "-signature", &signature, &file];
            run("openssl", &verify).expect("the signature fits");
        }
    }
}
