//! NodeName as a component.

berth_sdk::export!(berth_builtins::NodeName);
