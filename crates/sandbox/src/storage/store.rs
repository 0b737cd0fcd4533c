//! Collections of objects with a bounded history of their changes.
//!
//! All collections use the same counter for resource versions. A version is taken under the collection's lock. The
//! versions within a collection therefore only grow, and later writes exceed any version that was read under that lock.
//! A lock is held for a map operation and one serialisation, and never across an await.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use serde_json::Value;
use tokio::sync::watch;

use super::key::is_in_namespace;
use super::object::Object;
use super::version::{ResourceVersion, VersionCounter};

/// The number of changes that a collection remembers. A watcher that is further behind must list again.
const HISTORY: usize = 16_384;

/// All collections.
#[derive(Debug, Default)]
pub(crate) struct Store {
    counter: Arc<VersionCounter>,
    collections: RwLock<HashMap<String, Arc<Collection>>>,
}

/// The objects of one resource.
#[derive(Debug)]
pub(crate) struct Collection {
    counter: Arc<VersionCounter>,
    contents: Mutex<Contents>,
    latest: watch::Sender<ResourceVersion>,
}

#[derive(Debug)]
struct Contents {
    objects: BTreeMap<String, Arc<Object>>,
    history: VecDeque<Arc<Change>>,
    /// Changes up to this version are forgotten.
    floor: ResourceVersion,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    /// The object was created.
    Added,
    /// The object was written.
    Modified,
    /// The object was removed.
    Deleted,
}

/// One change of one object.
#[derive(Debug)]
pub(crate) struct Change {
    /// The kind of the change.
    pub(crate) kind: ChangeKind,
    /// The object's key.
    pub(crate) key: String,
    /// The state before the change; `None` for a new object.
    pub(crate) before: Option<Arc<Object>>,
    /// The state after the change. For a deletion, the last state with the deletion's version.
    pub(crate) object: Arc<Object>,
}

/// Another writer has changed the object since the caller read it.
#[derive(Debug)]
pub(crate) struct Outdated;

/// The history does not reach back to the wanted version. `floor` is the oldest version of the history.
#[derive(Debug)]
pub(crate) struct Forgotten {
    /// The oldest version that is still available.
    pub(crate) floor: ResourceVersion,
}

impl Store {
    /// The collection of this name. The first request creates the collection.
    pub(crate) fn collection(&self, name: &str) -> Arc<Collection> {
        let existing = self.collections.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        existing.unwrap_or_else(|| {
            let mut collections = self.collections.write().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(collections.entry(name.to_owned()).or_insert_with(|| Arc::new(self.new_collection())))
        })
    }

    /// Every collection that was ever requested.
    pub(crate) fn collections(&self) -> Vec<Arc<Collection>> {
        self.collections.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Forgets all changes so far. An earlier watch is then refused like a watch from before a compaction.
    pub(crate) fn compact(&self) {
        self.counter.next();
        for collection in self.collections() {
            collection.compact();
        }
    }

    /// The newest resource version.
    pub(crate) fn version(&self) -> ResourceVersion {
        self.counter.current()
    }

    fn new_collection(&self) -> Collection {
        let floor = self.version();
        let contents = Contents { objects: BTreeMap::new(), history: VecDeque::new(), floor };
        Collection {
            counter: Arc::clone(&self.counter),
            contents: Mutex::new(contents),
            latest: watch::Sender::new(floor),
        }
    }
}

impl Collection {
    /// The object under `key`.
    pub(crate) fn get(&self, key: &str) -> Option<Arc<Object>> {
        self.lock().objects.get(key).cloned()
    }

    /// Adds an object unless the key is taken.
    pub(crate) fn create(&self, key: &str, value: Value) -> Option<Arc<Object>> {
        let mut contents = self.lock();
        if contents.objects.contains_key(key) {
            return None;
        }
        let object = Arc::new(Object::new(value, self.counter.next()));
        contents.objects.insert(key.to_owned(), Arc::clone(&object));
        self.record(contents, ChangeKind::Added, key, None, &object);
        Some(object)
    }

    /// Replaces the version `current` with `value`.
    pub(crate) fn replace(&self, key: &str, current: &Object, value: Value) -> Result<Arc<Object>, Outdated> {
        let mut contents = self.lock();
        let before = contents.current(key, current)?;
        let object = Arc::new(Object::new(value, self.counter.next()));
        contents.objects.insert(key.to_owned(), Arc::clone(&object));
        self.record(contents, ChangeKind::Modified, key, Some(before), &object);
        Ok(object)
    }

