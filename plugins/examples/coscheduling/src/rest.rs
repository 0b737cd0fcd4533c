//! The rest of groups. After a failed attempt of a group, all its members rest for a while.
//!
//! Without the rest, two groups of which only one fits would take turns in holding nodes in vain, because each failure
//! frees the nodes for which the other group waits.

use std::collections::BTreeMap;

use crate::groups::GroupName;

/// The groups that rest, with the end of their rest in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    until: BTreeMap<GroupName, u64>,
}

impl Rest {
    pub(crate) fn begin(&mut self, group: &GroupName, until: u64) {
        self.until.insert(group.clone(), until);
    }

    pub(crate) fn contains(&mut self, group: &GroupName, now: u64) -> bool {
        self.until.retain(|_, until| *until > now);
        self.until.contains_key(group)
    }

    /// Ends all rests, because there is more room than before, and every group may try.
    pub(crate) fn end_all(&mut self) {
        self.until.clear();
    }
}
