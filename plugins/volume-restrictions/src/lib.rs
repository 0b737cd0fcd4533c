//! VolumeRestrictions as a component.

berth_sdk::export!(berth_builtins::VolumeRestrictions: sync, cycle, pre_filter, filter, sign);
