//! The usage of nodes by the pods on them, without the columns around it.

use berth_model::{ColumnData, Delta, ResourceColumns, Sym};

use crate::bindings::{points::sync_pods::Usage, types};

/// The maximum number of rows for which the separate form is worthwhile. A pod changes one or two rows.
const MAX_ROWS: usize = 8;

/// The content of the delta, row by row, if it contains only the usage of some nodes.
pub(crate) fn only_usage(delta: &Delta) -> Option<Vec<Usage>> {
    // The pattern names every field, so that a new field is not forgotten.
    let Delta {
        generation: _,
        full,
        symbols,
        symbols_position: _,
        taint_sets,
        image_sizes,
        removed,
        added,
        columns,
        pods_removed,
        pods_placed,
        objects,
    } = delta;
    let is_without_more = !full
        && symbols.is_empty()
        && taint_sets.is_empty()
        && image_sizes.is_empty()
        && removed.is_empty()
        && added.is_empty()
        && pods_removed.is_empty()
        && pods_placed.is_empty()
        && objects.is_empty();
    if !is_without_more {
        return None;
    }
    let mut usage: Vec<Usage> = Vec::new();
    for change in columns {
        for (at, row) in change.rows.iter().enumerate() {
            let usage = entry(&mut usage, row.0)?;
            match &change.data {
                ColumnData::Requested(columns) => usage.requested = Some(resources(columns, at)?),
                ColumnData::NonZeroRequested { milli_cpu, memory } => {
                    let (milli_cpu, memory) = (*milli_cpu.get(at)?, *memory.get(at)?);
                    usage.non_zero_requested = Some(types::NonZero { milli_cpu, memory });
                }
                ColumnData::PodCount(counts) => usage.pod_count = Some(*counts.get(at)?),
                ColumnData::Name(_)
                | ColumnData::Unschedulable(_)
                | ColumnData::Labels(_)
                | ColumnData::Taints(_)
                | ColumnData::Allocatable(_)
                | ColumnData::Images(_)
                | ColumnData::HostPorts(_)
                | ColumnData::DeclaredFeatures(_)
                | ColumnData::Annotations(_) => return None,
            }
        }
    }
    Some(usage)
}

fn entry(usage: &mut Vec<Usage>, node: u32) -> Option<&mut Usage> {
    let at = match usage.iter().position(|usage| usage.node == node) {
        Some(at) => at,
        None if usage.len() == MAX_ROWS => return None,
        None => {
            usage.push(Usage { node, requested: None, non_zero_requested: None, pod_count: None });
            usage.len() - 1
        }
    };
    usage.get_mut(at)
}

fn resources(columns: &ResourceColumns, at: usize) -> Option<types::Resources> {
    let mut resources = types::Resources { milli_cpu: 0, memory: 0, ephemeral_storage: 0, scalars: Vec::new() };
    for (name, values) in columns.names.iter().zip(&columns.values) {
        let amount = *values.get(at)?;
        match *name {
            Sym::CPU => resources.milli_cpu = amount,
            Sym::MEMORY => resources.memory = amount,
            Sym::EPHEMERAL_STORAGE => resources.ephemeral_storage = amount,
            _ if amount == 0 => {}
            scalar => resources.scalars.push((scalar.0, amount)),
        }
    }
    Some(resources)
}

#[cfg(test)]
mod tests {
    use berth_model::{ColumnChange, NodeIdx, PodIdx};

    use super::*;

    fn change(rows: &[u32], data: ColumnData) -> ColumnChange {
        ColumnChange { rows: rows.iter().copied().map(NodeIdx).collect(), data }
    }

    fn with(columns: Vec<ColumnChange>) -> Delta {
        Delta { generation: 7, columns, ..Delta::default() }
    }

    #[test]
    fn columns_of_usage_are_told_row_by_row() {
        let requested = ResourceColumns {
            names: vec![Sym::CPU, Sym(40), Sym(41)],
            values: vec![vec![1, 2], vec![3, 0], vec![0, 0]],
        };
        let usage = only_usage(&with(vec![
            change(&[5, 9], ColumnData::Requested(requested)),
            change(&[9], ColumnData::NonZeroRequested { milli_cpu: vec![4], memory: vec![5] }),
            change(&[5], ColumnData::PodCount(vec![6])),
            change(&[5], ColumnData::PodCount(vec![7])),
        ]));
        let usage = usage.unwrap();
        let [first, second] = usage.as_slice() else { panic!("{usage:?}") };
        let amounts = |usage: &Usage| {
            let requested = usage.requested.as_ref().unwrap();
            (usage.node, requested.milli_cpu, requested.memory, requested.scalars.clone())
        };
        assert_eq!(amounts(first), (5, 1, 0, vec![(40, 3)]));
        assert_eq!(amounts(second), (9, 2, 0, vec![]));
        assert!(first.non_zero_requested.is_none() && first.pod_count == Some(7));
        let non_zero = second.non_zero_requested.unwrap();
        assert_eq!((non_zero.milli_cpu, non_zero.memory, second.pod_count), (4, 5, None));
    }

    #[test]
    fn what_brings_more_goes_another_way() {
        let counts = |n_rows: u32| change(&Vec::from_iter(0..n_rows), ColumnData::PodCount(vec![1; n_rows as usize]));
        let full_rows = u32::try_from(MAX_ROWS).unwrap();
        assert_eq!(only_usage(&with(vec![counts(full_rows)])).map(|usage| usage.len()), Some(MAX_ROWS));
        assert!(only_usage(&with(vec![counts(full_rows + 1)])).is_none());
        assert!(only_usage(&with(vec![counts(1), change(&[0], ColumnData::Unschedulable(vec![true]))])).is_none());
        assert!(only_usage(&Delta { pods_removed: vec![PodIdx(0)], ..with(vec![counts(1)]) }).is_none());
        assert!(only_usage(&Delta { full: true, ..with(vec![counts(1)]) }).is_none());
        let symbols = vec![(Sym(40), "disk".to_owned())];
        assert!(only_usage(&Delta { symbols, ..with(vec![counts(1)]) }).is_none());
    }
}
