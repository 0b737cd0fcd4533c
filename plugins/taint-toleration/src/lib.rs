//! TaintToleration as a component.

berth_sdk::export!(berth_builtins::TaintToleration: sync, cycle, filter, pre_score, score, normalize_score, sign);
