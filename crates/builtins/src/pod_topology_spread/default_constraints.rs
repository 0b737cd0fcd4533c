//! `PodTopologySpreadArgs`: constraints for pods without constraints.

use berth_model::{Sym, Symbols, pod::SpreadConstraint};
use serde::Deserialize;

use crate::{
    args::ArgsError,
    symbol_lookup::{SymbolVersion, UNKNOWN, lookup},
};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SpreadArgs {
    defaulting_type: Option<String>,
    default_constraints: Option<Vec<ConstraintArgs>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct ConstraintArgs {
    max_skew: i32,
    topology_key: String,
    when_unsatisfiable: String,
    label_selector: Option<serde_json::Value>,
    min_domains: Option<i32>,
    node_affinity_policy: Option<String>,
    node_taints_policy: Option<String>,
    /// The field has no effect, because the whole selector of a default constraint is replaced.
    match_label_keys: Option<Vec<String>>,
}

/// The constraints for pods without constraints.
#[derive(Debug)]
pub(super) struct DefaultConstraints {
    is_system: bool,
    /// The topology keys of the listed constraints, in the order of the constraints. Empty for the constraints of the
    /// system, because their keys have well-known symbols.
    topology_keys: Vec<String>,
    constraints: Vec<SpreadConstraint>,
    symbols: SymbolVersion,
}

impl DefaultConstraints {
    pub(super) fn new(args: SpreadArgs) -> Result<Self, ArgsError> {
        let given = args.default_constraints.unwrap_or_default();
        match args.defaulting_type.as_deref().unwrap_or_default() {
            "" | "System" if given.is_empty() => Ok(Self::system()),
            "" | "System" => {
                let why = "when .defaultConstraints are not empty, use List";
                Err(ArgsError::invalid(".defaultingType", "\"System\"", why))
            }
            "List" => Self::list(&given),
            other => Err(unsupported(".defaultingType", other, "System", "List")),
        }
    }

    /// Whether `defaultingType` is `System`. With `System`, nodes that lack a topology key are scored too.
    pub(super) fn is_system(&self) -> bool {
        self.is_system
    }

    pub(super) fn is_empty(&self) -> bool {
        self.constraints.is_empty()
    }

    /// The built-in constraints of KEP-1258, both soft. They prefer few pods of a workload on one node and in one zone.
    fn system() -> Self {
        let soft = |topology_key, max_skew| SpreadConstraint { max_skew, topology_key, ..blank() };
        Self {
            is_system: true,
            topology_keys: Vec::new(),
            constraints: vec![soft(Sym::HOSTNAME_LABEL, 3), soft(Sym::ZONE_LABEL, 5)],
            symbols: SymbolVersion::default(),
        }
    }

    fn list(given: &[ConstraintArgs]) -> Result<Self, ArgsError> {
        let mut defaults = Self {
            is_system: false,
            topology_keys: Vec::new(),
            constraints: Vec::new(),
            symbols: SymbolVersion::default(),
        };
        for (at, args) in given.iter().enumerate() {
            let path = format!(".defaultConstraints[{at}]");
            let constraint = args.check(&path)?;
            let mut earlier = defaults.topology_keys.iter().zip(&defaults.constraints);
            if earlier.any(|(key, it)| *key == args.topology_key && it.is_hard == constraint.is_hard) {
                let value = format!("{{{:?}, {:?}}}", args.topology_key, args.when_unsatisfiable);
                return Err(ArgsError::Duplicate { path, value });
            }
            defaults.topology_keys.push(args.topology_key.clone());
            defaults.constraints.push(constraint);
        }
        Ok(defaults)
    }

    /// The constraints, without selectors.
    pub(super) fn get(&mut self, symbols: &Symbols) -> &[SpreadConstraint] {
        if self.symbols.has_changed(symbols) {
            for (constraint, key) in self.constraints.iter_mut().zip(&self.topology_keys) {
                constraint.topology_key = lookup(symbols, key);
            }
        }
        &self.constraints
    }
}

/// A soft constraint without a topology key, with the API's defaults.
fn blank() -> SpreadConstraint {
    SpreadConstraint {
        max_skew: 1,
        topology_key: UNKNOWN,
        is_hard: false,
        selector: None,
        min_domains: 1,
        honor_node_affinity: true,
        honor_node_taints: false,
    }
}

impl ConstraintArgs {
    fn check(&self, path: &str) -> Result<SpreadConstraint, ArgsError> {
        let at = |field: &str| format!("{path}.{field}");
        if self.max_skew <= 0 {
            return Err(ArgsError::invalid(at("maxSkew"), self.max_skew, "not in valid range (0, inf)"));
        }
        for (field, text) in [("topologyKey", &self.topology_key), ("whenUnsatisfiable", &self.when_unsatisfiable)] {
            if text.is_empty() {
                return Err(ArgsError::Required { path: at(field) });
            }
        }
        let is_hard = is_first(&at("whenUnsatisfiable"), &self.when_unsatisfiable, "DoNotSchedule", "ScheduleAnyway")?;
        if self.label_selector.is_some() {
            let why = "constraint must not define a selector, as they deduced for each pod";
            return Err(ArgsError::Forbidden { path: at("labelSelector"), why });
        }
        if let Some(min_domains) = self.min_domains.filter(|min_domains| *min_domains <= 0) {
            return Err(ArgsError::invalid(at("minDomains"), min_domains, "must be greater than 0"));
        }
        let honors = |field: &str, policy: &Option<String>, default| match policy {
            Some(policy) => is_first(&at(field), policy, "Honor", "Ignore"),
            None => Ok(default),
        };
        Ok(SpreadConstraint {
            max_skew: self.max_skew,
            is_hard,
            min_domains: self.min_domains.unwrap_or(1),
            honor_node_affinity: honors("nodeAffinityPolicy", &self.node_affinity_policy, true)?,
            honor_node_taints: honors("nodeTaintsPolicy", &self.node_taints_policy, false)?,
            ..blank()
        })
    }
}

/// Whether `value` is the first of the two supported values.
fn is_first(path: &str, value: &str, first: &str, second: &str) -> Result<bool, ArgsError> {
    if value == first || value == second { Ok(value == first) } else { Err(unsupported(path, value, first, second)) }
}

fn unsupported(path: &str, value: &str, first: &str, second: &str) -> ArgsError {
    let supported = format!("{first:?}, {second:?}");
    ArgsError::Unsupported { path: path.to_owned(), value: value.to_owned(), supported }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &str) -> Result<DefaultConstraints, ArgsError> {
        DefaultConstraints::new(crate::args::parse("PodTopologySpread", args)?)
    }

    #[test]
    fn system_defaults_are_soft() {
        for args in ["", "null", "{}", r#"{"defaultingType":"System","defaultConstraints":[]}"#] {
            let mut defaults = parse(args).unwrap();
            assert!(defaults.is_system());
            let found: Vec<_> =
                defaults.get(&Symbols::default()).iter().map(|it| (it.topology_key, it.max_skew, it.is_hard)).collect();
            assert_eq!(found, [(Sym::HOSTNAME_LABEL, 3, false), (Sym::ZONE_LABEL, 5, false)]);
        }
    }

    #[test]
    fn listed_keys_are_looked_up_again_when_there_are_new_symbols() {
        let list = r#"{"defaultingType":"List","defaultConstraints":[
            {"maxSkew":2,"topologyKey":"rack","whenUnsatisfiable":"DoNotSchedule","nodeTaintsPolicy":"Honor"}]}"#;
        let mut defaults = parse(list).unwrap();
        assert!(!defaults.is_system());
        let mut symbols = Symbols::default();
        assert_eq!(defaults.get(&symbols)[0].topology_key, UNKNOWN);
        let rack = symbols.intern("rack");
        let [constraint] = defaults.get(&symbols) else { panic!("one constraint") };
        assert_eq!((constraint.topology_key, constraint.is_hard, constraint.honor_node_taints), (rack, true, true));
    }

    #[test]
    fn invalid_args_are_refused() {
        let list = |constraints: &str| format!(r#"{{"defaultingType":"List","defaultConstraints":[{constraints}]}}"#);
        let fine = r#"{"maxSkew":1,"topologyKey":"k","whenUnsatisfiable":"DoNotSchedule"}"#;
        let with = |more: &str| list(&fine.replace('}', &format!(",{more}}}")));
        let cases = [
            (format!(r#"{{"defaultConstraints":[{fine}]}}"#), ".defaultingType: Invalid value: \"System\""),
            (r#"{"defaultingType":"Some"}"#.to_owned(), ".defaultingType: Unsupported value: \"Some\""),
            (r#"{"nonsense":1}"#.to_owned(), "unknown field `nonsense`"),
            (list(&format!("{fine},{fine}")), ".defaultConstraints[1]: Duplicate value"),
            (list(&fine.replace('1', "0")), ".defaultConstraints[0].maxSkew: Invalid value: 0"),
            (list(&fine.replace("\"k\"", "\"\"")), ".defaultConstraints[0].topologyKey: Required value"),
            (list(r#"{"maxSkew":1,"topologyKey":"k"}"#), ".defaultConstraints[0].whenUnsatisfiable: Required value"),
            (list(&fine.replace("Do", "Ho")), ".defaultConstraints[0].whenUnsatisfiable: Unsupported value"),
            (with(r#""labelSelector":{}"#), ".defaultConstraints[0].labelSelector: Forbidden"),
            (with(r#""minDomains":0"#), ".defaultConstraints[0].minDomains: Invalid value: 0"),
            (with(r#""nodeTaintsPolicy":"No""#), ".defaultConstraints[0].nodeTaintsPolicy: Unsupported value: \"No\""),
            (with(r#""maxSkews":2"#), "unknown field `maxSkews`"),
        ];
        for (args, expected) in cases {
            let error = parse(&args).unwrap_err().to_string();
            assert!(error.contains(expected), "{args}: {error}");
        }
        assert!(parse(&with(r#""minDomains":2,"nodeAffinityPolicy":"Ignore","matchLabelKeys":["app"]"#)).is_ok());
    }
}
