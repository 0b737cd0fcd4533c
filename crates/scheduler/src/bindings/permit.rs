//! The Permit plugins that hold a pod, until all of them allow it, one rejects it, or time runs out.

use std::{sync::Arc, time::Duration};

use berth_model::{Time, duration::render_duration};

/// The plugins that still hold a pod. By name, since plugins may be replaced meanwhile.
#[derive(Debug)]
pub(crate) struct PermitWaits {
    since: Time,
    plugins: Vec<PermitWait>,
}

#[derive(Debug)]
pub(crate) struct PermitWait {
    plugin: Arc<str>,
    /// Milliseconds.
    timeout: u64,
    deadline: Time,
}

impl PermitWaits {
    /// `plugins` with the milliseconds for which each may hold the pod.
    pub(crate) fn new(plugins: impl IntoIterator<Item = (Arc<str>, u64)>, now: Time) -> Self {
        let wait = |(plugin, timeout)| PermitWait { plugin, timeout, deadline: now + timeout };
        Self { since: now, plugins: plugins.into_iter().map(wait).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.plugins.is_empty()
    }

    pub(crate) fn holds(&self, plugin: &str) -> bool {
        self.plugins.iter().any(|wait| *wait.plugin == *plugin)
    }

    /// When the pod began to wait.
    pub(crate) fn since(&self) -> Time {
        self.since
    }

    /// The plugins that hold the pod, with the time at which each of them will have held it for too long.
    pub(crate) fn plugins(&self) -> impl Iterator<Item = (&Arc<str>, Time)> {
        self.plugins.iter().map(|wait| (&wait.plugin, wait.deadline))
    }

    /// Milliseconds since the pod began to wait.
    pub(crate) fn waited(&self, now: Time) -> u64 {
        now.since(self.since)
    }

    pub(crate) fn deadlines(&self) -> impl Iterator<Item = Time> {
        self.plugins.iter().map(|wait| wait.deadline)
    }

    /// The plugins, and until when each holds the pod.
    pub(crate) fn holders(&self) -> impl Iterator<Item = (&Arc<str>, Time)> {
        self.plugins.iter().map(|wait| (&wait.plugin, wait.deadline))
    }

    /// The plugin lets the pod go. Whether it held it.
    pub(crate) fn allow(&mut self, plugin: &str) -> bool {
        let position = self.plugins.iter().position(|wait| *wait.plugin == *plugin);
        position.map(|position| self.plugins.remove(position)).is_some()
    }

    /// The plugin whose time was out at `deadline`, with the reason that the pod is given.
    pub(crate) fn timed_out(&self, deadline: Time) -> Option<(Arc<str>, String)> {
        let wait = self.plugins.iter().find(|wait| wait.deadline == deadline)?;
        let waited = render_duration(Duration::from_millis(wait.timeout));
        let reason = format!("rejected due to timeout after waiting {waited} at plugin {}", wait.plugin);
        Some((Arc::clone(&wait.plugin), reason))
    }
}
