//! Pods that Permit plugins hold, until all of them allow it, one rejects it, or time runs out.

use berth_model::{PodUid, Time};
use std::sync::Arc;

use berth_framework::{PluginIdx, Status, run::Refusal};

use crate::{
    binding::{Binding, Setback, Stage},
    metrics::Observation,
    scheduler::Scheduler,
};

/// The plugins that still hold a pod. By name: plugins may be replaced meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    plugins: Vec<Wait>,
    since: Time,
}

#[derive(Debug)]
struct Wait {
    plugin: Arc<str>,
    timeout: u64,
    deadline: Time,
}

impl Waits {
    pub(crate) fn since(&self) -> Time {
        self.since
    }
}

/// How a plugin's wait ends.
pub(crate) enum Resolution<'a> {
    Allow {
        plugin: &'a str,
    },
    Reject {
        plugin: &'a str,
        reason: String,
    },
    /// The pod is being deleted.
    Removed,
}

impl Scheduler {
    /// Registers the pod, with the plugins that hold it, if any do.
    pub(crate) fn hold(&mut self, mut binding: Binding, waits: &[(PluginIdx, u64)], now: Time) {
        let pod = Arc::clone(binding.pod());
        let wait = |&(plugin, timeout): &(PluginIdx, u64)| Wait {
            plugin: self.plugin_name(pod.scheduler_name, plugin),
            timeout,
            deadline: now + timeout,
        };
        let plugins: Vec<Wait> = waits.iter().map(wait).collect();
        self.deadlines.extend(plugins.iter().map(|wait| (wait.deadline, pod.uid.clone())));
        let node = binding.node;
        let is_held = !plugins.is_empty();
        binding.stage = Stage::Waiting(Waits { plugins, since: now });
        self.bindings.insert(pod.uid.clone(), binding);
        if is_held {
            self.publish_expectation(&pod, node);
        }
    }

    /// Begins PreBind when nobody holds the pod any more.
    pub(crate) fn go_on_if_permitted(&mut self, uid: &str, now: Time) {
        if self.waits(uid).is_some_and(|waits| waits.plugins.is_empty()) {
            self.go_on(uid, now);
        }
    }

    /// Ends a wait. Nothing happens when the pod does not wait for that plugin.
    pub(crate) fn resolve_wait(&mut self, uid: &str, resolution: Resolution<'_>, now: Time) {
        let Some(waits) = self.waits(uid) else { return };
        match resolution {
            Resolution::Allow { plugin } => {
                let Some(position) = waits.plugins.iter().position(|wait| *wait.plugin == *plugin) else { return };
                let wait = waits.plugins.remove(position);
                let (is_last, waited) = (waits.plugins.is_empty(), now.since(waits.since));
                let uid = PodUid::from(uid);
                if waits.plugins.iter().all(|other| other.deadline != wait.deadline) {
                    self.deadlines.remove(&(wait.deadline, uid.clone()));
                }
                if is_last {
                    self.observations.push(Observation::PermitWait { result: "Success", milliseconds: waited });
                    self.go_on(&uid, now);
                }
            }
            Resolution::Reject { plugin, reason } => self.end_wait(uid, plugin, reason, now),
            Resolution::Removed => self.end_wait(uid, "", "removed".to_owned(), now),
        }
    }

    fn end_wait(&mut self, uid: &str, plugin: &str, reason: String, now: Time) {
        let Some(since) = self.waits(uid).map(|waits| waits.since) else { return };
        let milliseconds = now.since(since);
        self.observations.push(Observation::PermitWait { result: "Unschedulable", milliseconds });
        self.forget_waits(uid);
        let Some(binding) = self.bindings.remove(uid) else { return };
        let profile = self.profiles.get(binding.pod().scheduler_name);
        let plugin = profile.and_then(|profile| profile.find(plugin)).unwrap_or(PluginIdx::NOBODY);
        self.fall_back(binding, Setback::Refused(Refusal { plugin, status: Status::unschedulable(reason) }), now);
    }

    /// Turns down the pods whose time on Permit or PreBind is over.
    pub(crate) fn end_waits(&mut self, now: Time) {
        while let Some((deadline, uid)) = self.deadlines.first().cloned()
            && deadline <= now
        {
            self.deadlines.remove(&(deadline, uid.clone()));
            self.end_watch(&uid, now);
            let Some(waits) = self.waits(&uid) else { continue };
            let Some(wait) = waits.plugins.iter().find(|wait| wait.deadline == deadline) else { continue };
            let (plugin, waited) = (Arc::clone(&wait.plugin), go_duration(wait.timeout));
            let reason = format!("rejected due to timeout after waiting {waited} at plugin {plugin}");
            self.resolve_wait(&uid, Resolution::Reject { plugin: &plugin, reason }, now);
        }
    }

    /// Forgets the deadlines of a pod that no longer waits.
    pub(crate) fn forget_waits(&mut self, uid: &str) {
        self.deadlines.retain(|(_, other)| **other != *uid);
    }

    fn waits(&mut self, uid: &str) -> Option<&mut Waits> {
        match &mut self.bindings.get_mut(uid)?.stage {
            Stage::Waiting(waits) => Some(waits),
            Stage::PreBinding { .. } | Stage::Watching { .. } | Stage::Sent { .. } => None,
        }
    }
}

/// Milliseconds as Go prints a duration: `1m30s`, `1.5s`, `20ms`.
fn go_duration(milliseconds: u64) -> String {
    if milliseconds == 0 {
        return "0s".to_owned();
    }
    if milliseconds < 1000 {
        return format!("{milliseconds}ms");
    }
    let (minutes, rest) = (milliseconds / 60_000, milliseconds % 60_000);
    let fraction = format!("{:03}", rest % 1000);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    let seconds = format!("{}{point}{fraction}s", rest / 1000);
    match (minutes / 60, minutes % 60) {
        (0, 0) => seconds,
        (0, minutes) => format!("{minutes}m{seconds}"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
    }
}

#[cfg(test)]
mod tests {
    use super::go_duration;

    #[test]
    fn durations_read_like_go() {
        let texts = [0, 20, 1500, 10_000, 90_000, 900_000, 3_600_000].map(go_duration);
        assert_eq!(texts, ["0s", "20ms", "1.5s", "10s", "1m30s", "15m0s", "1h0m0s"]);
    }
}
