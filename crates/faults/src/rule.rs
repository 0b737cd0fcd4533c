//! The content of a rule, and its reading from JSON or YAML.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request_info::{RequestInfo, VERBS};

/// A fault, the requests that meet the fault, the number of these requests, and the duration of the rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// The name under which the rule is listed and removed. If it is empty, the name is `fault-1`, `fault-2` and so on.
    #[serde(default)]
    pub name: String,
    /// The requests that the rule is about. Without this field, the rule is about all requests.
    #[serde(default, rename = "match")]
    pub matches: Match,
    /// The fault of the requests that the rule selects.
    pub fault: InjectedFault,
    /// The share of the selected requests that the fault hits. For [`InjectedFault::DuplicateEvents`], the share of the
    /// events.
    #[serde(default = "always")]
    pub probability: f64,
    /// The rule ends after this number of hits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The rule ends this many seconds after it was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<f64>,
    /// The seed that decides which of the matching requests are hit.
    #[serde(default)]
    pub seed: u64,
}

fn always() -> f64 {
    1.0
}

/// The requests that a rule is about. An empty field matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Match {
    /// The API's verbs: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// Plural names, as in RBAC: `pods` without its subresources, `pods/binding`, `pods/*` for all subresources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Requests in one of these namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// The beginning of the header `User-Agent`: `kubectl/`, `berth/`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub user_agent: String,
}

/// The fault of a request or a watch that the rule selects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum InjectedFault {
    /// The request is refused with this HTTP status and is not carried out. The status 429 comes in plain text, as from
    /// API Priority and Fairness. The status 410 only applies to lists and watches that name a `resourceVersion`. On a
    /// watch, it comes as the first event.
    Status {
        /// The status, from 400 to 599.
        code: u16,
        /// The header `Retry-After`. Its default for the status 429 is 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_seconds: Option<u32>,
    },
    /// The request is carried out after a delay.
    Latency {
        /// The delay.
        milliseconds: u64,
    },
    /// The request is carried out. Its connection is closed without an answer.
    LostAnswer {},
    /// The connection of a watch breaks in the middle of the answer.
    CutWatch {
        /// The delay from the beginning of the watch. For a watch that was already open, the delay begins when the rule
        /// is added.
        #[serde(default)]
        after_milliseconds: u64,
    },
    /// The connection of a watch stays open, but no more data arrives, not even the end of the answer.
    SilentWatch {
        /// The delay, counted from the same time as in [`InjectedFault::CutWatch`].
        #[serde(default)]
        after_milliseconds: u64,
    },
    /// Events of a watch are sent twice.
    DuplicateEvents {},
    /// The server is not available. It closes connections without an answer and cuts open watches.
    Outage {},
}

/// The reason why rules are not accepted.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// The text is not JSON or YAML.
    #[error("not YAML or JSON: {0}")]
    Syntax(Box<serde_saphyr::Error>),
    /// A field has a value that is not allowed.
    #[error("{field}: {problem}")]
    Field {
        /// The field, such as `faults[0].match.verbs[1]`.
        field: String,
        /// The problem, and what to write instead.
        problem: String,
    },
    /// A rule of this name already exists.
    #[error("fault rule `{0}` already exists: remove it first (DELETE /faults/{0}), or choose another name")]
    NameTaken(String),
}

/// Reads one rule, a list of rules, or an object with the list under `faults`. The text is JSON or YAML.
///
/// # Errors
/// The error says which field is wrong and what to write there.
pub fn read_rules(text: &str) -> Result<Vec<Rule>, RuleError> {
    let document: Value = serde_saphyr::from_str(text).map_err(|error| RuleError::Syntax(Box::new(error)))?;
    let rules = match document {
        Value::Object(mut object) if object.len() == 1 && object.contains_key("faults") => {
            object.remove("faults").unwrap_or_default()
        }
        rule @ Value::Object(_) => Value::Array(vec![rule]),
        other => other,
    };
    let Value::Array(rules) = rules else {
        return Err(field("faults", "expected a list of rules, each an object with `fault`"));
    };
    rules.into_iter().enumerate().map(|(index, rule)| read_rule(rule, &format!("faults[{index}]"))).collect()
}

fn read_rule(value: Value, path: &str) -> Result<Rule, RuleError> {
    let rule: Rule = serde_path_to_error::deserialize(value).map_err(|error| {
        let inner = error.path().to_string();
        let at = if inner == "." { path.to_owned() } else { format!("{path}.{inner}") };
        field(&at, &error.into_inner().to_string())
    })?;
    rule.check(path)?;
    Ok(rule)
}

fn field(field: &str, problem: &str) -> RuleError {
    RuleError::Field { field: field.to_owned(), problem: problem.to_owned() }
}

impl Rule {
    /// The time for which the rule lasts. `None` means that it lasts until it is removed.
    pub(crate) fn duration(&self) -> Option<Duration> {
        self.duration_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }

    /// Checks the values that the types cannot check. `path` is the place of the rule, for the error.
    pub(crate) fn check(&self, path: &str) -> Result<(), RuleError> {
        let at = |name: &str| format!("{path}.{name}");
        let is_name = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-.".contains(letter);
        if !self.name.chars().all(is_name) {
            return Err(field(&at("name"), &format!("`{}`: use lowercase letters, digits, `-` and `.`", self.name)));
        }
        if !(self.probability > 0.0 && self.probability <= 1.0) {
            return Err(field(
                &at("probability"),
                &format!("{}: expected a number above 0 and at most 1", self.probability),
            ));
        }
        if self.count == Some(0) {
            return Err(field(&at("count"), "0: expected at least 1; leave it out for a rule without a limit"));
        }
        if self.duration_seconds.is_some_and(|seconds| !(seconds > 0.0 && seconds <= 1e9)) {
            return Err(field(&at("durationSeconds"), "expected more than 0; leave it out for a rule without an end"));
        }
        self.matches.check(&at("match"))?;
        self.check_fault(path)
    }

