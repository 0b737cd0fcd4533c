//! Objects other than pods and nodes, for the plugins that ask for their kinds. Each object is stored whole.

use std::sync::Arc;

use berth_model::{Delta, ObjectKey};

use super::Cache;

impl Cache {
    /// Stores an object. With `None`, removes the object. Returns the object that was stored before.
    pub fn set_object(&mut self, key: ObjectKey, json: Option<Arc<[u8]>>) -> Option<Arc<[u8]>> {
        let key = Arc::new(key);
        let old = match &json {
            Some(json) => self.objects.insert(Arc::clone(&key), Arc::clone(json)),
            None => self.objects.remove(&key),
        };
        if old == json {
            return old;
        }
        self.changed.objects.note(&key);
        let objects = vec![key.change(json)];
        let generation = self.log.record_object(key);
        self.table.apply(&Delta { generation, objects, ..Delta::default() });
        old
    }

    /// The object as the API server sent it.
    #[must_use]
    pub fn object(&self, key: &ObjectKey) -> Option<&Arc<[u8]>> {
        self.objects.get(key)
    }
}
