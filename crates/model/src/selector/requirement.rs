//! One requirement of a selector, with the labels that it accepts and the errors for which it is refused.

use std::fmt;

use crate::api::{NodeSelectorRequirement, StringMap};
use crate::qualified_name;

/// The comparison with a label. Equality from `matchLabels` differs from `In` only in how it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The label is present and has the only value of the requirement.
    Equals,
    /// The label is present and has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The label is an integer above the value.
    Gt,
    /// The label is an integer below the value.
    Lt,
}

/// A well-formed requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    /// The values, sorted.
    values: Vec<String>,
}

/// The reason why a requirement is refused, with the text of the API server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequirementError {
    /// The operator is not an operator of label selectors.
    #[error("{operator:?} is not a valid label selector operator")]
    LabelOperator {
        /// The operator as written.
        operator: String,
    },
    /// The operator is not an operator of this part of a node selector.
    #[error("{path}: Unsupported value: {operator:?}: supported values: {supported}")]
    NodeOperator {
        /// The path of the operator.
        path: String,
        /// The operator as written.
        operator: String,
        /// The operators that are supported, quoted and separated by commas.
        supported: &'static str,
    },
    /// A key or a value cannot be part of a label, or a value is not an integer where an integer is needed.
    #[error("{path}: Invalid value: {text:?}: {problem}")]
    Text {
        /// The path of the text.
        path: String,
        /// The key or value as written.
        text: String,
        /// The error in the text.
        problem: String,
    },
    /// The number of values is wrong.
    #[error("{path}: Invalid value: {values}: {problem}")]
    ValueCount {
        /// The path of the values.
        path: String,
        /// The values as JSON.
        values: String,
        /// The error in the values.
        problem: &'static str,
    },
}

impl Requirement {
    /// Checks a requirement. The result contains all errors. `path` is the requirement's path, and is empty or ends
    /// with a dot.
    pub(super) fn new(
        path: &str,
        key: &str,
        operator: Operator,
        values: &[String],
    ) -> Result<Self, Vec<RequirementError>> {
        let mut errors = key_errors(path, key);
        errors.extend(operator.value_errors(path, values));
        for (idx, value) in values.iter().enumerate() {
            let problems = qualified_name::value_problems(value);
            if !problems.is_empty() {
                let path = format!("{path}values[{idx}][{key}]");
                errors.push(RequirementError::Text { path, text: value.clone(), problem: problems.join("; ") });
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut values = values.to_vec();
        values.sort_unstable();
        Ok(Self { key: key.to_owned(), operator, values })
    }

    /// Checks a requirement of a node's field. The only field is `metadata.name`, and it must have exactly one value.
    pub(super) fn of_field(path: &str, written: &NodeSelectorRequirement) -> Result<Self, Vec<RequirementError>> {
        let operator = match written.operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            _ => return Err(vec![unsupported(path, &written.operator, r#""In", "NotIn""#)]),
        };
        if written.values.len() != 1 {
            return Err(vec![value_count(path, &written.values, "must have one element")]);
        }
        Ok(Self { key: written.key.clone(), operator, values: written.values.clone() })
    }

    /// The label that the requirement checks.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The operator of the requirement.
    #[must_use]
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values of the requirement, sorted.
    #[must_use]
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// Whether labels meet the requirement.
    #[must_use]
    pub fn matches(&self, labels: &StringMap) -> bool {
        self.accepts(labels.get(&self.key).map(String::as_str))
    }

    /// Whether the label's value meets the requirement; `None` is an absent label.
    pub(super) fn accepts(&self, label: Option<&str>) -> bool {
        let is_listed = || label.is_some_and(|label| self.values.iter().any(|value| value == label));
        match self.operator {
            Operator::Equals | Operator::In => is_listed(),
            Operator::NotIn => !is_listed(),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::Gt => self.integers(label).is_some_and(|(label, bound)| label > bound),
            Operator::Lt => self.integers(label).is_some_and(|(label, bound)| label < bound),
        }
    }

    fn integers(&self, label: Option<&str>) -> Option<(i64, i64)> {
        Some((label?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

impl Operator {
    /// Reads the operator of a node selector's `matchExpressions`.
    pub(super) fn of_node_selector(path: &str, text: &str) -> Result<Self, Vec<RequirementError>> {
        match text {
            "Gt" => Ok(Self::Gt),
            "Lt" => Ok(Self::Lt),
            _ => Self::of_label_selector(text)
                .map_err(|_| vec![unsupported(path, text, r#""In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt""#)]),
        }
    }

    /// Reads the operator of a label selector's `matchExpressions`.
    pub(super) fn of_label_selector(text: &str) -> Result<Self, Vec<RequirementError>> {
        match text {
            "In" => Ok(Self::In),
            "NotIn" => Ok(Self::NotIn),
            "Exists" => Ok(Self::Exists),
            "DoesNotExist" => Ok(Self::DoesNotExist),
            _ => Err(vec![RequirementError::LabelOperator { operator: text.to_owned() }]),
        }
    }

    fn value_errors(self, path: &str, values: &[String]) -> Vec<RequirementError> {
        match (self, values) {
            (Self::In | Self::NotIn, []) => {
                vec![value_count(path, values, "for 'in', 'notin' operators, values set can't be empty")]
            }
            (Self::Exists | Self::DoesNotExist, [_, ..]) => {
                vec![value_count(path, values, "values set must be empty for exists and does not exist")]
            }
            (Self::Gt | Self::Lt, [value]) if value.parse::<i64>().is_err() => vec![RequirementError::Text {
                path: format!("{path}values[0]"),
                text: value.clone(),
                problem: "for 'Gt', 'Lt' operators, the value must be an integer".to_owned(),
            }],
            (Self::Gt | Self::Lt, [] | [_, _, ..]) => {
                vec![value_count(path, values, "for 'Gt', 'Lt' operators, exactly one value is required")]
            }
            (Self::Equals | Self::In | Self::NotIn | Self::Exists | Self::DoesNotExist | Self::Gt | Self::Lt, _) => {
                Vec::new()
            }
        }
    }
}

/// Writes the requirement as Kubernetes prints selectors: `app=web`, `tier in (a,b)`, `!legacy`.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.values.join(",");
        match self.operator {
            Operator::Equals => write!(f, "{}={values}", self.key),
            Operator::In => write!(f, "{} in ({values})", self.key),
            Operator::NotIn => write!(f, "{} notin ({values})", self.key),
            Operator::Exists => f.write_str(&self.key),
            Operator::DoesNotExist => write!(f, "!{}", self.key),
            Operator::Gt => write!(f, "{}>{values}", self.key),
            Operator::Lt => write!(f, "{}<{values}", self.key),
        }
    }
}

fn key_errors(path: &str, key: &str) -> Vec<RequirementError> {
    let problems = qualified_name::problems(key);
    if problems.is_empty() {
        return Vec::new();
    }
    let path = format!("{path}key");
    vec![RequirementError::Text { path, text: key.to_owned(), problem: problems.join("; ") }]
}

fn unsupported(path: &str, operator: &str, supported: &'static str) -> RequirementError {
    RequirementError::NodeOperator { path: format!("{path}operator"), operator: operator.to_owned(), supported }
}

fn value_count(path: &str, values: &[String], problem: &'static str) -> RequirementError {
    let quoted: Vec<_> = values.iter().map(|value| format!("{value:?}")).collect();
    let values = if quoted.is_empty() { "null".to_owned() } else { format!("[{}]", quoted.join(",")) };
    RequirementError::ValueCount { path: format!("{path}values"), values, problem }
}
