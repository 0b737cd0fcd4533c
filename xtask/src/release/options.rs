//! The command line of `cargo xtask release`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

const HELP: &str = "\
usage: cargo xtask release --out DIR [OPTION ...]
       cargo xtask release --check DIR [--key FILE] [--required]
       cargo xtask release --sign DIR --key FILE

Builds the sources that are checked out: static programs, an image as an OCI layout, the chart and the manifests, a bill of
materials, checksums, and the provenance of the files. Two builds of one commit have the same bytes.

  --out DIR            an empty folder for the files
  --arch NAME          amd64 or arm64; both, if none is named. The architecture of another machine needs Debian's
                       qemu-user-static and a C compiler: gcc-aarch64-linux-gnu with libc6-dev-arm64-cross, or gcc-x86-64-linux-gnu with
                       libc6-dev-amd64-cross
  --authorities FILE   certificates (PEM) of the authorities that the image trusts when it talks to registries and extenders.
                       Without this option the image has no certificates: mount yours, and name them in SSL_CERT_FILE
  --key FILE           an EC or RSA private key (PEM) that signs the checksums: SHA256SUMS.sig is for
                       `openssl dgst -sha256 -verify`, SHA256SUMS.sigstore.json for `cosign verify-blob`. With --check: the
                       public key (PEM) with which the signature is verified
  --sign DIR           compares the checksums of a release that a workflow made, and signs them with --key
  --check DIR          tries the files of a release, without the sources. Compares the checksums, and verifies the signature. The
                       unpacked image schedules the demo's pods, as a user other than root with a read-only root file system.
                       A sandbox accepts the objects of the base and of the chart, and the image runs as a pod of their
                       Deployment. Measures a cold start. Needs root on Linux, kubectl and Python
  --required           with --check: fails without kubectl or Python, instead of saying what did not run
";

/// The options that were given.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) out: PathBuf,
    /// The architectures to build. An empty list means all.
    pub(super) architectures: Vec<String>,
    pub(super) authorities: Option<PathBuf>,
    pub(super) key: Option<String>,
    pub(super) check: Option<PathBuf>,
    pub(super) sign: Option<PathBuf>,
    pub(super) is_required: bool,
}

impl Options {
    /// Reads the arguments. `None` means that the help was requested, which this prints.
    ///
    /// # Errors
    /// An argument is invalid.
    pub(super) fn parse(arguments: &[String]) -> Result<Option<Self>> {
        let mut options = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || rest.next().cloned().with_context(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--out" => options.out = value()?.into(),
                "--arch" => match value()? {
                    name if super::ARCHITECTURES.iter().any(|known| known.name == name) => {
                        options.architectures.push(name)
                    }
                    name => bail!("--arch {name}: amd64 and arm64 are known"),
                },
                "--authorities" => options.authorities = Some(value()?.into()),
                "--key" => options.key = Some(value()?),
                "--check" => options.check = Some(value()?.into()),
                "--sign" => options.sign = Some(value()?.into()),
                "--required" => options.is_required = true,
                "--help" | "-h" => {
                    eprint!("{HELP}");
                    return Ok(None);
                }
                unknown => bail!("unknown option {unknown}\n\n{HELP}"),
            }
        }
        if options.sign.is_some() && options.key.is_none() {
            bail!("--sign needs --key FILE\n\n{HELP}");
        }
        if options.is_required && options.check.is_none() {
            bail!("--required needs --check DIR\n\n{HELP}");
        }
        if options.out.as_os_str().is_empty() && options.check.is_none() && options.sign.is_none() {
            bail!("--out DIR is missing\n\n{HELP}");
        }
        Ok(Some(options))
    }

    pub(super) fn is_named(&self, architecture: &str) -> bool {
        self.architectures.iter().any(|name| name == architecture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<Options>> {
        Options::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| format!("{:#}", parse(text).unwrap_err());
        assert!(error("").starts_with("--out DIR is missing"));
        assert_eq!(error("--out"), "--out needs a value");
        assert_eq!(error("--out x --arch s390x"), "--arch s390x: amd64 and arm64 are known");
        assert!(error("--outt x").starts_with("unknown option --outt"));
        assert!(error("--sign x").starts_with("--sign needs --key FILE"));
        assert!(error("--out x --required").starts_with("--required needs --check DIR"));
    }

    #[test]
    fn both_architectures_are_built_unless_one_is_named() {
        let options = parse("--out x").unwrap().unwrap();
        assert!(options.architectures.is_empty());
        let options = parse("--out x --arch arm64").unwrap().unwrap();
        assert!(options.is_named("arm64") && !options.is_named("amd64"));
    }
}
