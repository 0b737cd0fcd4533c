//! NodeUnschedulable as a component.

berth_sdk::export!(berth_builtins::NodeUnschedulable);
