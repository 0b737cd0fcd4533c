//! The changes that a replica has missed, column by column.

use std::{collections::BTreeSet, sync::Arc};

use berth_framework::{DeltaSource, Needs, ObjectKind};
use berth_model::{
    Column, ColumnChange, ColumnData, Delta, Lists, NodeIdx, ObjectChange, ObjectKey, PlacedPod, PodIdx,
    ResourceColumns, Sym,
    api::StringMap,
    cluster_table::{ResourceTable, at},
};

use super::Cache;
use crate::change_log::Change;

impl DeltaSource for Cache {
    fn delta_since(&self, needs: &Needs, generation: u64, symbols_position: u64) -> Delta {
        let symbols = self.table.symbols.since(symbols_position);
        let symbols = symbols.into_iter().map(|(sym, text)| (sym, text.to_owned())).collect();
        let mut delta = match self.changed_since(needs, generation) {
            Some(delta) => delta,
            None => self.everything(needs),
        };
        if needs.columns.contains(Column::Taints) {
            self.announce_taint_sets(if delta.full { 0 } else { generation }, &mut delta);
        }
        delta.symbols = symbols;
        delta.symbols_position = self.table.symbols.position();
        delta.generation = self.log.generation();
        delta
    }

    fn generation(&self) -> u64 {
        self.log.generation()
    }
}

impl Cache {
    fn everything(&self, needs: &Needs) -> Delta {
        let rows: Vec<NodeIdx> = self.table.nodes().iter().collect();
        let wanted = |key: &ObjectKey| wants(&needs.objects, key);
        let objects = self.objects.iter().filter(|(key, _)| wanted(key));
        let mut delta = Delta {
            full: true,
            objects: objects.map(|(key, json)| key.change(Some(json.clone()))).collect(),
            ..Delta::default()
        };
        for column in needs.columns.iter() {
            self.send_column(column, rows.clone(), needs, &mut delta);
        }
        if needs.pods {
            let pods = self.table.pods().iter();
            delta.pods_placed = pods.map(|(idx, pod, node)| PlacedPod { idx, node, pod: Arc::clone(pod) }).collect();
        }
        delta.added = rows;
        delta
    }

    /// The changes after `generation`; `None` when the log does not reach back that far.
    fn changed_since(&self, needs: &Needs, generation: u64) -> Option<Delta> {
        let mut delta = Delta::default();
        let mut rows: [Vec<NodeIdx>; Column::ALL.len()] = Default::default();
        let mut objects: BTreeSet<&ObjectKey> = BTreeSet::new();
        let mut pods: BTreeSet<PodIdx> = BTreeSet::new();
        for (at, change) in self.log.since(generation)? {
            match change {
                Change::Added(node) if self.log.is_newest_addition(*node, at) => {
                    if self.table.nodes().contains(*node) {
                        delta.added.push(*node);
                    }
                }
                Change::Removed(node) if self.log.is_newest_removal(*node, at) => delta.removed.push(*node),
                Change::Added(_) | Change::Removed(_) => {}
                Change::Columns(node, columns) => {
                    if !self.table.nodes().contains(*node) {
                        continue;
                    }
                    for column in columns.iter() {
                        if needs.columns.contains(column)
                            && self.log.is_newest(*node, column, at)
                            && let Some(rows) = rows.get_mut(column.index())
                        {
                            rows.push(*node);
                        }
                    }
                }
                Change::Pod(idx) => {
                    if needs.pods {
                        pods.insert(*idx);
                    }
                }
                Change::Object(key) => {
                    if wants(&needs.objects, key) {
                        objects.insert(key);
                    }
                }
            }
        }
        for (column, rows) in Column::ALL.into_iter().zip(rows) {
            if !rows.is_empty() {
                self.send_column(column, rows, needs, &mut delta);
            }
        }
        delta.objects = objects.into_iter().map(|key| self.object_change(key)).collect();
        for &idx in &pods {
            if let Some((pod, node)) = self.table.pods().get(idx) {
                delta.pods_placed.push(PlacedPod { idx, node, pod: Arc::clone(pod) });
            }
        }
        delta.pods_removed = pods.into_iter().collect();
        Some(delta)
    }

    fn object_change(&self, key: &ObjectKey) -> ObjectChange {
        key.change(self.objects.get(key).cloned())
    }

