//! NodeResourcesFit as a component.

berth_sdk::export!(berth_builtins::NodeResourcesFit: sync, cycle, pre_filter, filter, pre_score, score, sign);