    fn check_fault(&self, path: &str) -> Result<(), RuleError> {
        let verbs = |allowed: &[&str]| {
            let other = self.matches.verbs.iter().position(|verb| !allowed.contains(&verb.as_str()));
            other.map_or(Ok(()), |index| {
                let problem =
                    format!("this fault applies only to {}: name only these verbs, or none", allowed.join(" and "));
                Err(field(&format!("{path}.match.verbs[{index}]"), &problem))
            })
        };
        match &self.fault {
            InjectedFault::Status { code, .. } if !(400..=599).contains(code) => {
                Err(field(&format!("{path}.fault.code"), &format!("{code}: expected an HTTP status from 400 to 599")))
            }
            InjectedFault::Status { code: 410, .. } => verbs(&["list", "watch"]),
            InjectedFault::CutWatch { .. } | InjectedFault::SilentWatch { .. } | InjectedFault::DuplicateEvents {} => {
                verbs(&["watch"])
            }
            InjectedFault::Outage {} if self.probability < 1.0 || self.count.is_some() => {
                let problem = "an outage affects every request while it lasts: leave out `probability` and `count`, \
                               and limit its time with `durationSeconds`";
                Err(field(&format!("{path}.fault"), problem))
            }
            InjectedFault::Status { .. }
            | InjectedFault::Latency { .. }
            | InjectedFault::LostAnswer {}
            | InjectedFault::Outage {} => Ok(()),
        }
    }
}

impl Match {
    fn check(&self, path: &str) -> Result<(), RuleError> {
        for (index, verb) in self.verbs.iter().enumerate() {
            if !VERBS.contains(&verb.as_str()) {
                let problem = format!("unknown verb `{verb}`: use {}", VERBS.join(", "));
                return Err(field(&format!("{path}.verbs[{index}]"), &problem));
            }
        }
        for (index, resource) in self.resources.iter().enumerate() {
            let (plural, subresource) = resource.split_once('/').unwrap_or((resource, "status"));
            let is_word = |word: &str| !word.is_empty() && word.chars().all(|letter| letter.is_ascii_lowercase());
            if !is_word(plural) || !is_word(subresource) && subresource != "*" {
                let problem = format!(
                    "`{resource}`: write the plural in lowercase letters without its group, as in pods, \
                     pods/binding, pods/*, leases"
                );
                return Err(field(&format!("{path}.resources[{index}]"), &problem));
            }
        }
        Ok(())
    }

    /// Whether the rule is about this request.
    pub(crate) fn covers(&self, request: &RequestInfo) -> bool {
        let is_resource = |wanted: &String| match wanted.strip_suffix("/*") {
            Some(plural) => request.resource.split_once('/').is_some_and(|(of, _)| of == plural),
            None => *wanted == request.resource,
        };
        (self.verbs.is_empty() || self.verbs.iter().any(|verb| verb == request.verb))
            && (self.resources.is_empty() || self.resources.iter().any(is_resource))
            && (self.namespaces.is_empty() || self.namespaces.contains(&request.namespace))
            && request.user_agent.starts_with(&self.user_agent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_rule_is_refused_with_the_field_and_the_fix() {
        for (text, wanted) in [
            ("fault: {type: Status}", "faults[0].fault: missing field `code`"),
            ("fault: {type: Status, code: 200}", "faults[0].fault.code: 200: expected an HTTP status from 400 to 599"),
            (
                "fault: {type: Flood}",
                "faults[0].fault.type: unknown variant `Flood`, expected one of `Status`, `Latency`",
            ),
            ("{fault: {type: Outage}, match: {verb: get}}", "faults[0].match.verb: unknown field `verb`"),
            (
                "{fault: {type: Outage}, match: {verbs: [bind]}}",
                "faults[0].match.verbs[0]: unknown verb `bind`: use get",
            ),
            (
                "{fault: {type: Outage}, match: {resources: [Pods]}}",
                "faults[0].match.resources[0]: `Pods`: write the plural",
            ),
            ("{fault: {type: Outage}, count: 3}", "faults[0].fault: an outage affects every request"),
            (
                "{fault: {type: CutWatch}, match: {verbs: [list]}}",
                "faults[0].match.verbs[0]: this fault applies only \
              to watch",
            ),
            ("[{fault: {type: LostAnswer}}, {fault: {type: LostAnswer}, probability: 2}]", "faults[1].probability: 2"),
            ("faults: 7", "faults: expected a list of rules"),
            ("{{", "not YAML or JSON"),
        ] {
            let error = read_rules(text).expect_err(text).to_string();
            assert!(error.starts_with(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn a_rule_says_as_json_what_was_read() {
        let text = "faults: [{fault: {type: Status, code: 429}, match: {resources: [pods/binding]}, count: 2}]";
        let rules = read_rules(text).expect("a rule");
        let json = serde_json::to_string(&rules).expect("JSON");
        assert_eq!(read_rules(&json).expect("the same"), rules);
    }
}
