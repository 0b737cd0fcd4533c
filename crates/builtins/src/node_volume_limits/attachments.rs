//! Counts `VolumeAttachment`s, because a volume may still be attached to a node on which no pod uses the volume any
//! more.

use berth_model::{Catchup, ClusterTable, NodeIdx, ObjectView};
use rustc_hash::FxHashMap;

use super::{
    attached_volumes::{AttachedVolumes, VolumeHolder},
    volume_id::{CountedVolume, VolumeId},
};
use crate::storage::{self, VolumeAttachment};

/// All attachments, with the volume and the node under which each attachment was counted.
#[derive(Debug)]
pub(super) struct Attachments {
    view: ObjectView<VolumeAttachment>,
    /// Attachments by their names.
    known: FxHashMap<String, KnownAttachment>,
    /// The names of attachments by volume.
    by_volume: FxHashMap<String, Vec<String>>,
    /// The names of attachments by node, and the row of the node when its attachments were counted.
    by_node: FxHashMap<String, (Option<NodeIdx>, Vec<String>)>,
    /// The version of the nodes; `None` before the first count.
    place_version: Option<u64>,
}

#[derive(Debug)]
struct KnownAttachment {
    volume_name: String,
    node_name: String,
    /// The volume and node under which the attachment is counted in [`AttachedVolumes`].
    counted: Option<(VolumeId, NodeIdx)>,
}

impl Attachments {
    pub(super) fn new() -> Self {
        Self {
            view: storage::ATTACHMENT.view(),
            known: FxHashMap::default(),
            by_volume: FxHashMap::default(),
            by_node: FxHashMap::default(),
            place_version: None,
        }
    }

    /// Forgets all counts. The caller must call this method after it emptied the [`AttachedVolumes`].
    pub(super) fn reset(&mut self) {
        self.known.clear();
        self.by_volume.clear();
        self.by_node.clear();
        self.place_version = None;
    }

    pub(super) fn follow(
        &mut self,
        table: &ClusterTable,
        volumes: &ObjectView<CountedVolume>,
        changed_volumes: &Catchup,
        attached: &mut AttachedVolumes,
    ) {
        let changed = self.view.catch_up(table.objects());
        let moved = self.moved(table);
        let is_empty = self.place_version.is_none();
        match (changed, changed_volumes) {
            (Catchup::Some(_) | Catchup::Nothing, Catchup::Everything) | (Catchup::Everything, _) => {
                self.recount(table, volumes, attached);
            }
            _ if is_empty => self.recount(table, volumes, attached),
            (changed, changed_volumes) => {
                let mut names = moved;
                if let Catchup::Some(changed) = changed {
                    names.extend(changed.into_iter().map(|(_, name)| name));
                }
                if let Catchup::Some(changed) = changed_volumes {
                    names.extend(changed.iter().filter_map(|(_, name)| self.by_volume.get(name)).flatten().cloned());
                }
                names.iter().for_each(|name| self.update(name, table, volumes, attached));
            }
        }
        self.place_version = Some(table.place_version());
    }

    /// Attachments to nodes that were added, were removed or got another row.
    fn moved(&self, table: &ClusterTable) -> Vec<String> {
        if self.place_version == Some(table.place_version()) {
            return Vec::new();
        }
        let moved = self.by_node.iter().filter(|(node, (row, _))| *row != row_of(node, table));
        moved.flat_map(|(_, (_, names))| names.iter().cloned()).collect()
    }

    fn recount(&mut self, table: &ClusterTable, volumes: &ObjectView<CountedVolume>, attached: &mut AttachedVolumes) {
        for (volume, node) in self.known.drain().filter_map(|(_, known)| known.counted) {
            attached.count(&volume, node, VolumeHolder::Attachment, -1);
        }
        self.by_volume.clear();
        self.by_node.clear();
        let names: Vec<String> = self.view.iter().map(|(_, name, _)| name.to_owned()).collect();
        names.iter().for_each(|name| self.update(name, table, volumes, attached));
    }

    fn update(
        &mut self,
        name: &str,
        table: &ClusterTable,
        volumes: &ObjectView<CountedVolume>,
        attached: &mut AttachedVolumes,
    ) {
        self.remove(name, attached);
        let Some(attachment) = self.view.get("", name) else { return };
        let Some(volume_name) = attachment.spec.source.persistent_volume_name.clone() else { return };
        let node_name = attachment.spec.node_name.clone();
        let node = row_of(&node_name, table);
        let volume = volumes.get("", &volume_name).filter(|volume| volume.is_csi);
        let counted = volume.and_then(|volume| volume.id.clone()).zip(node);
        if let Some((volume, node)) = &counted {
            attached.count(volume, *node, VolumeHolder::Attachment, 1);
        }
        self.by_volume.entry(volume_name.clone()).or_default().push(name.to_owned());
        let (row, names) = self.by_node.entry(node_name.clone()).or_default();
        *row = node;
        names.push(name.to_owned());
        self.known.insert(name.to_owned(), KnownAttachment { volume_name, node_name, counted });
    }

    fn remove(&mut self, name: &str, attached: &mut AttachedVolumes) {
        let Some(known) = self.known.remove(name) else { return };
        if let Some((volume, node)) = known.counted {
            attached.count(&volume, node, VolumeHolder::Attachment, -1);
        }
        if let Some(names) = self.by_volume.get_mut(&known.volume_name) {
            names.retain(|other| other != name);
            if names.is_empty() {
                self.by_volume.remove(&known.volume_name);
            }
        }
        if let Some((_, names)) = self.by_node.get_mut(&known.node_name) {
            names.retain(|other| other != name);
            if names.is_empty() {
                self.by_node.remove(&known.node_name);
            }
        }
    }
}

fn row_of(node: &str, table: &ClusterTable) -> Option<NodeIdx> {
    table.symbols.lookup(node).and_then(|name| table.find(name))
}
