//! The reasons why pods were placed on their nodes, for `berth demo`.

use berth_scheduler::Scheduler;
use berth_what_if::Choice;
use serde::Serialize;
use tokio::sync::mpsc;

/// The node that was chosen for a pod, and the nodes among which the scheduler chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementReason {
    pub namespace: String,
    pub name: String,
    pub node: String,
    #[serde(flatten)]
    pub choice: Choice,
}

/// Sends the reason of each placement once.
#[derive(Debug)]
pub(crate) struct PlacementReasons {
    /// The channel; `None` if the reasons are not requested.
    sink: Option<mpsc::UnboundedSender<PlacementReason>>,
    /// The attempt whose reason was sent last.
    sent: u64,
}

impl PlacementReasons {
    pub(crate) fn new(sink: Option<mpsc::UnboundedSender<PlacementReason>>) -> Self {
        Self { sink, sent: 0 }
    }

    /// Sends the reason of the last attempt, if the attempt chose a node. The pod may still be rejected before it is
    /// bound.
    pub(crate) fn send(&mut self, scheduler: &Scheduler) {
        let Some(sink) = &self.sink else { return };
        let Some((attempt, _)) = scheduler.last_attempt() else { return };
        if std::mem::replace(&mut self.sent, attempt.number) == attempt.number {
            return;
        }
        let Ok(node) = &attempt.decision.outcome else { return };
        let table = scheduler.cache().table();
        let node = table.symbols.text(table.name(*node));
        let Some(choice) = Choice::of(&attempt.decision, node, table) else { return };
        let namespace = table.symbols.text(attempt.pod.namespace).to_owned();
        let reason = PlacementReason { namespace, name: attempt.pod.name.to_string(), node: node.to_owned(), choice };
        // The caller may have stopped waiting.
        drop(sink.send(reason));
    }
}
