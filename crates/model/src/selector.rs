//! Label selectors and node selectors for plain strings.
//!
//! A selector is compiled once and matched many times. No string is interned. Tests compare the faster matchers of the
//! node table with these selectors. These selectors also give the error messages for selectors that the API server
//! would have refused.
//!
//! The rules are in Kubernetes' documentation on labels and selectors and on node affinity.

use std::fmt;

use crate::api::{self, StringMap};

pub use self::requirement::{Operator, Requirement, RequirementError};

mod requirement;

/// The only node field that `matchFields` can name.
const NODE_NAME_FIELD: &str = "metadata.name";

/// All errors of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorError(Vec<RequirementError>);

/// A compiled label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelMatcher {
    /// The requirements, sorted by key. `None` matches nothing, and an empty list matches everything.
    requirements: Option<Vec<Requirement>>,
}

/// A compiled node selector, which matches if one of its terms matches.
#[derive(Clone, Debug)]
pub struct NodeMatcher {
    terms: Vec<Result<NodeTerm, Vec<RequirementError>>>,
}

/// Compiled terms with weights.
#[derive(Clone, Debug)]
pub struct PreferredMatcher {
    terms: Vec<(i32, NodeTerm)>,
}

#[derive(Clone, Debug)]
struct NodeTerm {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

impl LabelMatcher {
    /// Compiles a selector. An absent selector matches nothing, and an empty one matches everything.
    ///
    /// # Errors
    /// The API server would refuse a requirement. The error contains all that is wrong with the first such requirement.
    pub fn compile(selector: Option<&api::LabelSelector>) -> Result<Self, SelectorError> {
        let Some(selector) = selector else {
            return Ok(Self { requirements: None });
        };
        let mut requirements = Vec::new();
        for (key, value) in &selector.match_labels {
            let values = std::slice::from_ref(value);
            requirements.push(Requirement::new("", key, Operator::Equals, values).map_err(SelectorError)?);
        }
        for written in &selector.match_expressions {
            let operator = Operator::of_label_selector(&written.operator).map_err(SelectorError)?;
            let requirement = Requirement::new("", &written.key, operator, &written.values);
            requirements.push(requirement.map_err(SelectorError)?);
        }
        requirements.sort_by(|left, right| left.key().cmp(right.key()));
        Ok(Self { requirements: Some(requirements) })
    }

    /// Whether labels meet every requirement.
    #[must_use]
    pub fn matches(&self, labels: &StringMap) -> bool {
        self.requirements.as_ref().is_some_and(|all| all.iter().all(|requirement| requirement.matches(labels)))
    }

    /// Whether the selector matches everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// The requirements, sorted by key; `None` if the selector matches nothing.
    #[must_use]
    pub fn requirements(&self) -> Option<&[Requirement]> {
        self.requirements.as_deref()
    }
}

/// Writes the selector as Kubernetes prints it. The text is empty for a selector that matches nothing or everything.
impl fmt::Display for LabelMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.requirements.as_deref().unwrap_or_default();
        f.write_str(&all.iter().map(Requirement::to_string).collect::<Vec<_>>().join(","))
    }
}

impl NodeMatcher {
    /// Compiles a selector. Terms without requirements are left out. A term with errors matches nothing and does not
    /// affect other terms.
    #[must_use]
    pub fn compile(selector: &api::NodeSelector) -> Self {
        let terms = selector.node_selector_terms.iter().enumerate().filter(|(_, term)| !is_empty(term));
        Self { terms: terms.map(|(at, term)| NodeTerm::compile(&format!("nodeSelectorTerms[{at}]"), term)).collect() }
    }

    /// Checks that the API server would accept the terms.
    ///
    /// # Errors
    /// The API server would refuse the selector. The error contains all that is wrong with it.
    pub fn validate(&self) -> Result<(), SelectorError> {
        let errors: Vec<_> = self.terms.iter().filter_map(|term| term.as_ref().err()).flatten().cloned().collect();
        if errors.is_empty() { Ok(()) } else { Err(SelectorError(errors)) }
    }

