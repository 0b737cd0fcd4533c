//! The targets of the scheduler's actions: requests and notices go to the executor, events of plugins' binaries go to
//! the supervisor, traced attempts go to the exporter of traces, and preparations go to separate threads.
//!
//! The thread never waits for the executor or the supervisor. If a channel is full, the thread keeps the actions until
//! the channel has room. No cycle starts while actions are kept.

use std::collections::VecDeque;

use berth_plugin_host::{Message, prepare};
use berth_scheduler::{Action, Event, HostObjects};
use tokio::sync::{
    mpsc::{self, error::TrySendError},
    oneshot,
};

use crate::{executor::Task, traces::Traces, watching::WatchRequest};

/// The channels out of the scheduling thread.
pub(crate) struct Outlets {
    executor: Outlet<Task>,
    supervisor: Outlet<Message>,
    /// The channel for prepared instances. The sender is weak, because the thread must not keep its own channel open.
    events: mpsc::WeakSender<Event>,
    watch_requests: mpsc::UnboundedSender<WatchRequest>,
    objects: HostObjects,
    traces: Traces,
}

/// A channel, and the messages that wait for room in it.
struct Outlet<T> {
    sender: mpsc::Sender<T>,
    backlog: VecDeque<T>,
}

impl Outlets {
    pub(crate) fn new(
        executor: mpsc::Sender<Task>,
        supervisor: mpsc::Sender<Message>,
        events: &mpsc::Sender<Event>,
        watch_requests: mpsc::UnboundedSender<WatchRequest>,
        objects: HostObjects,
        traces: Traces,
    ) -> Self {
        let (executor, supervisor) = (Outlet::new(executor), Outlet::new(supervisor));
        Self { executor, supervisor, events: events.downgrade(), watch_requests, objects, traces }
    }

    /// Sends these actions. The returned events must be handled immediately.
    pub(super) fn hand_over(&mut self, actions: impl IntoIterator<Item = Action>) -> Vec<Event> {
        let mut answers = Vec::new();
        for action in actions {
            match action {
                Action::Pod(request) => self.executor.backlog.push_back(Task::Pod(request)),
                Action::Notice(notice) => self.executor.backlog.push_back(Task::Notice(notice)),
                Action::Traced(attempt) => self.traces.attempted(*attempt),
                Action::Supervise(supervision) => {
                    self.supervisor.backlog.push_back(Message::Supervise(supervision));
                }
                Action::PreparePlugin { preparation, .. } => {
                    let until_announced = until_kinds_are_announced(self.watch_requests.clone());
                    if let Some(preparation) = self.objects.take(preparation)
                        && let Err(failed) = prepare(preparation, &self.objects, &self.events, until_announced)
                    {
                        answers.push(Event::plugin_prepared(&self.objects, *failed));
                    }
                }
            }
        }
        self.executor.send();
        self.supervisor.send();
        answers
    }

    /// Whether all actions have been sent.
    pub(super) fn is_empty(&self) -> bool {
        self.executor.backlog.is_empty() && self.supervisor.backlog.is_empty()
    }

    /// Waits until there is room for the actions that could not be sent, or forever if all actions were sent.
    pub(super) async fn room(&self) {
        tokio::select! {
            () = self.executor.room(), if !self.executor.backlog.is_empty() => {}
            () = self.supervisor.room(), if !self.supervisor.backlog.is_empty() => {}
            else => std::future::pending().await,
        }
    }
}

/// Waits until the scheduler's channel has the events about the kinds that an earlier request for watches named. A kind
/// that is not listed yet must count as unlisted before a plugin that reads the kind serves.
fn until_kinds_are_announced(watch_requests: mpsc::UnboundedSender<WatchRequest>) -> impl FnOnce() + Send + 'static {
    move || {
        let (answer, answered) = oneshot::channel();
        // The watch of the cluster ends before the thread of a preparation only if the process ends.
        if watch_requests.send(WatchRequest::Taken(answer)).is_ok() {
            let _ = answered.blocking_recv();
        }
    }
}

impl<T> Outlet<T> {
    fn new(sender: mpsc::Sender<T>) -> Self {
        Self { sender, backlog: VecDeque::new() }
    }

    /// Sends as many actions as there is room for.
    fn send(&mut self) {
        while let Some(item) = self.backlog.pop_front() {
            match self.sender.try_send(item) {
                Ok(()) => {}
                Err(TrySendError::Full(item)) => return self.backlog.push_front(item),
                // The receiver no longer exists, because the process is ending.
                Err(TrySendError::Closed(_)) => self.backlog.clear(),
            }
        }
    }

    async fn room(&self) {
        drop(self.sender.reserve().await);
    }
}

#[cfg(test)]
mod tests {
    use std::{borrow::Cow, sync::Arc};

    use berth_framework::PluginVersion;
    use berth_scheduler::{EventRecord, Notice, PodRef, Supervision};

    use super::*;

    fn notice() -> Action {
        Action::Notice(Notice::Event(EventRecord {
            warning: false,
            reason: Cow::Borrowed("Scheduled"),
            action: Cow::Borrowed("Binding"),
            note: String::new(),
            regarding: PodRef::default(),
            related: None,
            reporting_controller: Arc::from("berth"),
        }))
    }

    fn swapped(plugin: &str) -> Action {
        let (scheduler_name, version) = ("main".to_owned(), PluginVersion::default());
        let plugin = plugin.to_owned();
        Action::Supervise(Supervision::Swapped { scheduler_name, plugin, version, result: Ok(()), n_released: 0 })
    }

    fn outlets(
        executor: mpsc::Sender<Task>,
        supervisor: mpsc::Sender<Message>,
        events: &mpsc::Sender<Event>,
    ) -> Outlets {
        let (watch_requests, _) = mpsc::unbounded_channel();
        Outlets::new(executor, supervisor, events, watch_requests, HostObjects::default(), Traces::default())
    }

    fn swapped_plugin(message: Option<Message>) -> String {
        match message {
            Some(Message::Supervise(Supervision::Swapped { plugin, .. })) => plugin,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn what_there_is_no_room_for_waits_in_order_and_holds_up_nothing_else() {
        let (executor, mut tasks) = mpsc::channel(8);
        let (supervisor, mut inbox) = mpsc::channel(1);
        let (events, _received) = mpsc::channel(1);
        let mut outlets = outlets(executor, supervisor, &events);
        assert!(outlets.hand_over([swapped("A"), swapped("B"), swapped("C"), notice()]).is_empty());
        assert!(!outlets.is_empty(), "two wait for the supervisor");
        assert!(matches!(tasks.recv().await, Some(Task::Notice(_))), "the executor has room");
        let mut order = Vec::new();
        while !outlets.is_empty() {
            order.push(swapped_plugin(inbox.recv().await));
            outlets.room().await;
            outlets.hand_over([]);
        }
        order.push(swapped_plugin(inbox.recv().await));
        assert_eq!(order, ["A", "B", "C"]);
    }

    #[tokio::test]
    async fn nobody_at_the_other_end_is_no_reason_to_wait() {
        let (executor, tasks) = mpsc::channel(1);
        let (supervisor, inbox) = mpsc::channel(1);
        let (events, _received) = mpsc::channel(1);
        let mut outlets = outlets(executor, supervisor, &events);
        drop((tasks, inbox));
        outlets.hand_over([swapped("A"), notice(), notice()]);
        assert!(outlets.is_empty());
    }
}
