//! SchedulingGates: a pod with scheduling gates does not enter activeQ (KEP-3521).

use berth_framework::{ClusterEvent, ConfigureError, HintCall, PreEnqueue, QueueingHint, Status};
use berth_model::{ClusterTable, Pod};

use crate::{
    args::{self, NoArgs},
    built_in::{BuiltIn, Descriptor, plugin},
    hints,
};

/// Rejects pods at PreEnqueue if their `spec.schedulingGates` is not empty.
#[derive(Debug, Default)]
pub struct SchedulingGates;

impl BuiltIn for SchedulingGates {
    const DESCRIPTOR: Descriptor = Descriptor {
        name: "SchedulingGates",
        columns: &[],
        events_to_register: &[("Pod", ClusterEvent::UPDATE_POD_SCHEDULING_GATES_ELIMINATED)],
        ..Descriptor::BLANK
    };

    fn new(args: &str) -> Result<Self, ConfigureError> {
        args::parse::<NoArgs>(Self::NAME, args)?;
        Ok(Self)
    }
}

plugin!(SchedulingGates: PreEnqueue, QueueingHint; Reuse);

impl PreEnqueue for SchedulingGates {
    fn pre_enqueue(&mut self, pod: &Pod, _table: &ClusterTable) -> Status {
        if pod.scheduling_gates.is_empty() {
            return Status::success();
        }
        Status::unresolvable(format!("waiting for scheduling gates: [{}]", pod.scheduling_gates.join(" ")))
    }
}

impl QueueingHint for SchedulingGates {
    fn queueing_hint(&mut self, call: &HintCall<'_>) -> bool {
        hints::is_own_update(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_named_in_order() {
        let mut pod = Pod::default();
        let table = ClusterTable::default();
        assert!(SchedulingGates.pre_enqueue(&pod, &table).is_success());
        pod.scheduling_gates = ["b".into(), "a".into()].into();
        assert_eq!(
            SchedulingGates.pre_enqueue(&pod, &table),
            Status::unresolvable("waiting for scheduling gates: [b a]")
        );
    }
}
