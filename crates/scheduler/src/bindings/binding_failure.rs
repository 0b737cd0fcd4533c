//! The reason why a pod does not reach the node that a cycle chose.

use std::borrow::Cow;

use berth_explain::NotBound;
use berth_framework::{
    PluginIdx, Point, Status,
    run::{Diagnosis, Refusal, Rejection},
};
use berth_model::{NodeIdx, NodeSet, Sym};

use crate::{
    context::Context,
    failure::{AttemptFailure, FailureCause, Nomination},
};

/// The reason why a binding failed, and the extension point of the pod at that time.
#[derive(Debug)]
pub(super) struct BindingFailure {
    /// The extension point; `None` if the pod was at no extension point.
    point: Option<Point>,
    cause: BindingFailureCause,
    /// The name of the node, if the pod loses the node because a plugin went out of service.
    lost_node: Option<String>,
}

#[derive(Debug)]
enum BindingFailureCause {
    /// A plugin rejected the pod before PreBind. The events for which the plugin registered bring the pod back.
    Rejected(Refusal),
    /// A plugin or a request failed. The pod is tried again after backoff.
    Failed(Refusal),
}

impl BindingFailure {
    /// The rejection or the failure of a plugin at Reserve or Permit.
    pub(super) fn of(point: Point, refusal: Refusal) -> Self {
        let is_rejection = refusal.status.code.is_rejected();
        let cause =
            if is_rejection { BindingFailureCause::Rejected(refusal) } else { BindingFailureCause::Failed(refusal) };
        Self { point: Some(point), cause, lost_node: None }
    }

    /// The rejection of a pod that this plugin holds at Permit. If the plugin went out of service, the status comes
    /// from the scheduler, and the message names the node that the pod loses.
    pub(super) fn of_held_pod(
        scheduler_name: Sym,
        plugin: &str,
        node: Sym,
        status: Status,
        context: &mut Context,
    ) -> Self {
        let profile = context.profile_mut(scheduler_name);
        let (plugin, out_of_service) = match profile.and_then(|profile| Some((profile.find(plugin)?, profile))) {
            Some((plugin, profile)) => (plugin, profile.get(plugin).and_then(|plugin| plugin.out_of_service())),
            None => (PluginIdx::NOBODY, None),
        };
        let is_answer = out_of_service.is_none_or(|reason| reason.message() != status.message());
        let lost_node = (!is_answer).then(|| context.text(node).to_owned());
        Self { lost_node, ..Self::of(Point::Permit, Refusal { plugin, status }) }
    }

    /// The failure of a plugin at PreBind or Bind. An answer at these points rejects no pod.
    pub(super) fn failed(point: Point, plugin: PluginIdx, status: Status) -> Self {
        let cause = BindingFailureCause::Failed(Refusal { plugin, status });
        Self { point: Some(point), cause, lost_node: None }
    }

    /// A failure that no plugin caused.
    pub(super) fn error(status: Status) -> Self {
        let refusal = Refusal { plugin: PluginIdx::NOBODY, status };
        Self { point: None, cause: BindingFailureCause::Failed(refusal), lost_node: None }
    }

    /// The failure for explanations.
    pub(super) fn explained(&self, scheduler_name: Sym, context: &Context) -> NotBound {
        let (BindingFailureCause::Rejected(Refusal { plugin, status })
        | BindingFailureCause::Failed(Refusal { plugin, status })) = &self.cause;
        NotBound {
            point: self.point.map(|point| point.shown().to_owned()),
            plugin: (*plugin != PluginIdx::NOBODY).then(|| context.plugin_name(scheduler_name, *plugin).to_string()),
            message: status.message(),
        }
    }

    pub(super) fn into_attempt_failure(self) -> AttemptFailure<'static> {
        let cause = match self.cause {
            BindingFailureCause::Failed(Refusal { status, .. }) => FailureCause::Unable(status),
            BindingFailureCause::Rejected(Refusal { plugin, status }) => {
                let mut diagnosis = Diagnosis { n_all_nodes: 1, lost_node: self.lost_node, ..Diagnosis::default() };
                diagnosis.blame(plugin, status.code);
                let nodes = NodeSet::from_iter([NodeIdx(0)]);
                diagnosis.rejections.push(Rejection { plugin, status, nodes });
                FailureCause::Rejected(Cow::Owned(diagnosis))
            }
        };
        AttemptFailure { cause, nomination: Nomination::Clear }
    }
}
