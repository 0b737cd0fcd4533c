//! The operator's limits in the form of the engine and the scheduling thread.

use std::{collections::BTreeMap, time::Duration};

use berth_config::{FailurePolicy, FileSettings, PluginSettings, SchedulingThreadSettings};
use berth_framework::{Share, TimeBounds};
use berth_wasm_host::{CompileLimits, FileLimits, Limits, WhenNotAsked};

use crate::rules::Rules;

/// The limits of plugins that have an entry, by name.
pub(crate) fn plugin_limits(rules: &Rules) -> BTreeMap<String, Limits> {
    rules.settings.named().map(|name| (name.to_string(), limits(&rules.plugin(name)))).collect()
}

/// The limits of a plugin's binaries.
pub fn limits(settings: &PluginSettings) -> Limits {
    let PluginSettings { limits, failure_policy, .. } = settings;
    let size = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
    Limits {
        call_timeout: limits.call_time,
        lifecycle_timeout: limits.lifecycle_time,
        scheduling_thread_timeout: limits.scheduling_thread_time,
        post_filter_timeout: limits.post_filter_time,
        share: Some(Share { per_second: limits.time_per_second, burst: limits.burst }),
        when_not_asked: match failure_policy {
            FailurePolicy::Fail => WhenNotAsked::Fail,
            FailurePolicy::Ignore => WhenNotAsked::Pass,
        },
        memory_bytes: size(limits.memory_bytes),
        output_bytes: size(limits.output_bytes),
        list_items: size(u64::from(limits.output_elements)),
        log_lines_per_second: limits.log_lines_per_second,
        ..Limits::default()
    }
}

pub(crate) fn file_limits(files: FileSettings) -> FileLimits {
    let compile = CompileLimits { cpu_time: files.compile_cpu_time, memory_bytes: files.compile_memory_bytes };
    FileLimits { max_bytes: files.max_bytes, compile }
}

/// The shares of the scheduling thread's time for plugins and namespaces. A plugin or namespace may save up the time of
/// one second at most.
pub(crate) fn time_bounds(settings: SchedulingThreadSettings) -> TimeBounds {
    let share =
        |per_second: Duration| (per_second < Duration::from_secs(1)).then_some(Share { per_second, burst: per_second });
    TimeBounds {
        all_plugins: share(settings.plugins_per_second),
        namespace: share(settings.namespace_per_second),
        search: Some(settings.search),
    }
}
