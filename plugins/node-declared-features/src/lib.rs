//! NodeDeclaredFeatures as a component.

berth_sdk::export!(berth_builtins::NodeDeclaredFeatures: sync, cycle, pre_filter, filter, sign);
