//! PrioritySort as a component.

berth_sdk::export!(berth_builtins::PrioritySort);
