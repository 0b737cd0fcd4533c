//! NodePorts as a component.

berth_sdk::export!(berth_builtins::NodePorts: sync, cycle, pre_filter, filter, sign);
