//! Reads manifests, and makes a cluster from them.

use berth_model::ObjectKey;
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::{Cluster, build::Builder};
use crate::manifest::{self, Manifest, ReadError};

/// Makes a [`Cluster`] from texts.
///
/// An invalid object is left out, and [`Self::finish`] names the object. The caller decides whether to continue without
/// it.
#[derive(Debug, Default)]
pub struct ClusterReader {
    manifests: Vec<Manifest>,
    /// The position of each object in `manifests`.
    seen: FxHashMap<ObjectKey, usize>,
    errors: Vec<ReadError>,
}

impl ClusterReader {
    /// Reads all objects of a text, in YAML or JSON. `file` is the name of the text in errors.
    pub fn read(&mut self, file: &str, text: &str) {
        for manifest in manifest::read(file, text) {
            match manifest {
                Ok(manifest) => self.add(manifest),
                Err(error) => self.errors.push(error),
            }
        }
    }

    /// Adds an object that is not from a text. `origin` is its source, for errors.
    pub fn take(&mut self, origin: &str, object: Value) {
        match manifest::of_object(origin, object) {
            Ok(manifest) => self.add(manifest),
            Err(error) => self.errors.push(error),
        }
    }

    fn add(&mut self, manifest: Manifest) {
        let key = ObjectKey::of(&manifest.object);
        if !key.name.is_empty() {
            let first = *self.seen.entry(key).or_insert(self.manifests.len());
            if let Some(first) = self.manifests.get(first) {
                let reason = format!("the same object is also defined at {}", first.place.describe());
                return self.errors.push(manifest.error("/metadata/name", reason));
            }
        }
        self.manifests.push(manifest);
    }

    /// The cluster of all usable objects, and the mistakes in all other objects.
    #[must_use]
    pub fn finish(self) -> (Cluster, Vec<ReadError>) {
        let Self { manifests, errors, .. } = self;
        let mut builder = Builder::new(errors);
        for manifest in &manifests {
            builder.look_at(&manifest.object);
        }
        for manifest in manifests {
            builder.add(manifest);
        }
        builder.finish()
    }

    /// The mistakes in objects so far. Some mistakes are only found by [`Self::finish`].
    #[must_use]
    pub fn errors(&self) -> &[ReadError] {
        &self.errors
    }

    /// The objects that were read so far.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        self.manifests.iter().map(|manifest| &manifest.object)
    }
}
