//! Node selectors and node selector terms, compared with the names and labels of nodes.
//!
//! A term narrows a set of nodes requirement by requirement. Each requirement takes one look-up of the label column,
//! and one comparison of symbols for each remaining node. [`Rule::admits`] decides for sets of nodes and for single
//! nodes.

use berth_model::{
    ClusterTable, Node, NodeIdx, NodeSet, Pod, Sym, Symbols,
    pod::{NodeTerm, Operator, Requirement},
};

/// The part of a node that a requirement is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleKey {
    Label(Sym),
    /// `metadata.name`.
    Name,
}

/// One requirement of a term, or one label of a node selector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule<'a> {
    pub(crate) subject: RuleKey,
    pub(crate) operator: Operator,
    pub(crate) values: &'a [Sym],
    /// The integer that `Gt` and `Lt` compare with. If it is `None`, no value is greater or less.
    pub(crate) bound: Option<i64>,
}

impl<'a> Rule<'a> {
    fn of(subject: RuleKey, requirement: &'a Requirement, symbols: &Symbols) -> Self {
        let is_ordered = matches!(requirement.operator, Operator::Gt | Operator::Lt);
        let bound = if is_ordered { requirement.values.first().and_then(|&sym| integer(sym, symbols)) } else { None };
        Self { subject, operator: requirement.operator, values: &requirement.values, bound }
    }

    /// The label `key` equals `value`, as in `spec.nodeSelector`.
    pub(crate) fn equality((key, value): &'a (Sym, Sym)) -> Self {
        let values = std::slice::from_ref(value);
        Self { subject: RuleKey::Label(*key), operator: Operator::In, values, bound: None }
    }

    /// Whether a node passes if the label or name that the rule is about has this value. `None` is an absent label.
    fn admits(&self, found: Option<Sym>, symbols: &Symbols) -> bool {
        let is_listed = || found.is_some_and(|value| self.values.contains(&value));
        let number = || found.and_then(|value| integer(value, symbols));
        match self.operator {
            Operator::In => is_listed(),
            Operator::NotIn => !is_listed(),
            Operator::Exists => found.is_some(),
            Operator::DoesNotExist => found.is_none(),
            Operator::Gt => number().zip(self.bound).is_some_and(|(number, bound)| number > bound),
            Operator::Lt => number().zip(self.bound).is_some_and(|(number, bound)| number < bound),
        }
    }

    /// Keeps the nodes of `nodes` that pass.
    pub(crate) fn narrow(&self, table: &ClusterTable, nodes: &mut NodeSet) {
        let symbols = &table.symbols;
        match self.subject {
            RuleKey::Name => nodes.retain(|node| self.admits(Some(table.name(node)), symbols)),
            RuleKey::Label(key) => match table.labels().column(key) {
                Some(column) => nodes.retain(|node| self.admits(column.get(node), symbols)),
                None if self.admits(None, symbols) => {}
                None => nodes.clear(),
            },
        }
    }

    pub(crate) fn matches(&self, table: &ClusterTable, node: NodeIdx) -> bool {
        let found = match self.subject {
            RuleKey::Name => Some(table.name(node)),
            RuleKey::Label(key) => table.labels().column(key).and_then(|column| column.get(node)),
        };
        self.admits(found, &table.symbols)
    }
}

impl Rule<'_> {
    /// Whether the rule admits a node that is in no table.
    pub(crate) fn matches_node(&self, node: &Node, symbols: &Symbols) -> bool {
        let found = match self.subject {
            RuleKey::Name => Some(node.name),
            RuleKey::Label(key) => node.label(key),
        };
        self.admits(found, symbols)
    }
}

fn integer(sym: Sym, symbols: &Symbols) -> Option<i64> {
    symbols.text(sym).parse().ok()
}

/// A node selector term, of a pod or of a plugin's args.
pub(crate) trait Term {
    /// Whether the term can match a node. A term matches no node if it has no requirements or does not parse.
    fn can_match(&self) -> bool;

    /// The requirements. A node must meet all of them.
    fn rules<'a>(&'a self, symbols: &'a Symbols) -> impl Iterator<Item = Rule<'a>>;

    fn narrow(&self, table: &ClusterTable, nodes: &mut NodeSet) {
        if self.can_match() {
            self.rules(&table.symbols).for_each(|rule| rule.narrow(table, nodes));
        } else {
            nodes.clear();
        }
    }

    fn matches_node(&self, node: &Node, symbols: &Symbols) -> bool {
        self.can_match() && self.rules(symbols).all(|rule| rule.matches_node(node, symbols))
    }

    fn matches(&self, table: &ClusterTable, node: NodeIdx) -> bool {
        self.can_match() && self.rules(&table.symbols).all(|rule| rule.matches(table, node))
    }
}

impl Term for NodeTerm {
    fn can_match(&self) -> bool {
        !self.is_empty() && self.error.is_none()
    }

    fn rules<'a>(&'a self, symbols: &'a Symbols) -> impl Iterator<Item = Rule<'a>> {
        let labels = self.labels.iter().map(|it| Rule::of(RuleKey::Label(it.key), it, symbols));
        labels.chain(self.fields.iter().map(|it| Rule::of(RuleKey::Name, it, symbols)))
    }
}

/// The rules of `spec.nodeSelector`.
pub(crate) fn selector(pod: &Pod) -> impl Iterator<Item = Rule<'_>> {
    pod.node_rules.selector.iter().flatten().map(Rule::equality)
}

/// Sets of nodes that are reused from call to call.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    matched: NodeSet,
    left: NodeSet,
}

impl Scratch {
    /// Keeps the nodes of `nodes` that match the pod's node selector and required node affinity.
    pub(crate) fn narrow_to_required(&mut self, pod: &Pod, table: &ClusterTable, nodes: &mut NodeSet) {
        selector(pod).for_each(|rule| rule.narrow(table, nodes));
        if let Some(terms) = &pod.node_rules.required {
            self.narrow_to_any(terms, table, nodes);
        }
    }

    /// Keeps the nodes of `nodes` that match at least one of `terms`.
    pub(crate) fn narrow_to_any<T: Term>(&mut self, terms: &[T], table: &ClusterTable, nodes: &mut NodeSet) {
        if let [term] = terms {
            return term.narrow(table, nodes);
        }
        self.matched.clear();
        for term in terms {
            copy(&mut self.left, nodes);
            self.left.subtract(&self.matched);
            term.narrow(table, &mut self.left);
            self.matched.union(&self.left);
        }
        nodes.intersect(&self.matched);
    }

    /// Adds `weight` to the score of each node of `nodes` that matches `term`. Scores are in ascending order of nodes.
    pub(crate) fn add_weight<T: Term>(
        &mut self,
        term: &T,
        weight: i64,
        table: &ClusterTable,
        nodes: &NodeSet,
        scores: &mut [i64],
    ) {
        copy(&mut self.left, nodes);
        term.narrow(table, &mut self.left);
        for (score, node) in scores.iter_mut().zip(nodes.iter()) {
            if self.left.contains(node) {
                *score += weight;
            }
        }
    }
}

/// Whether the node matches at least one of `terms`.
pub(crate) fn matches_any<T: Term>(terms: &[T], table: &ClusterTable, node: NodeIdx) -> bool {
    terms.iter().any(|term| term.matches(table, node))
}

fn copy(into: &mut NodeSet, from: &NodeSet) {
    into.clear();
    into.union(from);
}