    /// Adds the values of `column` at `rows`, and the image sizes that a replica needs to read these values.
    fn send_column(&self, column: Column, rows: Vec<NodeIdx>, needs: &Needs, delta: &mut Delta) {
        let table = &self.table;
        let data = match column {
            Column::Name => ColumnData::Name(rows.iter().map(|&row| table.name(row)).collect()),
            Column::Unschedulable => {
                ColumnData::Unschedulable(rows.iter().map(|&row| table.unschedulable().contains(row)).collect())
            }
            Column::Labels => ColumnData::Labels(self.labels(&rows, &needs.label_keys)),
            Column::Taints => ColumnData::Taints(rows.iter().map(|&row| table.taint_set_id(row)).collect()),
            Column::Allocatable => ColumnData::Allocatable(resources(table.allocatable(), &rows)),
            Column::Requested => ColumnData::Requested(resources(table.requested(), &rows)),
            Column::NonZeroRequested => ColumnData::NonZeroRequested {
                milli_cpu: gather(table.non_zero_cpu(), &rows),
                memory: gather(table.non_zero_memory(), &rows),
            },
            Column::PodCount => ColumnData::PodCount(gather(table.pod_counts(), &rows)),
            Column::Images => {
                let lists = lists(&rows, |row| table.images().of(row));
                self.announce_image_sizes(&lists.items, delta);
                ColumnData::Images(lists)
            }
            Column::HostPorts => ColumnData::HostPorts(lists(&rows, |row| table.host_ports(row))),
            Column::DeclaredFeatures => ColumnData::DeclaredFeatures(lists(&rows, |row| table.declared_features(row))),
            Column::Annotations => ColumnData::Annotations(self.annotations(&rows, &needs.annotation_keys)),
        };
        delta.columns.push(ColumnChange { rows, data });
    }

    /// The labels of `rows` whose keys are in `keys`. If `keys` is empty, all labels are returned.
    fn labels(&self, rows: &[NodeIdx], keys: &[String]) -> Lists<(Sym, Sym)> {
        if keys.is_empty() {
            return lists(rows, |row| self.table.labels().of(row));
        }
        let keys: Vec<Sym> = keys.iter().filter_map(|key| self.table.symbols.lookup(key)).collect();
        let mut labels = Lists::default();
        for &row in rows {
            labels.push(self.table.labels().of(row).iter().filter(|(key, _)| keys.contains(key)).copied());
        }
        labels
    }

    fn annotations(&self, rows: &[NodeIdx], keys: &[String]) -> Vec<Arc<StringMap>> {
        let wanted = |row: &NodeIdx| {
            let all = self.table.annotations(*row);
            let known = keys.iter().filter_map(|key| all?.get_key_value(key));
            Arc::new(known.map(|(key, value)| (key.clone(), value.clone())).collect())
        };
        rows.iter().map(wanted).collect()
    }

    /// Sends every taint set that was made since `generation`, even if no changed row has the set. The node with the
    /// set may be gone, and another node may get the set later.
    fn announce_taint_sets(&self, generation: u64, delta: &mut Delta) {
        for (id, taints) in (0u32..).zip(self.table.taint_sets()) {
            if self.log.taint_set_is_new(id as usize, generation) {
                delta.taint_sets.push((id, taints.clone()));
            }
        }
    }

    /// Sends the size of every image on a changed row, even if the size was sent before. A replica that dropped the
    /// image and gets the image again has lost the size.
    fn announce_image_sizes(&self, names: &[Sym], delta: &mut Delta) {
        let names: BTreeSet<Sym> = names.iter().copied().collect();
        let size = |name: Sym| self.table.images().get(name).map(|image| (name, image.size));
        delta.image_sizes.extend(names.into_iter().filter_map(size));
    }
}

fn wants(kinds: &[ObjectKind], key: &ObjectKey) -> bool {
    kinds.iter().any(|kind| kind.kind == key.kind && kind.api_version == key.api_version)
}

fn gather(column: &[i64], rows: &[NodeIdx]) -> Vec<i64> {
    rows.iter().map(|&row| at(column, row)).collect()
}

fn resources(table: &ResourceTable, rows: &[NodeIdx]) -> ResourceColumns {
    let mut names: Vec<Sym> = table.names().collect();
    names.sort_unstable();
    let values = names.iter().map(|&name| gather(table.column(name), rows)).collect();
    ResourceColumns { names, values }
}

fn lists<'a, T: Clone + 'a>(rows: &[NodeIdx], of: impl Fn(NodeIdx) -> &'a [T]) -> Lists<T> {
    let mut lists = Lists::default();
    for &row in rows {
        lists.push(of(row).iter().cloned());
    }
    lists
}
