//! Plugins are asked about a pod after its cycle, now that they have time.

use super::{
    binding::{Binding, BindingFailure, Step},
    peers::Peers,
    questions::Question,
};
use crate::context::Context;

impl Binding {
    /// Asks, and takes the pod as far as the answers do.
    pub(super) fn ask(self, question: Question, context: &mut Context, peers: &mut Peers<'_>) -> Step {
        context.begin_step();
        match question {
            Question::Permitted => match self.catch_up(context) {
                Ok(()) => self.permitted(context, peers),
                Err(status) => Step::Failed(self, BindingFailure::Error(status)),
            },
            Question::PreBind { again } => self.pre_bind_again(&again, context, peers),
            Question::Bind => self.bind_by_plugin(context, peers),
        }
    }
}
