//! What a plugin may use, and the part of it that wasmtime asks about while a component runs.

use std::time::Duration;

use berth_framework::Share;
use wasmtime::ResourceLimiter;

/// What becomes of pods about which a plugin is not asked: it has used up its share of the scheduling thread, or keeps
/// faulting over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenNotAsked {
    /// The pods wait.
    Fail,
    /// The pods are scheduled without the plugin.
    Pass,
}

/// What one plugin may use. Exceeding time, memory or output is a fault: it costs the instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The time of one call at an extension point or one small delta. The scheduling thread waits for it; a good plugin
    /// takes microseconds. As all limits of time here it is processor time of the calling thread, looked at every 5 ms.
    pub call_timeout: Duration,
    /// The time of `describe`, `configure`, `snapshot`, `restore` and a full delta, which happen once an instance.
    pub lifecycle_timeout: Duration,
    /// The time of these calls where the scheduling thread waits for them: at a start, after other arguments, and for
    /// state that goes from one binary to the next. A failed instance is made again on a thread of its own. The
    /// program's own components have `lifecycle_timeout` here too.
    pub scheduling_thread_timeout: Duration,
    /// The time of `post-filter`, with the dry runs that the component asks for.
    pub post_filter_timeout: Duration,
    /// The share of the scheduling thread that all calls of the plugin together may take. `None` is no bound: the program's own
    /// components have none, as native plugins have none.
    pub share: Option<Share>,
    /// What becomes of pods about which the plugin is not asked.
    pub when_not_asked: WhenNotAsked,
    /// All linear memories of one instance together. A replica of 15,000 nodes takes 2 MiB as columns and 22 MiB as
    /// strings.
    pub memory_bytes: usize,
    /// Elements of all tables together: functions that can be called indirectly, mostly.
    pub table_elements: usize,
    /// Bytes that the host copies out of one answer. Scores of 100,000 nodes take 800 kB.
    pub output_bytes: usize,
    /// One reason, note or log line. Kubernetes keeps 1 kB of an event's note.
    pub text_bytes: usize,
    /// Reasons of one status, effects of one answer.
    pub list_items: usize,
    /// Further lines are dropped and counted.
    pub log_lines_per_second: u32,
    /// Names of own counters; more are not recorded.
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

impl Limits {
    /// The time of what happens once an instance, on the calling thread.
    pub(crate) fn once_an_instance(&self) -> Duration {
        if berth_threads::is_scheduling() {
            self.scheduling_thread_timeout.min(self.lifecycle_timeout)
        } else {
            self.lifecycle_timeout
        }
    }
}

/// Counts the memory of one instance and traps the call that asks for too much.
#[derive(Debug)]
pub(crate) struct Meter {
    memory_limit: usize,
    table_limit: usize,
    memory: usize,
    elements: usize,
    /// What was asked for in vain.
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

    /// Bytes of linear memory in use.
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
