//! DynamicResources as a component.

berth_sdk::export!(berth_builtins::DynamicResources: sync, cycle, pre_enqueue, pre_filter, filter, post_filter, score,
    normalize_score, reserve, pre_bind, queueing_hint, sign, state);
