//! The PreBind plugins that work for a pod: one plugin, or neighbouring plugins that may run in parallel.

use berth_framework::PluginIdx;
use berth_model::{ObjectKey, Time};

use super::object_wait::ObjectWait;

/// A group of plugins of which at least one is not done.
#[derive(Debug)]
pub(crate) struct PreBindGroup {
    /// The position among the PreBind plugins at which the next group begins.
    pub(crate) next: usize,
    tasks: Vec<PreBindTask>,
}

/// The wait of one plugin.
#[derive(Debug)]
pub(crate) struct PreBindTask {
    plugin: PluginIdx,
    state: TaskState,
}

/// A plugin whose wait for objects timed out.
pub(crate) struct PreBindTimeout {
    pub(crate) plugin: PluginIdx,
    /// The text that the plugin chose for a time-out.
    pub(crate) message: String,
}

#[derive(Debug)]
enum TaskState {
    /// The plugin's effects are being carried out. Afterwards the plugin waits for objects, if it also asked to wait.
    Effects(Option<ObjectWait>),
    /// One of the plugin's objects must change.
    Objects(ObjectWait),
}

/// The next step after a plugin's effects were carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterEffects {
    /// The plugin is done.
    Done,
    /// The plugin waits for an object to change.
    Waits,
    /// One of the plugin's objects has changed while the effects were carried out.
    AskAgain,
    /// The plugin did not wait for effects.
    Unexpected,
}

impl PreBindTask {
    /// The wait of a plugin; `None` if the plugin does not wait.
    pub(crate) fn new(plugin: PluginIdx, has_effects: bool, wait: Option<ObjectWait>) -> Option<Self> {
        let state = match wait {
            wait if has_effects => TaskState::Effects(wait),
            Some(wait) => TaskState::Objects(wait),
            None => return None,
        };
        Some(Self { plugin, state })
    }

    fn wait(&self) -> Option<&ObjectWait> {
        match &self.state {
            TaskState::Effects(wait) => wait.as_ref(),
            TaskState::Objects(wait) => Some(wait),
        }
    }

    fn into_wait(self) -> Option<ObjectWait> {
        match self.state {
            TaskState::Effects(wait) => wait,
            TaskState::Objects(wait) => Some(wait),
        }
    }
}

impl PreBindGroup {
    pub(crate) fn new(next: usize) -> Self {
        Self { next, tasks: Vec::new() }
    }

    /// Adds the wait of a plugin, if the plugin waits.
    pub(crate) fn extend(&mut self, task: Option<PreBindTask>) {
        self.tasks.extend(task);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.tasks.is_empty()
    }

    /// The plugins' waits for objects. They include the waits of plugins whose effects are being carried out.
    pub(crate) fn waits(&self) -> impl Iterator<Item = &ObjectWait> {
        self.tasks.iter().filter_map(PreBindTask::wait)
    }

    /// The plugins that wait for objects, each with its wait.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (PluginIdx, &ObjectWait)> {
        self.tasks.iter().filter_map(|task| Some((task.plugin, task.wait()?)))
    }

    /// Replaces the positions of the plugins, after a change of the profile.
    pub(crate) fn move_plugins(&mut self, place: impl Fn(PluginIdx) -> PluginIdx) {
        self.tasks.iter_mut().for_each(|task| task.plugin = place(task.plugin));
    }

    /// Ends the wait of a plugin. Returns the plugin's wait for objects, if the plugin waited for objects.
    pub(crate) fn take(&mut self, plugin: PluginIdx) -> Option<ObjectWait> {
        let position = self.tasks.iter().position(|task| task.plugin == plugin)?;
        self.tasks.remove(position).into_wait()
    }

    pub(crate) fn effects_carried_out(&mut self, plugin: PluginIdx) -> AfterEffects {
        let Some(position) = self.tasks.iter().position(|task| task.plugin == plugin) else {
            return AfterEffects::Unexpected;
        };
        let Some(task) = self.tasks.get_mut(position) else { return AfterEffects::Unexpected };
        match &mut task.state {
            TaskState::Objects(_) => AfterEffects::Unexpected,
            TaskState::Effects(wait) => match wait.take() {
                None => {
                    self.tasks.remove(position);
                    AfterEffects::Done
                }
                Some(wait) => {
                    let after = if wait.has_changed { AfterEffects::AskAgain } else { AfterEffects::Waits };
                    task.state = TaskState::Objects(wait);
                    after
                }
            },
        }
    }

    /// The plugins that are asked again because this object changed. A plugin whose effects are not carried out yet is
    /// asked after its effects.
    pub(crate) fn object_changed(&mut self, object: &ObjectKey) -> Vec<PluginIdx> {
        let mut ask_again = Vec::new();
        for task in &mut self.tasks {
            match &mut task.state {
                TaskState::Effects(Some(wait)) if wait.objects.contains(object) => wait.has_changed = true,
                TaskState::Objects(wait) if wait.objects.contains(object) => ask_again.push(task.plugin),
                TaskState::Effects(_) | TaskState::Objects(_) => {}
            }
        }
        ask_again
    }

    /// The plugin whose wait timed out at `deadline`, with its message; `None` if no wait timed out.
    pub(crate) fn timed_out(&self, deadline: Time) -> Option<PreBindTimeout> {
        let (plugin, wait) = self.waiting().find(|(_, wait)| wait.deadline == deadline)?;
        Some(PreBindTimeout { plugin, message: wait.timeout_message.clone() })
    }
}
