//! InterPodAffinity as a component.

berth_sdk::export!(berth_builtins::InterPodAffinity);
