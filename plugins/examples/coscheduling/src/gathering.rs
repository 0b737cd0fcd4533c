//! The group whose members wait for each other.

use berth_sdk::{framework::CycleId, model::PodUid};

use crate::groups::GroupName;

/// At most one group gathers at a time.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    group: Option<GroupName>,
    waiting: Vec<(CycleId, PodUid)>,
}

impl Gathering {
    pub(crate) fn group(&self) -> Option<&GroupName> {
        self.group.as_ref()
    }

    /// Notes that a member has a place. A pod of another group does not join while a group gathers. The other pods of
    /// its group were rejected earlier.
    pub(crate) fn join(&mut self, group: GroupName, cycle: CycleId, uid: &PodUid) {
        if self.group.get_or_insert_with(|| group.clone()) == &group {
            self.waiting.retain(|(_, other)| other != uid);
            self.waiting.push((cycle, uid.clone()));
        }
    }

    pub(crate) fn is_waiting(&self, cycle: CycleId) -> bool {
        self.waiting.iter().any(|(other, _)| *other == cycle)
    }

    /// Notes that a member gave up its place, or is bound.
    pub(crate) fn leave(&mut self, cycle: CycleId) {
        self.waiting.retain(|(other, _)| *other != cycle);
        if self.waiting.is_empty() {
            self.group = None;
        }
    }

    /// Notes that enough members have a place, so that the next group may gather.
    pub(crate) fn complete(&mut self) {
        self.waiting.clear();
        self.group = None;
    }

    /// The uids of the members of `group` that have a place and wait.
    pub(crate) fn waiting_of(&self, group: &GroupName) -> impl Iterator<Item = &PodUid> {
        let is_it = self.group.as_ref() == Some(group);
        self.waiting.iter().filter(move |_| is_it).map(|(_, uid)| uid)
    }
}
