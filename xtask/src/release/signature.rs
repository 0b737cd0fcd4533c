//! The signature of a release. It signs `SHA256SUMS`, which has the digests of all other files.
//!
//! openssl signs with an EC or RSA key over SHA-256. The same signature is in two files:
//!
//! | file | format | verified by |
//! |---|---|---|
//! | `SHA256SUMS.sig` | the bytes of the signature | `openssl dgst -sha256 -verify` |
//! | `SHA256SUMS.sigstore.json` | a sigstore bundle of version 0.3 (<https://docs.sigstore.dev/about/bundle>), without an entry of a transparency log | `cosign verify-blob --bundle` |

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::write;
use crate::run;

/// The file of the checksums.
pub(super) const SUMS: &str = "SHA256SUMS";

/// The files with signatures, which the checksums do not list.
pub(super) const SIGNATURES: [&str; 3] = [SIGNATURE, BUNDLE, ATTESTATION];

const SIGNATURE: &str = "SHA256SUMS.sig";
const BUNDLE: &str = "SHA256SUMS.sigstore.json";

/// The provenance that the workflow signs with its own identity (`.github/workflows/release.yml`).
const ATTESTATION: &str = "attestation.json";

/// Checks that openssl can sign with the private key.
///
/// # Errors
/// The file is not a private key, or the key's algorithm cannot sign SHA-256 digests, for example Ed25519.
pub(super) fn check_key(key: &str) -> Result<()> {
    run("openssl", &["dgst", "-sha256", "-sign", key, "-out", "/dev/null", "Cargo.lock"]).with_context(|| {
        format!(
            "--key {key}: use an EC or RSA key, as `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256` makes it"
        )
    })
}

/// Signs the checksums of the folder.
pub(super) fn sign(folder: &Path, key: &str) -> Result<()> {
    let [sums, signature] = [SUMS, SIGNATURE].map(|name| folder.join(name));
    let [from, to] = [&sums, &signature].map(|path| path.display().to_string());
    run("openssl", &["dgst", "-sha256", "-sign", key, "-out", &to, &from]).context("cannot sign the checksums")?;
    let public = openssl(&["pkey", "-in", key, "-pubout", "-outform", "DER"], &[])?;
    let signed = fs::read(&sums).with_context(|| from.clone())?;
    let signature = fs::read(&signature).with_context(|| to.clone())?;
    let bundle = json!({
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        // cosign derives the hint from the public key in the same way.
        "verificationMaterial": {"publicKey": {"hint": base64(&sha256(&public)?)?}, "tlogEntries": []},
        "messageSignature": {
            "messageDigest": {"algorithm": "SHA2_256", "digest": base64(&sha256(&signed)?)?},
            "signature": base64(&signature)?,
        },
    });
    write(&folder.join(BUNDLE), format!("{bundle:#}\n").as_bytes())
}

/// Verifies the signature with the public key. Without a key, the output says whether there is a signature.
///
/// # Errors
/// The signature does not fit the checksums and the key, or there is none.
pub(super) fn verify(folder: &Path, public_key: Option<&str>) -> Result<()> {
    let signature = folder.join(SIGNATURE);
    let Some(public_key) = public_key else {
        let state = if signature.exists() { "NOT VERIFIED: --key names no public key" } else { "there is none" };
        eprintln!("signature: {state}");
        return Ok(());
    };
    let [sums, file] = [&folder.join(SUMS), &signature].map(|path| path.display().to_string());
    let verify = ["dgst", "-sha256", "-verify", public_key, "-signature", &file, &sums];
    let status = Command::new("openssl").args(verify).stdout(Stdio::null()).status();
    ensure!(
        status.context("cannot start openssl")?.success(),
        "{file} is not a signature of {SUMS} by the key {public_key}"
    );
    let bundle = folder.join(BUNDLE);
    let text = fs::read(&bundle).with_context(|| bundle.display().to_string())?;
    let bundle: Value = serde_json::from_slice(&text).with_context(|| bundle.display().to_string())?;
    let bytes = fs::read(&signature).with_context(|| file.clone())?;
    ensure!(
        bundle["messageSignature"]["signature"] == base64(&bytes)?,
        "{BUNDLE} and {SIGNATURE} have different signatures"
    );
    eprintln!("signature: it fits the checksums and the key");
    Ok(())
}

fn sha256(bytes: &[u8]) -> Result<Vec<u8>> {
    openssl(&["dgst", "-sha256", "-binary"], bytes)
}

fn base64(bytes: &[u8]) -> Result<String> {
    Ok(String::from_utf8(openssl(&["base64", "-A"], bytes)?)?)
}

