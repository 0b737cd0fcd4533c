//! The image, as an OCI layout (<https://github.com/opencontainers/image-spec>). No container engine is needed. The
//! image contains only the program, its links, its licences and its bill of materials.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Architecture, Release, THIRD_PARTY, compress, sha256, write};
use crate::{output_of, sbom};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The name that the shipped manifests give the image. Its host is a placeholder.
pub(super) const NAME: &str = "registry.example/berth";

/// The user that the shipped manifests name.
const USER: &str = "65532:65532";

impl Release {
    /// Writes the image for all architectures. Returns its digest.
    pub(super) fn write_image(
        &self,
        programs: &[(Architecture, PathBuf)],
        authorities: Option<&Path>,
    ) -> Result<String> {
        let layout = self.scratch.join("image");
        let mut manifests = Vec::new();
        for (arch, program) in programs {
            let root = self.root_file_system(*arch, program, authorities)?;
            let mut manifest = self.write_manifest(&layout, *arch, &root)?;
            manifest["platform"] = json!({"architecture": arch.name, "os": "linux"});
            manifests.push(manifest);
        }
        let index = json!({
            "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests, "annotations": self.annotations()?,
        });
        let mut index = blob_of(&layout, INDEX, &index)?;
        let digest = index["digest"].as_str().unwrap_or_default().to_owned();
        // containerd imports an image under the second name, so that the manifests find the image on a node without a
        // registry.
        index["annotations"] = json!({
            "org.opencontainers.image.ref.name": self.version,
            "io.containerd.image.name": format!("{NAME}:{}", self.version),
        });
        let layouts_index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [index]});
        write(&layout.join("index.json"), &serde_json::to_vec(&layouts_index)?)?;
        write(&layout.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        self.tar(&layout, ".", &self.out.join(self.image_file()))?;
        Ok(digest)
    }

    /// The folder that is the image's only layer.
    fn root_file_system(&self, arch: Architecture, program: &Path, authorities: Option<&Path>) -> Result<PathBuf> {
        let root = self.scratch.join("roots").join(arch.name);
        let (programs, documents) = (root.join("usr/local/bin"), root.join("usr/share/doc/berth"));
        fs::create_dir_all(&programs)?;
        fs::create_dir_all(&documents)?;
        fs::copy(program, programs.join("berth"))?;
        for link in ["kube-scheduler", "kubectl-berth"] {
            symlink("berth", programs.join(link))?;
        }
        fs::copy("LICENSE", documents.join("LICENSE"))?;
        write(&documents.join(THIRD_PARTY), sbom::licences(&[arch.target()])?.as_bytes())?;
        write(&documents.join("berth.cdx.json"), self.bill(&[arch])?.as_bytes())?;
        if let Some(file) = authorities {
            let certificates = fs::read(file).with_context(|| format!("--authorities {}", file.display()))?;
            write(&root.join("etc/ssl/certs/ca-certificates.crt"), &certificates)?;
        }
        Ok(root)
    }

    /// Writes the layer, the configuration and the manifest of one architecture. Returns the manifest's descriptor.
    fn write_manifest(&self, layout: &Path, arch: Architecture, root: &Path) -> Result<Value> {
        let (tar, packed) = (self.scratch.join("layer.tar"), self.scratch.join("layer.tar.gz"));
        self.tar(root, ".", &tar)?;
        compress(&tar, &packed)?;
        let diff_id = format!("sha256:{}", sha256(&tar)?);
        let layer = blob(layout, LAYER, &fs::read(&packed)?)?;
        let config = json!({
            "created": self.created()?,
            "architecture": arch.name,
            "os": "linux",
            "config": {
                "User": USER,
                "Env": ["PATH=/usr/local/bin"],
                "Entrypoint": ["berth"],
                "Cmd": ["run"],
                "Labels": self.annotations()?,
            },
            "rootfs": {"type": "layers", "diff_ids": [diff_id]},
            "history": [{"created": self.created()?, "created_by": "cargo xtask release"}],
        });
        let config = blob_of(layout, CONFIG, &config)?;
        blob_of(
            layout,
            MANIFEST,
            &json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]}),
        )
    }

    /// The specification defines the keys (`annotations.md`). `source` and `url` are absent, because there is no public
    /// host yet.
    fn annotations(&self) -> Result<Value> {
        Ok(json!({
            "org.opencontainers.image.title": "berth",
            "org.opencontainers.image.description": "Kubernetes scheduler whose plugins are WebAssembly components",
            "org.opencontainers.image.created": self.created()?,
            "org.opencontainers.image.version": self.version,
            "org.opencontainers.image.revision": self.commit,
            "org.opencontainers.image.licenses": "Apache-2.0",
        }))
    }

    /// The time of the commit in RFC 3339.
    pub(super) fn created(&self) -> Result<String> {
        output_of("date", &["-u", "-d", &format!("@{}", self.epoch), "+%Y-%m-%dT%H:%M:%SZ"])
    }
}