    /// Whether a node meets one of the terms.
    ///
    /// # Errors
    /// No term matches and some have errors. The error contains everything that is wrong with these terms.
    pub fn matches(&self, node_name: &str, node_labels: &StringMap) -> Result<bool, SelectorError> {
        let mut readable = self.terms.iter().flatten();
        if readable.any(|term| term.matches(node_name, node_labels)) {
            return Ok(true);
        }
        self.validate().map(|()| false)
    }
}

impl PreferredMatcher {
    /// Compiles terms. Terms without weight or requirements are left out.
    ///
    /// # Errors
    /// The remaining terms have errors. The error contains everything that is wrong with these terms.
    pub fn compile(preferred: &[api::PreferredSchedulingTerm]) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        let mut errors = Vec::new();
        for (at, preferred) in preferred.iter().enumerate() {
            if preferred.weight == 0 || is_empty(&preferred.preference) {
                continue;
            }
            match NodeTerm::compile(&format!("[{at}]"), &preferred.preference) {
                Ok(term) => terms.push((preferred.weight, term)),
                Err(of_term) => errors.extend(of_term),
            }
        }
        if errors.is_empty() { Ok(Self { terms }) } else { Err(SelectorError(errors)) }
    }

    /// The sum of the weights of the terms that a node meets.
    #[must_use]
    pub fn score(&self, node_name: &str, node_labels: &StringMap) -> i64 {
        let met = self.terms.iter().filter(|(_, term)| term.matches(node_name, node_labels));
        met.map(|(weight, _)| i64::from(*weight)).sum()
    }
}

impl NodeTerm {
    fn compile(path: &str, term: &api::NodeSelectorTerm) -> Result<Self, Vec<RequirementError>> {
        let mut errors = Vec::new();
        let mut labels = Vec::new();
        for (at, written) in term.match_expressions.iter().enumerate() {
            let path = format!("{path}.matchExpressions[{at}].");
            let requirement = Operator::of_node_selector(&path, &written.operator)
                .and_then(|operator| Requirement::new(&path, &written.key, operator, &written.values));
            match requirement {
                Ok(requirement) => labels.push(requirement),
                Err(of_requirement) => errors.extend(of_requirement),
            }
        }
        let mut fields = Vec::new();
        for (at, written) in term.match_fields.iter().enumerate() {
            match Requirement::of_field(&format!("{path}.matchFields[{at}]."), written) {
                Ok(requirement) => fields.push(requirement),
                Err(of_requirement) => errors.extend(of_requirement),
            }
        }
        if errors.is_empty() { Ok(Self { labels, fields }) } else { Err(errors) }
    }

    fn matches(&self, node_name: &str, node_labels: &StringMap) -> bool {
        // Every field other than `metadata.name` has an empty value. It is not absent.
        let field = |requirement: &Requirement| if requirement.key() == NODE_NAME_FIELD { node_name } else { "" };
        self.labels.iter().all(|requirement| requirement.matches(node_labels))
            && self.fields.iter().all(|requirement| requirement.accepts(Some(field(requirement))))
    }
}

fn is_empty(term: &api::NodeSelectorTerm) -> bool {
    term.match_expressions.is_empty() && term.match_fields.is_empty()
}

/// The errors for which the API server would refuse a term of a node selector, one error in each line. Lines begin with
/// a dot, so that they can follow the path of the term.
#[must_use]
pub fn node_term_error(term: &api::NodeSelectorTerm) -> Option<String> {
    let errors = NodeTerm::compile("", term).err()?;
    Some(errors.iter().map(RequirementError::to_string).collect::<Vec<_>>().join("\n"))
}

impl SelectorError {
    /// The errors one by one, in the order of the selector.
    #[must_use]
    pub fn errors(&self) -> &[RequirementError] {
        &self.0
    }
}

impl std::error::Error for SelectorError {}

/// Writes a single error unchanged, and several errors as a list in brackets without repetitions.
impl fmt::Display for SelectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut texts: Vec<String> = Vec::new();
        for text in self.0.iter().map(RequirementError::to_string) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        match texts.as_slice() {
            [only] => f.write_str(only),
            several => write!(f, "[{}]", several.join(", ")),
        }
    }
}
