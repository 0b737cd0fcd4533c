//! Groups that tried in vain rest for a while, all their members together.
//!
//! Without it, two groups that do not both fit would take turns at holding nodes for nothing: each one's failure frees
//! what the other one waits for.

use std::collections::BTreeMap;

use crate::groups::GroupName;

/// The groups that rest, and until when, in milliseconds.
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

    /// There is more room than before: everybody may try.
    pub(crate) fn end_all(&mut self) {
        self.until.clear();
    }
}
