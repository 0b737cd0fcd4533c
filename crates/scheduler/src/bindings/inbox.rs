//! The inputs from plugins and objects for pods between Reserve and PostBind, until they are delivered.
//!
//! One answer of a plugin can release thousands of pods. Only some of these pods get their input at a time, so that
//! other pods get their turn. Equal inputs are kept once.

use std::{collections::VecDeque, sync::Arc};

use berth_model::ObjectKey;
use rustc_hash::FxHashSet;

use super::binding::{Input, PodAttempt};

/// Inputs in the order in which they came, each for one attempt of a pod.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    inputs: VecDeque<Message>,
    /// The topics of the messages in `inputs`.
    topics: FxHashSet<(PodAttempt, Topic)>,
}

/// An input that is not delivered yet.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) to: PodAttempt,
    pub(super) input: Input,
}

/// The topic of an input. An input is not needed if another input with the same topic waits already.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Topic {
    Allowed(Arc<str>),
    Rejected(Arc<str>),
    Refused(Arc<str>),
    Preempted,
    Object(ObjectKey),
    /// The topic of inputs of which only one comes at a time.
    Own,
}

impl Topic {
    fn of(input: &Input) -> Self {
        match input {
            Input::Allowed { plugin } => Self::Allowed(Arc::clone(plugin)),
            Input::Rejected { plugin, .. } => Self::Rejected(Arc::clone(plugin)),
            Input::Refused { plugin, .. } => Self::Refused(Arc::clone(plugin)),
            Input::Preempted { .. } => Self::Preempted,
            Input::ObjectChanged(object) => Self::Object(object.clone()),
            Input::Terminating
            | Input::Deleted
            | Input::SeenOnNode(_)
            | Input::DeadlinePassed(_)
            | Input::EffectsFinished { .. }
            | Input::BindFinished(_) => Self::Own,
        }
    }
}

impl Inbox {
    /// Adds an input for this attempt of the pod. A later attempt of the pod does not get the input.
    pub(super) fn push(&mut self, to: PodAttempt, input: Input) {
        if self.topics.insert((to.clone(), Topic::of(&input))) {
            self.inputs.push_back(Message { to, input });
        }
    }

    pub(super) fn pop(&mut self) -> Option<Message> {
        let message = self.inputs.pop_front()?;
        self.topics.remove(&(message.to.clone(), Topic::of(&message.input)));
        Some(message)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.inputs.is_empty()
    }
}
