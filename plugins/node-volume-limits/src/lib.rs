//! NodeVolumeLimits as a component.

berth_sdk::export!(berth_builtins::NodeVolumeLimits: sync, cycle, pre_filter, filter, sign);
