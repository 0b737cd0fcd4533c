//! The patch from a pod's old status to its new status.
//!
//! It is the strategic merge diff of the two statuses. Conditions merge by type: a new condition is sent whole, and a
//! changed condition only with its changes.

use berth_model::api;
use serde_json::{Map, Value, json};

use crate::clock::{self, Time};

/// A change of a pod's status, and the status before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusPatch {
    /// The pod's conditions as last seen.
    pub old_conditions: Vec<api::Condition>,
    /// The pod's `nominatedNodeName` as last seen.
    pub old_nominated_node_name: String,
    /// The condition to set, if any.
    pub condition: Option<PodCondition>,
    pub nomination: Nomination,
}

/// The change of `status.nominatedNodeName`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Nomination {
    #[default]
    Keep,
    Clear,
    Set(String),
}

/// A condition in its new state. The writer sets its transition time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodCondition {
    pub type_: String,
    /// The status: `True`, `False` or `Unknown`.
    pub status: String,
    pub reason: String,
    pub message: String,
    /// The pod's `metadata.generation`.
    pub observed_generation: i64,
}

impl StatusPatch {
    /// The body of the patch; `None` if nothing changes.
    pub(super) fn body(&self, now: Time) -> Option<Value> {
        let mut status = Map::new();
        if let Some(condition) = &self.condition {
            self.set_condition(&mut status, condition, now);
        }
        let old_node = self.old_nominated_node_name.as_str();
        match &self.nomination {
            Nomination::Set(node) if node != old_node => {
                status.insert("nominatedNodeName".into(), json!(node));
            }
            Nomination::Clear if !old_node.is_empty() => {
                status.insert("nominatedNodeName".into(), Value::Null);
            }
            Nomination::Keep | Nomination::Clear | Nomination::Set(_) => {}
        }
        (!status.is_empty()).then(|| json!({ "status": status }))
    }

    fn set_condition(&self, status: &mut Map<String, Value>, new: &PodCondition, now: Time) {
        let old = self.old_conditions.iter().find(|old| old.type_ == new.type_);
        let Some(condition) = (match old {
            Some(old) => new.changes_from(old, now),
            None => Some(new.whole(now)),
        }) else {
            return;
        };
        // The patch gives the order only if there was a list before.
        if !self.old_conditions.is_empty() {
            let old_types = self.old_conditions.iter().map(|old| &old.type_);
            let order = old_types.chain(old.is_none().then_some(&new.type_));
            let order: Vec<Value> = order.map(|type_| json!({ "type": type_ })).collect();
            status.insert("$setElementOrder/conditions".into(), json!(order));
        }
        status.insert("conditions".into(), json!([condition]));
    }
}

impl PodCondition {
    fn whole(&self, now: Time) -> Value {
        let mut condition = json!({
            "type": self.type_,
            "status": self.status,
            "lastProbeTime": null,
            "lastTransitionTime": clock::seconds(now),
        });
        for (field, value) in self.optional_fields() {
            if let Some(value) = value {
                condition[field] = value;
            }
        }
        condition
    }

    /// The changed fields, with the type that identifies the condition; `None` if nothing changes.
    fn changes_from(&self, old: &api::Condition, now: Time) -> Option<Value> {
        let mut changes = Map::new();
        if self.status != old.status {
            changes.insert("status".into(), json!(self.status));
            changes.insert("lastTransitionTime".into(), json!(clock::seconds(now)));
        }
        let before = Self {
            type_: old.type_.clone(),
            status: old.status.clone(),
            reason: old.reason.clone(),
            message: old.message.clone(),
            observed_generation: old.observed_generation,
        };
        for ((field, new), (_, old)) in self.optional_fields().into_iter().zip(before.optional_fields()) {
            if new != old {
                changes.insert(field.into(), new.unwrap_or_default());
            }
        }
        if changes.is_empty() {
            return None;
        }
        changes.insert("type".into(), json!(self.type_));
        Some(Value::Object(changes))
    }