fn blob_of(layout: &Path, media_type: &str, value: &Value) -> Result<Value> {
    blob(layout, media_type, &serde_json::to_vec(value)?)
}

/// Writes a blob. Returns its descriptor.
fn blob(layout: &Path, media_type: &str, bytes: &[u8]) -> Result<Value> {
    let folder = layout.join("blobs/sha256");
    let new = folder.join("new");
    write(&new, bytes)?;
    let digest = sha256(&new)?;
    fs::rename(&new, folder.join(&digest))?;
    Ok(json!({"mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len()}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::{ARCHITECTURES, container::Image};

    /// <https://github.com/opencontainers/image-spec>: `image-layout.md`, `image-index.md` and `config.md`.
    #[test]
    fn the_layout_has_what_the_specification_demands() {
        let dir = tempfile::tempdir().expect("a folder");
        let program = dir.path().join("program");
        write(&program, b"program").expect("a file");
        let release = Release::for_test(dir.path());
        release.write_image(&ARCHITECTURES.map(|arch| (arch, program.clone())), None).expect("an image");
        let layout = release.scratch.join("image");
        let read = |file: &Path| -> Value {
            serde_json::from_slice(&fs::read(layout.join(file)).expect("a file")).expect("JSON")
        };
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().expect("a digest").replace(':', "/");
            read(&Path::new("blobs").join(digest))
        };
        assert_eq!(read(Path::new("oci-layout")), json!({"imageLayoutVersion": "1.0.0"}));
        let entrance = read(Path::new("index.json"));
        let entry = &entrance["manifests"][0];
        assert_eq!((&entrance["schemaVersion"], &entry["mediaType"]), (&json!(2), &json!(INDEX)));
        assert_eq!(entry["annotations"]["org.opencontainers.image.ref.name"], "0.1.0");
        let index = blob(entry);
        assert_eq!(index["annotations"]["org.opencontainers.image.created"], "2023-11-14T22:13:20Z");
        let manifests = index["manifests"].as_array().expect("manifests");
        for (manifest, arch) in manifests.iter().zip(ARCHITECTURES) {
            assert_eq!(manifest["platform"], json!({"os": "linux", "architecture": arch.name}));
            let manifest = blob(manifest);
            assert_eq!((&manifest["mediaType"], &manifest["config"]["mediaType"]), (&json!(MANIFEST), &json!(CONFIG)));
            let config = blob(&manifest["config"]);
            let n_layers = manifest["layers"].as_array().map(Vec::len);
            assert_eq!(config["rootfs"]["diff_ids"].as_array().map(Vec::len), n_layers);
            assert_eq!(config["history"].as_array().map(Vec::len), n_layers);
            assert_eq!((&config["os"], &config["architecture"]), (&json!("linux"), &json!(arch.name)));
        }
    }

    #[test]
    fn the_layout_unpacks_to_what_was_packed_and_has_the_same_bytes_each_time() {
        let dir = tempfile::tempdir().expect("a folder");
        let program = dir.path().join("program");
        write(&program, b"program").expect("a file");
        let image = |name: &str| {
            let release = Release::for_test(&dir.path().join(name));
            let programs = ARCHITECTURES.map(|arch| (arch, program.clone()));
            let digest = release.write_image(&programs, None).expect("an image");
            let file = fs::read(release.out.join(release.image_file())).expect("a file");
            (release.scratch.join("image"), digest, file)
        };
        let (layout, digest, file) = image("first");
        let (_, other_digest, other_file) = image("second");
        assert_eq!(digest, other_digest);
        assert!(file == other_file, "the files differ");
        for arch in ARCHITECTURES {
            let root = dir.path().join(arch.name);
            let unpacked = Image::unpack(&layout, arch, root.clone()).expect("an image").expect("an architecture");
            assert_eq!(unpacked.user, USER);
            assert_eq!(fs::read(unpacked.program()).expect("the program"), b"program");
            let link = fs::read_link(root.join("usr/local/bin/kube-scheduler")).expect("a link");
            assert_eq!(link, Path::new("berth"));
            let bill = fs::read_to_string(root.join("usr/share/doc/berth/berth.cdx.json")).expect("a bill");
            assert!(bill.contains("CycloneDX") && bill.contains("pkg:generic/glibc@2.36"), "{bill}");
            let licences = fs::read_to_string(root.join("usr/share/doc/berth/LICENSE-THIRD-PARTY")).expect("licences");
            assert!(licences.contains("GNU LESSER GENERAL PUBLIC LICENSE"), "glibc is in the program");
        }
    }
}
