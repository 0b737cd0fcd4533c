//! The Permit plugins that hold a pod, until all of them allow the pod, one of them rejects the pod, or the time is
//! over.

use std::{sync::Arc, time::Duration};

use berth_model::{ObjectKey, Time, duration::render_duration};

use super::object_wait::ObjectWait;

/// The plugins that still hold a pod. They are kept by name, because plugins may be replaced while the pod waits.
#[derive(Debug)]
pub(crate) struct PermitWaits {
    since: Time,
    plugins: Vec<PermitWait>,
}

#[derive(Debug)]
pub(crate) struct PermitWait {
    plugin: Arc<str>,
    /// The longest wait in milliseconds.
    timeout: u64,
    deadline: Time,
    /// The objects after whose changes the plugin is asked again; `None` if the plugin did not ask for this.
    objects: Option<ObjectWait>,
    /// The text of the refusal, if the plugin asked for an effect together with its verdict and the effect was refused.
    refused: Option<String>,
}

impl PermitWait {
    /// The end of the plugin's time, according to its verdict or its wait for objects.
    fn ends(&self) -> Time {
        self.objects.as_ref().map_or(self.deadline, |objects| self.deadline.min(objects.deadline))
    }
}

/// A plugin that holds the pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PermitHolder<'a> {
    pub(crate) plugin: &'a Arc<str>,
    /// The end of the plugin's time.
    pub(crate) until: Time,
    /// The objects after whose changes the plugin is asked again.
    pub(crate) objects: Option<&'a ObjectWait>,
    /// The text of the refusal of an effect of the plugin.
    pub(crate) refused: Option<&'a str>,
}

/// A plugin that held the pod for too long.
pub(crate) struct PermitTimeout {
    pub(crate) plugin: Arc<str>,
    /// The text for the pod.
    pub(crate) reason: String,
}

impl PermitWaits {
    /// The plugins that hold the pod, each with the milliseconds for which the plugin may hold the pod.
    pub(crate) fn new(plugins: impl IntoIterator<Item = (Arc<str>, u64)>, now: Time) -> Self {
        let wait =
            |(plugin, timeout)| PermitWait { plugin, timeout, deadline: now + timeout, objects: None, refused: None };
        Self { since: now, plugins: plugins.into_iter().map(wait).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.plugins.is_empty()
    }

    pub(crate) fn holds(&self, plugin: &str) -> bool {
        self.plugins.iter().any(|wait| *wait.plugin == *plugin)
    }

    /// The time at which the pod began to wait.
    pub(crate) fn since(&self) -> Time {
        self.since
    }

    /// The milliseconds since the pod began to wait.
    pub(crate) fn waited(&self, now: Time) -> u64 {
        now.since(self.since)
    }

    pub(crate) fn deadlines(&self) -> impl Iterator<Item = Time> {
        self.plugins.iter().map(PermitWait::ends)
    }

    pub(crate) fn object_waits(&self) -> impl Iterator<Item = &ObjectWait> {
        self.plugins.iter().filter_map(|wait| wait.objects.as_ref())
    }

    /// Asks the plugin again when one of these objects has changed. The plugin holds the pod.
    pub(crate) fn watch(&mut self, plugin: &str, objects: ObjectWait) {
        if let Some(wait) = self.plugins.iter_mut().find(|wait| *wait.plugin == *plugin) {
            wait.objects = Some(objects);
        }
    }

    /// Ends the plugin's wait for objects. The plugin still holds the pod.
    pub(crate) fn unwatch(&mut self, plugin: &str) -> Option<ObjectWait> {
        self.plugins.iter_mut().find(|wait| *wait.plugin == *plugin)?.objects.take()
    }

    /// The plugins that are asked again because this object changed.
    pub(crate) fn object_changed(&self, object: &ObjectKey) -> Vec<Arc<str>> {
        let waits_for = |wait: &&PermitWait| wait.objects.as_ref().is_some_and(|it| it.objects.contains(object));
        self.plugins.iter().filter(waits_for).map(|wait| Arc::clone(&wait.plugin)).collect()
    }

    /// Notes that the plugin was asked again and holds the pod for at most `timeout` milliseconds from `now`. An
    /// earlier deadline stays in force.
    pub(crate) fn hold_on(&mut self, plugin: &str, timeout: u64, now: Time) {
        if let Some(wait) = self.plugins.iter_mut().find(|wait| *wait.plugin == *plugin)
            && now + timeout < wait.deadline
        {
            (wait.timeout, wait.deadline) = (now.since(self.since) + timeout, now + timeout);
        }
    }

    /// The plugins that hold the pod.
    pub(crate) fn holders(&self) -> impl Iterator<Item = PermitHolder<'_>> {
        self.plugins.iter().map(|wait| PermitHolder {
            plugin: &wait.plugin,
            until: wait.ends(),
            objects: wait.objects.as_ref(),
            refused: wait.refused.as_deref(),
        })
    }

    /// Whether the plugin holds the pod, and no refusal of its effects is noted yet.
    pub(crate) fn hears_refusals_of(&self, plugin: &str) -> bool {
        self.plugins.iter().any(|wait| *wait.plugin == *plugin && wait.refused.is_none())
    }

    /// Notes that an effect of the plugin was refused. The refusal may be the reason why the pod continues to wait.
    /// Returns whether the refusal is the first.
    pub(crate) fn note_refused(&mut self, plugin: &str, message: String) -> bool {
        let hears = |wait: &&mut PermitWait| *wait.plugin == *plugin && wait.refused.is_none();
        let wait = self.plugins.iter_mut().find(hears);
        wait.map(|wait| wait.refused = Some(message)).is_some()
    }

    /// Notes that the plugin releases the pod. Returns whether the plugin held the pod.
    pub(crate) fn allow(&mut self, plugin: &str) -> bool {
        let position = self.plugins.iter().position(|wait| *wait.plugin == *plugin);
        position.map(|position| self.plugins.remove(position)).is_some()
    }

    /// The plugin whose wait timed out at `deadline`, with the reason. If the plugin's wait for objects ended at this
    /// time, the reason is the plugin's own text.
    pub(crate) fn timed_out(&self, deadline: Time) -> Option<PermitTimeout> {
        let wait = self.plugins.iter().find(|wait| wait.ends() == deadline)?;
        let own_words = wait.objects.as_ref().filter(|it| it.deadline == deadline && !it.timeout_message.is_empty());
        let reason = own_words.map_or_else(
            || {
                let waited = render_duration(Duration::from_millis(wait.timeout));
                format!("rejected due to timeout after waiting {waited} at plugin {}", wait.plugin)
            },
            |objects| objects.timeout_message.clone(),
        );
        Some(PermitTimeout { plugin: Arc::clone(&wait.plugin), reason })
    }
}
