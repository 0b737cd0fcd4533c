//! NodeResourcesFit as a component.

berth_sdk::export!(berth_builtins::NodeResourcesFit);
