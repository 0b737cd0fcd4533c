//! DefaultPreemption as a component.

berth_sdk::export!(berth_builtins::DefaultPreemption: sync, cycle, post_filter, queueing_hint);
