//! The actions of an event on its object, by kube-scheduler's names.

use berth_framework::ClusterEvent;
use serde::{Deserialize, Serialize};

use crate::nearest::nearest;

/// The bits of an action: `Update` stands for every update, and `All` for every action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct CaseAction(u32);

/// No action has this name.
#[derive(Debug, thiserror::Error)]
#[error("unknown action {name:?}{}: expected one of {}", meant(.name), names().join(", "))]
pub struct NoAction {
    name: String,
}

impl CaseAction {
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    /// The single actions in the order of their bits, then `Update` and `All`.
    fn named() -> impl Iterator<Item = (Self, &'static str)> {
        let single = (0..u32::BITS).map(|at| 1 << at);
        let all = single.chain([ClusterEvent::UPDATE, ClusterEvent::ALL]);
        all.filter_map(|bits| Some((Self(bits), ClusterEvent::new("", bits).action_name()?)))
    }
}

fn names() -> Vec<&'static str> {
    CaseAction::named().map(|(_, name)| name).collect()
}

/// ` (did you mean "Add"?)` if a known name is close.
fn meant(name: &str) -> String {
    nearest(name, names()).map(|known| format!(" (did you mean {known:?}?)")).unwrap_or_default()
}

impl TryFrom<String> for CaseAction {
    type Error = NoAction;

    fn try_from(name: String) -> Result<Self, NoAction> {
        let found = Self::named().find(|(_, known)| *known == name);
        found.map(|(action, _)| action).ok_or(NoAction { name })
    }
}

impl From<CaseAction> for String {
    fn from(CaseAction(bits): CaseAction) -> Self {
        ClusterEvent::new("", bits).action_name().unwrap_or_default().to_owned()
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for CaseAction {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CaseAction".into()
    }

    fn json_schema(_generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "`Update` is every update, `All` every action.",
            "enum": names(),
            "type": "string",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_has_a_name_that_is_read_back() {
        assert_eq!(names().len(), 15, "13 bits, Update and All");
        for (action, name) in CaseAction::named() {
            assert_eq!(CaseAction::try_from(name.to_owned()).ok(), Some(action));
            assert_eq!(String::from(action), name);
        }
    }

    #[test]
    fn an_unknown_action_is_refused_with_those_that_there_are() {
        let told = |name: &str| CaseAction::try_from(name.to_owned()).expect_err("no action").to_string();
        let close = told("UpdatePodLabels");
        let start =
            "unknown action \"UpdatePodLabels\" (did you mean \"UpdatePodLabel\"?): expected one of Add, Delete, ";
        assert!(close.starts_with(start) && close.ends_with(", Update, All"), "{close}");
        assert!(told("Rename").starts_with("unknown action \"Rename\": expected one of Add, "));
    }
}
