//! Differences between two configurations, field by field, and the differences that a running scheduler can apply.

use std::{collections::BTreeSet, fmt};

use serde_json::Value;

use crate::settings::{ClientConnection, Settings};

/// One field that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The path of the field, such as
    /// `profiles[default-scheduler].pluginConfig[NodeResourcesFit].args.scoringStrategy.type`.
    pub field: String,
    /// The old value; `null` if the field did not exist.
    pub old: Value,
    /// The new value; `null` if the field no longer exists.
    pub new: Value,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.field, self.old, self.new)
    }
}

impl Settings {
    /// The fields in which `new` differs. Profiles and arguments of plugins are compared by name, and other lists as a
    /// whole.
    #[must_use]
    pub fn changes_to(&self, new: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        compare(String::new(), &self.to_json(), &new.to_json(), &mut changes);
        changes
    }

    /// The settings that a scheduler with these settings can take over from `new`, and the fields that cannot change
    /// while the scheduler runs. These fields are `leaderElection`, `delayCacheUntilActive`, and the fields of
    /// `clientConnection` except `qps` and `burst`.
    #[must_use]
    pub fn take_over(&self, new: Self) -> (Self, Vec<Change>) {
        let ClientConnection { qps, burst, .. } = new.client_connection;
        let taken = Self {
            leader_election: self.leader_election.clone(),
            client_connection: ClientConnection { qps, burst, ..self.client_connection.clone() },
            delay_cache_until_active: self.delay_cache_until_active,
            ..new.clone()
        };
        let left = taken.changes_to(&new);
        (taken, left)
    }
}

fn compare(field: String, old: &Value, new: &Value, changes: &mut Vec<Change>) {
    if old == new {
        return;
    }
    match (entries(old), entries(new)) {
        (Some(old), Some(new)) => {
            let names: BTreeSet<&str> = old.iter().chain(&new).map(|(name, _)| name.as_str()).collect();
            for name in names {
                let find = |entries: &[(String, &Value)]| {
                    let found = entries.iter().find(|(other, _)| other == name);
                    found.map_or(Value::Null, |(_, value)| (*value).clone())
                };
                let field =
                    if field.is_empty() { name.trim_start_matches('.').to_owned() } else { format!("{field}{name}") };
                compare(field, &find(&old), &find(&new), changes);
            }
        }
        (Some(_), None) | (None, Some(_)) | (None, None) => {
            changes.push(Change { field, old: old.clone(), new: new.clone() });
        }
    }
}

/// The parts of an object, or of a list in which the elements have names and the order has no meaning. Each part comes
/// with the text that it adds to the path of the field.
fn entries(value: &Value) -> Option<Vec<(String, &Value)>> {
    match value {
        Value::Object(fields) => Some(fields.iter().map(|(name, value)| (format!(".{name}"), value)).collect()),
        Value::Array(elements) => elements
            .iter()
            .map(|element| {
                // Entries of `profiles` and of `pluginConfig`.
                let scheduler_name = element["schedulerName"].as_str();
                let plugin = element["name"].as_str().filter(|_| element["args"].is_object());
                Some((format!("[{}]", scheduler_name.or(plugin)?), element))
            })
            .collect::<Option<Vec<_>>>()
            .filter(|entries| !entries.is_empty()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_tree::testing::in_tree;

    fn settings(text: &str) -> Settings {
        let text = format!("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{text}");
        Settings::from_text("test", &text, &in_tree()).expect("valid")
    }

    fn changes(old: &str, new: &str) -> Vec<String> {
        settings(old).changes_to(&settings(new)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_field_that_differs_is_named() {
        assert_eq!(changes("", ""), [""; 0]);
        let new = "percentageOfNodesToScore: 30\nleaderElection: {leaderElect: false}";
        assert_eq!(
            changes("", new),
            ["leaderElection.leaderElect: true -> false", "percentageOfNodesToScore: 0 -> 30"]
        );
    }

    #[test]
    fn profiles_and_arguments_are_compared_by_name() {
        let old = "profiles: [{schedulerName: a}, {schedulerName: b}]";
        let args = "pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 3}}]";
        let new = format!("profiles: [{{schedulerName: b}}, {{schedulerName: a, {args}}}]");
        let field = "profiles[a].pluginConfig[InterPodAffinity].args.hardPodAffinityWeight";
        assert_eq!(changes(old, &new), [format!("{field}: 1 -> 3")]);
        let changed = changes(
            old,
            "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {score: {disabled: [{name: '*'}]}}}]",
        );
        assert_eq!(changed, ["profiles[b].plugins.score: null -> {\"disabled\":[{\"name\":\"*\"}]}"]);
        let gone = settings(old).changes_to(&settings("profiles: [{schedulerName: a}]"));
        assert_eq!((gone.len(), gone[0].field.as_str(), &gone[0].new), (1, "profiles[b]", &Value::Null));
    }

    #[test]
    fn what_cannot_change_stays_and_is_told() {
        let running = settings("");
        let new = settings(
            "podMaxBackoffSeconds: 20\nclientConnection: {qps: 7, kubeconfig: /k}\nleaderElection: {leaderElect: false}",
        );
        let (taken, left) = running.take_over(new);
        let left: Vec<&str> = left.iter().map(|change| change.field.as_str()).collect();
        assert_eq!(left, ["clientConnection.kubeconfig", "leaderElection.leaderElect"]);
        let taken: Vec<String> = running.changes_to(&taken).iter().map(ToString::to_string).collect();
        assert_eq!(taken, ["clientConnection.qps: 50.0 -> 7.0", "podMaxBackoffSeconds: 10 -> 20"]);
    }
}
