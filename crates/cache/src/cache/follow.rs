//! Support for a copy that follows the cache object by object. The copy reads the changes, and it reads the whole
//! content in portions.

use std::{ops::Bound, sync::Arc};

use berth_model::{ObjectKey, PodUid, Sym};

use super::Cache;

impl Cache {
    /// Starts to note changes. With `false`, stops and forgets the notes.
    pub fn follow(&mut self, is_followed: bool) {
        let changed = &mut self.changed;
        changed.nodes.follow(is_followed);
        changed.pods.follow(is_followed);
        changed.objects.follow(is_followed);
    }

    /// The names of nodes that were set or removed since the last call.
    pub fn changed_nodes(&mut self) -> impl Iterator<Item = Sym> + '_ {
        self.changed.nodes.drain()
    }

    /// Pods that came, left, or changed since the last call.
    pub fn changed_pods(&mut self) -> impl Iterator<Item = PodUid> + '_ {
        self.changed.pods.drain()
    }

    /// Objects of other kinds that were set or removed since the last call.
    pub fn changed_objects(&mut self) -> impl Iterator<Item = Arc<ObjectKey>> + '_ {
        self.changed.objects.drain()
    }

    /// The names of all nodes, in no particular order. They include names to which only pods refer.
    pub fn node_names(&self) -> impl Iterator<Item = Sym> + '_ {
        self.nodes.keys().copied()
    }

    /// The objects of other kinds that come after `after`, in the order of their keys. `None` starts at the first
    /// object.
    pub fn objects_after(&self, after: Option<&Arc<ObjectKey>>) -> impl Iterator<Item = (&Arc<ObjectKey>, &Arc<[u8]>)> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.objects.range::<Arc<ObjectKey>, _>((begin, Bound::Unbounded))
    }
}
