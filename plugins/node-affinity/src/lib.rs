//! NodeAffinity as a component.

berth_sdk::export!(berth_builtins::NodeAffinity: sync, cycle, pre_filter, filter, pre_score, score, normalize_score, sign);
