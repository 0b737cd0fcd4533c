//! Follows the changes of a collection, for the controllers.

use std::sync::Arc;

use tokio::sync::watch;

use super::object::Object;
use super::store::{Change, Collection, Forgotten};
use super::version::ResourceVersion;

/// The number of changes that are read under one lock.
const BATCH: usize = 512;

/// A reader of one collection that remembers its position.
#[derive(Debug)]
pub(crate) struct Follower {
    collection: Arc<Collection>,
    position: ResourceVersion,
    latest: watch::Receiver<ResourceVersion>,
}

impl Follower {
    /// Starts at the beginning of the collection's history; see [`Follower::state`].
    pub(crate) fn new(collection: Arc<Collection>) -> Self {
        let latest = collection.subscribe();
        Self { collection, position: ResourceVersion::ZERO, latest }
    }

    /// All objects. [`Follower::changes`] then returns the later changes.
    pub(crate) fn state(&mut self) -> Vec<Arc<Object>> {
        let (objects, position) = self.collection.list("");
        self.position = position;
        objects
    }

    /// The changes since the last call, oldest first. Fails if some are forgotten. The caller must then read the state.
    pub(crate) fn changes(&mut self) -> Result<Vec<Arc<Change>>, Forgotten> {
        self.latest.borrow_and_update();
        let mut changes = Vec::new();
        loop {
            let batch = self.collection.changes_after(self.position, BATCH)?;
            let Some(last) = batch.last() else { return Ok(changes) };
            self.position = last.object.version;
            changes.extend(batch);
        }
    }

    /// Waits until there are changes; false if no more changes can come.
    pub(crate) async fn changed(&mut self) -> bool {
        self.latest.changed().await.is_ok()
    }
}
