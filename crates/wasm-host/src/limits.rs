//! The limits of a plugin, and the meter that wasmtime asks while a component runs.

use std::time::Duration;

use berth_framework::Share;
use wasmtime::ResourceLimiter;

/// The treatment of pods about which a plugin is not asked, because the plugin used up its share of the scheduling
/// thread or keeps faulting over these pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenNotAsked {
    /// The pods wait.
    Fail,
    /// The pods are scheduled without the plugin.
    Pass,
}

/// The limits of one plugin. Exceeding time, memory or output is a fault, which costs the instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The time of one call at an extension point, or of one small delta. The scheduling thread waits for the call; a
    /// good plugin takes microseconds. Like all time limits of this type, it is processor time of the calling thread,
    /// checked every 5 ms.
    pub call_timeout: Duration,
    /// The time of `describe`, `configure`, `snapshot`, `restore` and a full delta, each of which happens once for an
    /// instance.
    pub lifecycle_timeout: Duration,
    /// The time of the calls that `lifecycle_timeout` limits, if the scheduling thread waits for them: at a start,
    /// after a change of arguments, and for state that one binary passes to the next. If the instance fails, another
    /// instance is made on another thread. For the program's own components, this limit equals `lifecycle_timeout`.
    pub scheduling_thread_timeout: Duration,
    /// The time of `post-filter`, including the dry runs that the component asks for.
    pub post_filter_timeout: Duration,
    /// The share of the scheduling thread that all calls of the plugin together may use. `None` means no bound: the
    /// program's own components have no bound, like native plugins.
    pub share: Option<Share>,
    /// The treatment of pods about which the plugin is not asked.
    pub when_not_asked: WhenNotAsked,
    /// The bytes of all linear memories of one instance together. A replica of 15,000 nodes takes 2 MiB as columns and
    /// 22 MiB as strings.
    pub memory_bytes: usize,
    /// The elements of all tables together. The elements are mostly functions that can be called indirectly.
    pub table_elements: usize,
    /// The bytes that the host copies out of one answer. Scores of 100,000 nodes take 800 kB.
    pub output_bytes: usize,
    /// The maximum bytes of one reason, note or log line. Kubernetes keeps 1 kB of an event's note.
    pub text_bytes: usize,
    /// The maximum number of reasons in one status, or of effects in one answer.
    pub list_items: usize,
    /// The log lines in each second. Further lines are dropped and counted.
    pub log_lines_per_second: u32,
    /// The number of names of the plugin's own counters. Further names are not recorded.
    pub counters: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            call_timeout: Duration::from_millis(50),
            lifecycle_timeout: Duration::from_secs(10),
            scheduling_thread_timeout: Duration::from_secs(10),
            post_filter_timeout: Duration::from_secs(1),
            share: None,
            when_not_asked: WhenNotAsked::Fail,
            memory_bytes: 256 << 20,
            table_elements: 1 << 20,
            output_bytes: 16 << 20,
            text_bytes: 4096,
            list_items: 1024,
            log_lines_per_second: 20,
            counters: 64,
        }
    }
}

/// The time limit of all portions of a delta together. A portion has the time that the portions before it left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeltaTime {
    pub(crate) whole: Duration,
    /// The setting with this time limit.
    pub(crate) setting: &'static str,
}

impl Limits {
    /// The time limit of a call that happens once for an instance. The limit depends on the calling thread.
    pub(crate) fn once_an_instance(&self) -> Duration {
        self.whole_delta().whole
    }

    /// The time limit of all portions of a full delta together. The limit depends on the calling thread. An instance
    /// gets one full delta.
    pub(crate) fn whole_delta(&self) -> DeltaTime {
        if berth_threads::is_scheduling() && self.scheduling_thread_timeout < self.lifecycle_timeout {
            DeltaTime { whole: self.scheduling_thread_timeout, setting: "schedulingThreadMilliseconds" }
        } else {
            DeltaTime { whole: self.lifecycle_timeout, setting: "lifecycleMilliseconds" }
        }
    }
}

/// The meter of one instance's memory. The meter traps a call that asks for too much memory.
#[derive(Debug)]
pub(crate) struct Meter {
    memory_limit: usize,
    table_limit: usize,
    memory: usize,
    elements: usize,
    /// The request that was refused.
    exceeded: Option<String>,
}

impl Meter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            memory_limit: limits.memory_bytes,
            table_limit: limits.table_elements,
            memory: 0,
            elements: 0,
            exceeded: None,
        }
    }

    /// The bytes of linear memory in use.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    pub(crate) fn exceeded(&self) -> Option<&str> {
        self.exceeded.as_deref()
    }

    fn refuse(&mut self, what: String) -> wasmtime::Result<bool> {
        self.exceeded = Some(what.clone());
        Err(wasmtime::Error::msg(what))
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.memory.saturating_sub(current).saturating_add(desired);
        if total > self.memory_limit {
            return self.refuse(format!("asked for {total} bytes of memory (limit {})", self.memory_limit));
        }
        self.memory = total;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        self.exceeded = Some(format!("got no memory: {error}"));
        Err(error)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.elements.saturating_sub(current).saturating_add(desired);
        if total > self.table_limit {
            return self.refuse(format!("asked for {total} table elements (limit {})", self.table_limit));
        }
        self.elements = total;
        Ok(true)
    }

    fn instances(&self) -> usize {
        100
    }

    fn tables(&self) -> usize {
        100
    }

    fn memories(&self) -> usize {
        100
    }
}
