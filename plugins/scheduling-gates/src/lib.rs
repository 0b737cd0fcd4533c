//! SchedulingGates as a component.

berth_sdk::export!(berth_builtins::SchedulingGates);
