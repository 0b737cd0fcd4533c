//! Label selectors and node selectors, over plain strings.
//!
//! Compiled once, matched many times. Nothing here is interned: this is the meaning that the faster matchers of the
//! node table are tested against, and the words for selectors that the API server would have refused.
//!
//! Rules: Kubernetes' documentation on labels and selectors and on node affinity.

use std::fmt;

use crate::api::{self, StringMap};

pub use self::requirement::{Operator, Requirement, RequirementError};

mod requirement;

/// The only field of a node that `matchFields` can name.
const NODE_NAME_FIELD: &str = "metadata.name";

/// All that is wrong with a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectorError(Vec<RequirementError>);

/// A label selector ready to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelMatcher {
    /// Sorted by key. `None` matches nothing, no requirements match everything.
    requirements: Option<Vec<Requirement>>,
}

/// A node selector ready to match: any one of its terms suffices.
#[derive(Clone, Debug)]
pub struct NodeMatcher {
    terms: Vec<Result<NodeTerm, Vec<RequirementError>>>,
}

/// Weighted terms ready to score.
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
    /// An absent selector matches nothing, an empty one everything.
    ///
    /// # Errors
    /// Names all that is wrong with the first requirement that the API server would refuse.
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

    /// Whether it matches everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Sorted by key; `None` if it matches nothing.
    #[must_use]
    pub fn requirements(&self) -> Option<&[Requirement]> {
        self.requirements.as_deref()
    }
}

/// Writes the selector as Kubernetes prints selectors; empty for one that matches nothing or everything.
impl fmt::Display for LabelMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.requirements.as_deref().unwrap_or_default();
        f.write_str(&all.iter().map(Requirement::to_string).collect::<Vec<_>>().join(","))
    }
}

impl NodeMatcher {
    /// Terms without requirements are left out; one that can't be read matches nothing but does no harm to others.
    #[must_use]
    pub fn compile(selector: &api::NodeSelector) -> Self {
        let terms = selector.node_selector_terms.iter().enumerate().filter(|(_, term)| !is_empty(term));
        Self { terms: terms.map(|(at, term)| NodeTerm::compile(&format!("nodeSelectorTerms[{at}]"), term)).collect() }
    }

    /// What the API server would refuse in any of the terms.
    ///
    /// # Errors
    /// Names all that is wrong with the selector.
    pub fn validate(&self) -> Result<(), SelectorError> {
        let errors: Vec<_> = self.terms.iter().filter_map(|term| term.as_ref().err()).flatten().cloned().collect();
        if errors.is_empty() { Ok(()) } else { Err(SelectorError(errors)) }
    }

    /// Whether a node meets one of the terms.
    ///
    /// # Errors
    /// Fails if no term matches and some can't be read, with all that is wrong with those.
    pub fn matches(&self, node_name: &str, node_labels: &StringMap) -> Result<bool, SelectorError> {
        let mut readable = self.terms.iter().flatten();
        if readable.any(|term| term.matches(node_name, node_labels)) {
            return Ok(true);
        }
        self.validate().map(|()| false)
    }
}

impl PreferredMatcher {
    /// Terms without weight or requirements are left out.
    ///
    /// # Errors
    /// Names all that is wrong with the remaining terms.
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
        // A field other than the name reads as empty, not as absent.
        let field = |requirement: &Requirement| if requirement.key() == NODE_NAME_FIELD { node_name } else { "" };
        self.labels.iter().all(|requirement| requirement.matches(node_labels))
            && self.fields.iter().all(|requirement| requirement.accepts(Some(field(requirement))))
    }
}

fn is_empty(term: &api::NodeSelectorTerm) -> bool {
    term.match_expressions.is_empty() && term.match_fields.is_empty()
}

/// What the API server would refuse in one term of a node selector, a line each. Lines begin with a dot, ready to follow
/// the path of the term.
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

/// One error as it is, several as a list in brackets, each text once.
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