/// Runs openssl with `input` on its standard input, and returns its output. The whole input is written before the output
/// is read, so `input` must be smaller than a pipe's buffer (64 KiB on Linux).
fn openssl(arguments: &[&str], input: &[u8]) -> Result<Vec<u8>> {
    let mut process = Command::new("openssl")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start openssl")?;
    process.stdin.take().context("openssl has no standard input")?.write_all(input)?;
    let output = process.wait_with_output()?;
    ensure!(output.status.success(), "`openssl {}` failed", arguments.join(" "));
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A folder with checksums and a new key: the folder, the private key and the public key. `None` on a machine
    /// without openssl.
    fn folder(algorithm: &[&str]) -> Option<(TempDir, String, String)> {
        Command::new("openssl").arg("version").stdout(Stdio::null()).status().ok()?;
        let dir = tempfile::tempdir().expect("a folder");
        let [private, public] = ["release.key", "release.pub"].map(|name| dir.path().join(name).display().to_string());
        run("openssl", &[&["genpkey", "-quiet", "-out", private.as_str(), "-algorithm"][..], algorithm].concat())
            .expect("a key");
        run("openssl", &["pkey", "-in", &private, "-pubout", "-out", &public]).expect("a public key");
        write(&dir.path().join(SUMS), b"0000  berth.tgz\n").expect("a file");
        Some((dir, private, public))
    }

    const P256: [&str; 3] = ["EC", "-pkeyopt", "ec_paramgen_curve:P-256"];

    #[test]
    fn a_signature_fits_its_checksums_and_its_key_only() {
        for algorithm in [&P256[..], &["RSA"][..]] {
            let Some((dir, private, public)) = folder(algorithm) else { return };
            let Some((_other, _, other_public)) = folder(algorithm) else { return };
            assert!(verify(dir.path(), Some(&public)).is_err(), "there is no signature");
            sign(dir.path(), &private).expect("a signature");
            verify(dir.path(), Some(&public)).expect("the signature fits");
            verify(dir.path(), None).expect("nothing to verify with");
            assert!(verify(dir.path(), Some(&other_public)).is_err(), "another key");
            write(&dir.path().join(SUMS), b"0001  berth.tgz\n").expect("a file");
            assert!(verify(dir.path(), Some(&public)).is_err(), "other checksums");
        }
    }

    #[test]
    fn a_bundle_with_another_signature_is_refused() {
        let Some((dir, private, public)) = folder(&P256) else { return };
        sign(dir.path(), &private).expect("a signature");
        let first = fs::read(dir.path().join(BUNDLE)).expect("a bundle");
        // Each signature of an EC key contains a new random number.
        sign(dir.path(), &private).expect("a signature");
        write(&dir.path().join(BUNDLE), &first).expect("a file");
        let error = verify(dir.path(), Some(&public)).expect_err("two signatures").to_string();
        assert_eq!(error, "SHA256SUMS.sigstore.json and SHA256SUMS.sig have different signatures");
    }

    /// <https://github.com/sigstore/protobuf-specs>, `sigstore_bundle.proto` and `sigstore_common.proto`.
    #[test]
    fn the_bundle_has_the_fields_of_the_specification() {
        let Some((dir, private, _)) = folder(&P256) else { return };
        sign(dir.path(), &private).expect("a signature");
        let text = fs::read_to_string(dir.path().join(BUNDLE)).expect("a bundle");
        let bundle: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(bundle["mediaType"], "application/vnd.dev.sigstore.bundle.v0.3+json");
        let hint = bundle["verificationMaterial"]["publicKey"]["hint"].as_str().expect("a hint");
        assert_eq!(hint.len(), 44, "the base64 of 32 bytes");
        let message = &bundle["messageSignature"];
        assert_eq!(message["messageDigest"]["algorithm"], "SHA2_256");
        let digest = message["messageDigest"]["digest"].as_str().expect("a digest");
        assert_eq!(digest, base64(&sha256(b"0000  berth.tgz\n").expect("a digest")).expect("base64"));
    }

    #[test]
    fn a_key_that_cannot_sign_is_refused_before_the_build() {
        // The test runs in the crate's folder, and a release in the workspace's.
        std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).expect("the workspace");
        let Some((_dir, private, _)) = folder(&["ED25519"]) else { return };
        let error = check_key(&private).expect_err("Ed25519").to_string();
        assert!(error.ends_with("ec_paramgen_curve:P-256` makes it"), "{error}");
        let Some((_dir, private, _)) = folder(&P256) else { return };
        check_key(&private).expect("a key");
    }
}
