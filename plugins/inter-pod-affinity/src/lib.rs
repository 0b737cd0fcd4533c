//! InterPodAffinity as a component.

berth_sdk::export!(berth_builtins::InterPodAffinity: sync, cycle, pre_filter, filter, pre_score, score, normalize_score, sign);
