//! VolumeBinding as a component.

berth_sdk::export!(berth_builtins::VolumeBinding: sync, cycle, pre_filter, filter, pre_score, score, reserve, pre_bind, sign);
