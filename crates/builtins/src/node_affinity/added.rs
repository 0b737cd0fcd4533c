//! `addedAffinity` in `NodeAffinityArgs`: node affinity that a profile adds to each of its pods.

use berth_model::{
    Symbols,
    pod::{Operator, Requirement},
};
use serde::Deserialize;
use thiserror::Error;

use crate::{
    args::{self, ArgsError},
    node_rules::{Rule, RuleKey, Term},
    symbol_lookup::{SymbolVersion, UNKNOWN, lookup},
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct NodeAffinityArgs {
    added_affinity: Option<AffinityArgs>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct AffinityArgs {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<SelectorArgs>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: Option<Vec<PreferenceArgs>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct SelectorArgs {
    node_selector_terms: Option<Vec<TermArgs>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PreferenceArgs {
    weight: i32,
    preference: TermArgs,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct TermArgs {
    match_expressions: Option<Vec<RequirementArgs>>,
    match_fields: Option<Vec<RequirementArgs>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RequirementArgs {
    key: String,
    operator: String,
    values: Option<Vec<String>>,
}

/// The reason why an added affinity is refused.
#[derive(Debug, Error)]
pub(super) enum AddedAffinityError {
    #[error(transparent)]
    Args(#[from] ArgsError),
    #[error("addedAffinity: {0:?} is not a supported field")]
    Field(String),
    #[error("addedAffinity: matchFields supports only the operators In and NotIn, with exactly one value")]
    FieldRequirement,
    #[error("addedAffinity: {operator} on {key:?} {why}")]
    Requirement { operator: String, key: String, why: &'static str },
}

/// The added affinity, with the symbols of its strings.
#[derive(Debug, Default)]
pub(super) struct AddedAffinity {
    required: Option<Vec<AddedTerm>>,
    preferred: Vec<(i64, AddedTerm)>,
    /// Whether the args have preferred terms, including the terms that are not in `preferred`.
    has_preferred: bool,
    symbols: SymbolVersion,
}

#[derive(Debug)]
pub(super) struct AddedTerm {
    rules: Vec<AddedRule>,
}

#[derive(Debug)]
struct AddedRule {
    /// The label; `None` for `metadata.name`.
    key: Option<String>,
    values: Vec<String>,
    bound: Option<i64>,
    resolved: Requirement,
}

impl AddedAffinity {
    pub(super) fn parse(plugin: &str, args: &str) -> Result<Self, AddedAffinityError> {
        let args: NodeAffinityArgs = args::parse(plugin, args)?;
        let affinity = args.added_affinity.unwrap_or_default();
        let required = match affinity.required {
            None => None,
            Some(selector) => Some(terms(selector.node_selector_terms.unwrap_or_default())?),
        };
        let given = affinity.preferred.unwrap_or_default();
        let has_preferred = !given.is_empty();
        let mut preferred = Vec::new();
        for PreferenceArgs { weight, preference } in given {
            let term = AddedTerm::parse(preference)?;
            if weight != 0 && !term.rules.is_empty() {
                preferred.push((i64::from(weight), term));
            }
        }
        Ok(Self { required, preferred, has_preferred, symbols: SymbolVersion::default() })
    }

    pub(super) fn required(&self) -> Option<&[AddedTerm]> {
        self.required.as_deref()
    }

    /// The preferred terms with their weights. Terms that add nothing to a score are left out.
    pub(super) fn preferred(&self) -> &[(i64, AddedTerm)] {
        &self.preferred
    }

    /// Whether there are preferred terms. As in kube-scheduler, nodes are scored even if no term adds to a score.
    pub(super) fn has_preferred(&self) -> bool {
        self.has_preferred
    }

    /// Looks up the strings again if there are new symbols.
    pub(super) fn resolve(&mut self, symbols: &Symbols) {
        if !self.symbols.has_changed(symbols) {
            return;
        }
        let terms = self.required.iter_mut().flatten().chain(self.preferred.iter_mut().map(|(_, term)| term));
        for rule in terms.flat_map(|term| &mut term.rules) {
            rule.resolve(symbols);
        }
    }
}

fn terms(args: Vec<TermArgs>) -> Result<Vec<AddedTerm>, AddedAffinityError> {
    args.into_iter().map(AddedTerm::parse).collect()
}

impl AddedTerm {
    fn parse(args: TermArgs) -> Result<Self, AddedAffinityError> {
        let mut rules = Vec::new();
        for requirement in args.match_expressions.unwrap_or_default() {
            rules.push(AddedRule::parse(Some(requirement.key.clone()), requirement)?);
        }
        for requirement in args.match_fields.unwrap_or_default() {
            if requirement.key != "metadata.name" {
                return Err(AddedAffinityError::Field(requirement.key));
            }
            let is_supported = matches!(requirement.operator.as_str(), "In" | "NotIn");
            if !is_supported || requirement.values.as_ref().is_none_or(|values| values.len() != 1) {
                return Err(AddedAffinityError::FieldRequirement);
            }
            rules.push(AddedRule::parse(None, requirement)?);
        }
        Ok(Self { rules })
    }
}

impl Term for AddedTerm {
    fn can_match(&self) -> bool {
        !self.rules.is_empty()
    }

    fn rules<'a>(&'a self, _symbols: &'a Symbols) -> impl Iterator<Item = Rule<'a>> {
        self.rules.iter().map(|rule| Rule {
            subject: rule.key.as_ref().map_or(RuleKey::Name, |_| RuleKey::Label(rule.resolved.key)),
            operator: rule.resolved.operator,
            values: &rule.resolved.values,
            bound: rule.bound,
        })
    }
}

impl AddedRule {
    fn parse(key: Option<String>, args: RequirementArgs) -> Result<Self, AddedAffinityError> {
        let values = args.values.unwrap_or_default();
        let refused =
            |why| Err(AddedAffinityError::Requirement { operator: args.operator.clone(), key: args.key.clone(), why });
        let Some(operator) = Operator::parse(&args.operator) else { return refused("is not an operator") };
        let bound = values.first().and_then(|value| value.parse().ok());
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => return refused("needs values"),
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => return refused("takes no values"),
            Operator::Gt | Operator::Lt if values.len() != 1 || bound.is_none() => return refused("needs one integer"),
            Operator::In
            | Operator::NotIn
            | Operator::Exists
            | Operator::DoesNotExist
            | Operator::Gt
            | Operator::Lt => {}
        }
        let resolved = Requirement { key: UNKNOWN, operator, values: vec![UNKNOWN; values.len()] };
        Ok(Self { key, values, bound, resolved })
    }

    fn resolve(&mut self, symbols: &Symbols) {
        self.resolved.key = self.key.as_deref().map_or(UNKNOWN, |key| lookup(symbols, key));
        for (sym, text) in self.resolved.values.iter_mut().zip(&self.values) {
            *sym = lookup(symbols, text);
        }
    }
}
