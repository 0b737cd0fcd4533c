//! Takes manifests in, and makes a cluster of them.

use berth_model::ObjectKey;
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::{Cluster, build::Builder};
use crate::manifest::{self, Manifest, ReadError};

/// Makes a [`Cluster`] of texts.
///
/// A broken object is left out, and [`Self::finish`] names it: the caller decides whether to go on without it.
#[derive(Debug, Default)]
pub struct ClusterReader {
    manifests: Vec<Manifest>,
    /// Where in `manifests` each object is.
    seen: FxHashMap<ObjectKey, usize>,
    errors: Vec<ReadError>,
}

impl ClusterReader {
    /// Takes in all objects of a text, YAML or JSON; `file` is its name in errors.
    pub fn read(&mut self, file: &str, text: &str) {
        for manifest in manifest::read(file, text) {
            match manifest {
                Ok(manifest) => self.add(manifest),
                Err(error) => self.errors.push(error),
            }
        }
    }

    /// Takes in an object that stands in no text; `origin` says in errors where it comes from.
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
                let reason = format!("the same object is also at {}", first.place.describe());
                return self.errors.push(manifest.error("/metadata/name", reason));
            }
        }
        self.manifests.push(manifest);
    }

    /// The cluster of all objects that can be used, and what is wrong with the others.
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

    /// What is wrong with objects so far. Some is found out by [`Self::finish`] alone.
    #[must_use]
    pub fn errors(&self) -> &[ReadError] {
        &self.errors
    }

    /// The objects that were taken in so far.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        self.manifests.iter().map(|manifest| &manifest.object)
    }
}
