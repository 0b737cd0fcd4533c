//! PrioritySort: the queue returns pods of higher priority first. Among pods of the same priority, it returns the pod
//! that was queued first.

use berth_framework::{ConfigureError, QueueSort};
use berth_model::Pod;

use crate::{
    args::{self, NoArgs},
    built_in::{BuiltIn, Descriptor, plugin},
};

/// Orders activeQ by priority, then by the time of queueing.
#[derive(Debug, Default)]
pub struct PrioritySort;

impl BuiltIn for PrioritySort {
    const DESCRIPTOR: Descriptor =
        Descriptor { name: "PrioritySort", columns: &[], events_to_register: &[], ..Descriptor::BLANK };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        args::parse::<NoArgs>(Self::NAME, args)?;
        Ok(Self)
    }
}

plugin!(PrioritySort: QueueSort);

impl QueueSort for PrioritySort {
    fn sort_key(&mut self, pod: &Pod, queued_at: i64) -> (i64, i64) {
        (-i64::from(pod.priority), queued_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_priority_comes_first_then_earlier_queueing() {
        let key = |priority, at| PrioritySort.sort_key(&Pod { priority, ..Pod::default() }, at);
        assert!(key(10, 5) < key(9, 1));
        assert!(key(10, 5) < key(10, 6));
        assert!(key(0, 0) < key(-1, 0));
        assert!(key(i32::MAX, 0) < key(i32::MIN, 0));
    }
}