    /// Replaces the version `current` with `last`, and then removes the object. Watchers see both changes, and no other
    /// write comes between them.
    pub(crate) fn replace_and_remove(&self, key: &str, current: &Object, last: Value) -> Result<Arc<Object>, Outdated> {
        let mut contents = self.lock();
        let before = contents.current(key, current)?;
        let marked = Arc::new(Object::new(last.clone(), self.counter.next()));
        let object = Arc::new(Object::new(last, self.counter.next()));
        contents.objects.remove(key);
        contents.remember(ChangeKind::Modified, key, Some(before), &marked);
        self.record(contents, ChangeKind::Deleted, key, Some(marked), &object);
        Ok(object)
    }

    /// Removes the version `current`. `last` is the state that watchers see.
    pub(crate) fn remove(&self, key: &str, current: &Object, last: Value) -> Result<Arc<Object>, Outdated> {
        let mut contents = self.lock();
        let before = contents.current(key, current)?;
        let object = Arc::new(Object::new(last, self.counter.next()));
        contents.objects.remove(key);
        self.record(contents, ChangeKind::Deleted, key, Some(before), &object);
        Ok(object)
    }

    /// The objects in `namespace`, or in all namespaces if the name is empty, and the current resource version.
    pub(crate) fn list(&self, namespace: &str) -> (Vec<Arc<Object>>, ResourceVersion) {
        let contents = self.lock();
        (contents.select(namespace), self.counter.current())
    }

    /// The objects as they were at `version`.
    pub(crate) fn list_at(&self, namespace: &str, version: ResourceVersion) -> Result<Vec<Arc<Object>>, Forgotten> {
        let contents = self.lock();
        if version < contents.floor {
            return Err(Forgotten { floor: contents.floor });
        }
        let mut objects: BTreeMap<String, Arc<Object>> = contents.objects.clone();
        for change in contents.history.iter().rev().take_while(|change| change.object.version > version) {
            match &change.before {
                Some(before) => objects.insert(change.key.clone(), Arc::clone(before)),
                None => objects.remove(&change.key),
            };
        }
        drop(contents);
        Ok(objects.into_iter().filter(|(key, _)| is_in_namespace(key, namespace)).map(|(_, object)| object).collect())
    }

    /// The changes after `version`, oldest first, at most `limit`.
    pub(crate) fn changes_after(&self, version: ResourceVersion, limit: usize) -> Result<Vec<Arc<Change>>, Forgotten> {
        let contents = self.lock();
        if version < contents.floor {
            return Err(Forgotten { floor: contents.floor });
        }
        let start = contents.history.partition_point(|change| change.object.version <= version);
        Ok(contents.history.range(start..).take(limit).cloned().collect())
    }

    /// The newest version for which this collection's state is known to be current.
    pub(crate) fn version(&self) -> ResourceVersion {
        let _contents = self.lock();
        self.counter.current()
    }

    /// A channel that reports new changes.
    pub(crate) fn subscribe(&self) -> watch::Receiver<ResourceVersion> {
        self.latest.subscribe()
    }

    fn compact(&self) {
        let mut contents = self.lock();
        contents.history.clear();
        contents.floor = self.counter.current();
    }

    fn record(
        &self,
        mut contents: MutexGuard<'_, Contents>,
        kind: ChangeKind,
        key: &str,
        before: Option<Arc<Object>>,
        object: &Arc<Object>,
    ) {
        contents.remember(kind, key, before, object);
        drop(contents);
        self.latest.send_replace(object.version);
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contents {
    fn remember(&mut self, kind: ChangeKind, key: &str, before: Option<Arc<Object>>, object: &Arc<Object>) {
        let change = Change { kind, key: key.to_owned(), before, object: Arc::clone(object) };
        self.history.push_back(Arc::new(change));
        if self.history.len() > HISTORY
            && let Some(oldest) = self.history.pop_front()
        {
            self.floor = oldest.object.version;
        }
    }

    fn current(&self, key: &str, expected: &Object) -> Result<Arc<Object>, Outdated> {
        match self.objects.get(key) {
            Some(object) if object.version == expected.version => Ok(Arc::clone(object)),
            Some(_) | None => Err(Outdated),
        }
    }

    fn select(&self, namespace: &str) -> Vec<Arc<Object>> {
        if namespace.is_empty() {
            return self.objects.values().cloned().collect();
        }
        let start = format!("{namespace}/");
        self.objects
            .range(start..)
            .take_while(|(key, _)| is_in_namespace(key, namespace))
            .map(|(_, object)| Arc::clone(object))
            .collect()
    }
}
