//! The files beside programs and image: the bill of materials, the manifests of package managers, and notes.

use std::path::PathBuf;

use anyhow::Result;

use super::{Architecture, Release, sha256, write};
use crate::output_of;

/// A placeholder, as in the manifests of `deploy/`. Put the real host here before you publish.
pub(super) const PLACEHOLDER_HOST: &str = "releases.example";

/// The part of Homebrew's formula that is the same for every release.
const FORMULA_END: &str = r##"  def install
    bin.install "berth"
    bin.install_symlink "berth" => "kubectl-berth"
    bash_completion.install "completions/berth.bash" => "berth"
    zsh_completion.install "completions/_berth"
    fish_completion.install "completions/berth.fish"
    man1.install Dir["man/*.1"]
    doc.install "LICENSE-THIRD-PARTY"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/berth --version")
  end
end
"##;

/// What the notes of the first release say. The quoted words are titles of pages.
const FIRST_RELEASE: &str = "This is the first release. The guide is at <https://HOST>. Begin at \"About this guide\". \
    \"Not there yet\" lists what this version does not do.";

impl Release {
    pub(super) fn write_rest(&self, programs: &[(Architecture, PathBuf)]) -> Result<()> {
        let architectures: Vec<Architecture> = programs.iter().map(|(arch, _)| *arch).collect();
        write(&self.out.join(format!("berth-{}.cdx.json", self.version)), self.bill(&architectures)?.as_bytes())?;
        write(&self.out.join("berth.krew.yaml"), self.krew(programs)?.as_bytes())?;
        write(&self.out.join("berth.rb"), self.formula(programs)?.as_bytes())?;
        write(&self.out.join("release-notes.md"), self.notes()?.as_bytes())
    }

    /// The manifest with which krew installs `kubectl berth`
    /// (<https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/>).
    fn krew(&self, programs: &[(Architecture, PathBuf)]) -> Result<String> {
        let mut text = format!(
            "apiVersion: krew.googlecontainertools.github.com/v1alpha2\nkind: Plugin\nmetadata: {{name: berth}}\nspec:\n  \
             version: v{}\n  homepage: https://{PLACEHOLDER_HOST}\n  \
             shortDescription: Ask the Berth scheduler why pods are where they are\n  description: |\n    \
             Explains where pods of a running Berth scheduler are and why they wait, shows and controls its plugins,\n    \
             and simulates what another configuration would change.\n  platforms:\n",
            self.version
        );
        for (arch, _) in programs {
            let (name, file) = (arch.name, self.archive_file(*arch));
            let digest = sha256(&self.out.join(&file))?;
            let folder = format!("berth-{}-linux-{name}", self.version);
            text += &format!(
                "  - selector: {{matchLabels: {{os: linux, arch: {name}}}}}\n    \
                 uri: https://{PLACEHOLDER_HOST}/v{version}/{file}\n    sha256: {digest}\n    \
                 files: [{{from: {folder}/berth, to: kubectl-berth}}, {{from: \"{folder}/LICENSE*\", to: .}}]\n    \
                 bin: kubectl-berth\n",
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

    /// What changed since the previous release.
    fn notes(&self) -> Result<String> {
        // With the suffix, git sorts a pre-release before its release.
        let newest_first = ["-c", "versionsort.suffix=-", "tag", "--sort=-version:refname"];
        let tags = output_of("git", &[&newest_first[..], &["--merged", "HEAD", "--list", "v*"]].concat())?;
        let commits_since =
            |tag: &str| output_of("git", &["log", "--no-merges", "--format=- %s", &format!("{tag}..HEAD")]);
        let changes = changes(tag_before(&tags, &self.version), commits_since)?;
        Ok(format!("# Berth {}\n\nCommit {}. {changes}\n", self.version, self.commit))
    }
}

/// What the notes say about changes. The notes of a first release list no commits: no user has an earlier release.
fn changes(tag_before: Option<&str>, commits_since: impl FnOnce(&str) -> Result<String>) -> Result<String> {
    let Some(tag) = tag_before else { return Ok(FIRST_RELEASE.replace("HOST", PLACEHOLDER_HOST)) };
    Ok(format!("What changed since {tag}:\n\n{}", commits_since(tag)?))
}

/// The tag of the previous release. `tags` has one tag on each line, the newest version first. Only the notes of a
/// pre-release begin at another pre-release, because most users install no pre-releases.
fn tag_before<'a>(tags: &'a str, version: &str) -> Option<&'a str> {
    let own = format!("v{version}");
    let is_pre_release = |version: &str| version.contains('-');
    tags.lines().find(|tag| *tag != own && (is_pre_release(version) || !is_pre_release(tag)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::release::ARCHITECTURES;

    #[test]
    fn the_notes_of_a_release_begin_at_the_release_before() {
        let tags = "v0.2.0\nv0.2.0-rc.2\nv0.2.0-rc.1\nv0.1.0\nv0.1.0-rc.1\n";
        assert_eq!(tag_before(tags, "0.2.0"), Some("v0.1.0"));
        let tags = "v0.2.0-rc.2\nv0.2.0-rc.1\nv0.1.0\n";
        assert_eq!(tag_before(tags, "0.2.0-rc.2"), Some("v0.2.0-rc.1"));
        assert_eq!(tag_before("v0.1.0\n", "0.1.0"), None);
        assert_eq!(tag_before("v0.1.0\n", "0.2.0"), Some("v0.1.0"), "no tag yet");
    }

    #[test]
    fn the_notes_of_the_first_release_name_the_guide_and_no_commits() {
        let first = changes(None, |_| panic!("no commits are listed")).expect("a text");
        let beginning = format!("This is the first release. The guide is at <https://{PLACEHOLDER_HOST}>. ");
        assert!(first.starts_with(&beginning), "{first}");
        let later = changes(Some("v0.1.0"), |tag| Ok(format!("- A commit after {tag}"))).expect("a text");
        assert_eq!(later, "What changed since v0.1.0:\n\n- A commit after v0.1.0");
    }

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
            let folder = format!("berth-0.1.0-linux-{}", arch.name);
            let files =
                format!("[{{from: {folder}/berth, to: kubectl-berth}}, {{from: \"{folder}/LICENSE*\", to: .}}]");
            assert!(krew.contains(&format!("    files: {files}\n    bin: kubectl-berth\n")), "{krew}");
        }
        assert!(formula.starts_with("class Berth < Formula\n") && formula.ends_with("end\n"), "{formula}");
    }
}