    /// The fields that the API omits if their values are empty. A patch removes such a field with a null.
    fn optional_fields(&self) -> [(&'static str, Option<Value>); 3] {
        let text = |text: &String| (!text.is_empty()).then(|| json!(text));
        let generation = (self.observed_generation != 0).then(|| json!(self.observed_generation));
        [("reason", text(&self.reason)), ("message", text(&self.message)), ("observedGeneration", generation)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-11-21T03:12:04.633376Z";

    fn old(type_: &str, status: &str, message: &str) -> api::Condition {
        api::Condition {
            type_: type_.into(),
            status: status.into(),
            reason: "Unschedulable".into(),
            message: message.into(),
            observed_generation: 1,
            last_transition_time: Some("2026-11-21T03:00:00Z".into()),
        }
    }

    fn unschedulable(message: &str) -> PodCondition {
        PodCondition {
            type_: "PodScheduled".into(),
            status: "False".into(),
            reason: "Unschedulable".into(),
            message: message.into(),
            observed_generation: 1,
        }
    }

    fn body(patch: &StatusPatch) -> Value {
        patch.body(NOW.parse().unwrap()).unwrap_or_default()
    }

    // The bodies below are kube-scheduler 1.36's bodies.

    #[test]
    fn a_first_condition_is_sent_whole() {
        let message = "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes \
                       are available: 2 Preemption is not helpful for scheduling.";
        let patch = StatusPatch { condition: Some(unschedulable(message)), ..StatusPatch::default() };
        let expected = json!({"status": {"conditions": [{
            "lastProbeTime": null, "lastTransitionTime": "2026-11-21T03:12:04Z", "message": message,
            "observedGeneration": 1, "reason": "Unschedulable", "status": "False", "type": "PodScheduled",
        }]}});
        assert_eq!(body(&patch), expected);
    }

    #[test]
    fn a_first_condition_may_come_with_a_nomination() {
        let patch = StatusPatch {
            condition: Some(unschedulable("0/1 nodes are available: 1 Insufficient cpu.")),
            nomination: Nomination::Set("n1".into()),
            ..StatusPatch::default()
        };
        let expected = json!({"status": {"conditions": [{
            "lastProbeTime": null, "lastTransitionTime": "2026-11-21T03:12:04Z",
            "message": "0/1 nodes are available: 1 Insufficient cpu.",
            "observedGeneration": 1, "reason": "Unschedulable", "status": "False", "type": "PodScheduled",
        }], "nominatedNodeName": "n1"}});
        assert_eq!(body(&patch), expected);
    }

    #[test]
    fn of_a_new_message_only_the_message_is_sent() {
        let patch = StatusPatch {
            old_conditions: vec![old("PodScheduled", "False", "0/1 nodes are available: 1 Insufficient cpu.")],
            old_nominated_node_name: "n1".into(),
            condition: Some(unschedulable("no nodes available to schedule pods")),
            nomination: Nomination::Clear,
        };
        let expected = json!({"status": {
            "$setElementOrder/conditions": [{"type": "PodScheduled"}],
            "conditions": [{"message": "no nodes available to schedule pods", "type": "PodScheduled"}],
            "nominatedNodeName": null,
        }});
        assert_eq!(body(&patch), expected);
    }

    #[test]
    fn a_victim_gets_a_second_condition() {
        let patch = StatusPatch {
            old_conditions: vec![old("PodScheduled", "True", "")],
            condition: Some(PodCondition {
                type_: "DisruptionTarget".into(),
                status: "True".into(),
                reason: "PreemptionByScheduler".into(),
                message: "default-scheduler: preempting to accommodate a higher priority pod".into(),
                observed_generation: 1,
            }),
            ..StatusPatch::default()
        };
        let expected = json!({"status": {
            "$setElementOrder/conditions": [{"type": "PodScheduled"}, {"type": "DisruptionTarget"}],
            "conditions": [{
                "lastProbeTime": null, "lastTransitionTime": "2026-11-21T03:12:04Z",
                "message": "default-scheduler: preempting to accommodate a higher priority pod",
                "observedGeneration": 1, "reason": "PreemptionByScheduler", "status": "True",
                "type": "DisruptionTarget",
            }],
        }});
        assert_eq!(body(&patch), expected);
    }

    #[test]
    fn nominations_are_sent_alone() {
        let set = StatusPatch { nomination: Nomination::Set("n1".into()), ..StatusPatch::default() };
        assert_eq!(body(&set), json!({"status": {"nominatedNodeName": "n1"}}));
        let clear = StatusPatch {
            old_conditions: vec![old("PodScheduled", "False", "m")],
            old_nominated_node_name: "n1".into(),
            nomination: Nomination::Clear,
            ..StatusPatch::default()
        };
        assert_eq!(body(&clear), json!({"status": {"nominatedNodeName": null}}));
    }

    #[test]
    fn a_new_status_brings_a_new_transition_time_and_empty_fields_go() {
        let mut condition = unschedulable("");
        condition.status = "True".into();
        condition.reason.clear();
        let patch = StatusPatch {
            old_conditions: vec![old("PodScheduled", "False", "m")],
            condition: Some(condition),
            ..StatusPatch::default()
        };
        let expected = json!({"status": {
            "$setElementOrder/conditions": [{"type": "PodScheduled"}],
            "conditions": [{
                "lastTransitionTime": "2026-11-21T03:12:04Z", "message": null, "reason": null, "status": "True",
                "type": "PodScheduled",
            }],
        }});
        assert_eq!(body(&patch), expected);
    }

    #[test]
    fn what_is_so_already_is_not_written() {
        let patch = StatusPatch {
            old_conditions: vec![old("PodScheduled", "False", "m")],
            old_nominated_node_name: "n1".into(),
            condition: Some(unschedulable("m")),
            nomination: Nomination::Set("n1".into()),
        };
        assert_eq!(body(&patch), Value::Null);
        assert_eq!(body(&StatusPatch { nomination: Nomination::Clear, ..StatusPatch::default() }), Value::Null);
    }
}
