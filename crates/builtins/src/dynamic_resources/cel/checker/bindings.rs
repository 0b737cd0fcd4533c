//! The variables of types, and the rule which type may stand where another one is expected. The rule is cel-go's
//! (`checker/types.go`), since selectors must be refused as kube-apiserver refuses them.
//!
//! A variable is bound to the first type that is used in its place, and later to a more general one. A use that fails
//! leaves the variables as they were. The types of an expression can be far larger than the expression, so the work is
//! limited: after [`MAX_WORK`] steps every type suits every use, and the expression is not refused.

use std::rc::Rc;

use super::static_type::StaticType;

/// The steps after which every type suits every use. A usual expression takes some hundreds.
const MAX_WORK: u32 = 200_000;
/// The depth of types at which every type suits every use. It limits the stack.
const MAX_DEPTH: u32 = 120;

#[derive(Debug)]
pub(super) struct Bindings {
    bound: Vec<Option<StaticType>>,
    /// The variables that the present use has bound, each with its former type.
    changes: Vec<(usize, Option<StaticType>)>,
    remaining_work: u32,
    depth: u32,
}

/// Whether a type can take the place of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Taken,
    /// The variable is bound to a type that does not suit.
    Refused,
    /// The type contains the variable.
    Circular,
}

impl Default for Bindings {
    fn default() -> Self {
        Self { bound: Vec::new(), changes: Vec::new(), remaining_work: MAX_WORK, depth: 0 }
    }
}

impl Bindings {
    /// A new variable.
    pub(super) fn variable(&mut self) -> StaticType {
        self.bound.push(None);
        StaticType::Variable(self.bound.len() - 1)
    }

    /// Whether the work was too much, so that answers can be wrong.
    pub(super) fn is_exhausted(&self) -> bool {
        self.remaining_work == 0
    }

    /// Whether `from` can stand where `to` is expected. The variables in both are bound if it can.
    pub(super) fn suits(&mut self, from: &StaticType, to: &StaticType) -> bool {
        self.all_suit(std::slice::from_ref(from), std::slice::from_ref(to))
    }

    /// As [`Bindings::suits`], for each type of a list. The lists must have the same length.
    pub(super) fn all_suit(&mut self, from: &[StaticType], to: &[StaticType]) -> bool {
        self.changes.clear();
        if from.len() == to.len() && from.iter().zip(to).all(|(from, to)| self.unify(from, to)) {
            return true;
        }
        while let Some((variable, former)) = self.changes.pop() {
            if let Some(bound) = self.bound.get_mut(variable) {
                *bound = former;
            }
        }
        false
    }

    /// The type, with the types of the variables that are bound.
    pub(super) fn resolved(&mut self, of: &StaticType) -> StaticType {
        self.resolve(of, false)
    }

    /// The type without variables: those that are not bound are [`StaticType::Dyn`].
    pub(super) fn without_variables(&mut self, of: &StaticType) -> StaticType {
        self.resolve(of, true)
    }

    /// The more general of two types of which one suits the other.
    pub(super) fn more_general(&mut self, left: &StaticType, right: &StaticType) -> StaticType {
        if self.is_as_general(left, right) { left.clone() } else { right.clone() }
    }

    pub(super) fn is_same(&mut self, left: &StaticType, right: &StaticType) -> bool {
        self.limited(true, |this| match (left, right) {
            (StaticType::Named(left, ours), StaticType::Named(right, theirs)) => {
                left == right
                    && ours.len() == theirs.len()
                    && (Rc::ptr_eq(ours, theirs)
                        || ours.iter().zip(theirs.iter()).all(|(ours, theirs)| this.is_same(ours, theirs)))
            }
            (left, right) => left == right,
        })
    }

    /// Runs `compute` if there is work left, or else answers with `otherwise`.
    fn limited<T>(&mut self, otherwise: T, compute: impl FnOnce(&mut Self) -> T) -> T {
        if self.remaining_work == 0 || self.depth == MAX_DEPTH {
            self.remaining_work = 0;
            return otherwise;
        }
        self.remaining_work -= 1;
        self.depth += 1;
        let computed = compute(self);
        self.depth -= 1;
        computed
    }

    fn resolve(&mut self, of: &StaticType, rest_is_dyn: bool) -> StaticType {
        self.limited(StaticType::Dyn, |this| match of {
            StaticType::Variable(variable) => match this.bound_to(*variable) {
                Some(bound) => this.resolve(&bound, rest_is_dyn),
                None if rest_is_dyn => StaticType::Dyn,
                None => of.clone(),
            },
            &StaticType::Named(name, ref parameters) if !parameters.is_empty() => {
                StaticType::of(name, parameters.iter().map(|it| this.resolve(it, rest_is_dyn)).collect())
            }
            StaticType::Dyn | StaticType::Any | StaticType::Mistake | StaticType::Named(..) => of.clone(),
        })
    }

    fn bound_to(&self, variable: usize) -> Option<StaticType> {
        self.bound.get(variable).cloned().flatten()
    }

    fn bind(&mut self, variable: usize, to: StaticType) {
        if let Some(bound) = self.bound.get_mut(variable) {
            self.changes.push((variable, bound.replace(to)));
        }
    }

    fn unify(&mut self, from: &StaticType, to: &StaticType) -> bool {
        self.limited(true, |this| {
            if let StaticType::Variable(variable) = to {
                match this.take_place(from, *variable) {
                    Place::Taken => return true,
                    Place::Refused => return false,
                    Place::Circular => {}
                }
            }
            if let StaticType::Variable(variable) = from {
                return this.take_place(to, *variable) == Place::Taken;
            }
            this.unify_known(from, to)
        })
    }

    /// [`Bindings::unify`] for types that are no variables.
    fn unify_known(&mut self, from: &StaticType, to: &StaticType) -> bool {
        let (StaticType::Named(from_name, from_parameters), StaticType::Named(to_name, to_parameters)) = (from, to)
        else {
            // A variable is here only if it is part of the other type. Everything else suits every use.
            return !matches!((from, to), (StaticType::Variable(_), _) | (_, StaticType::Variable(_)));
        };
        if *from_name == "null" {
            return to.has_null();
        }
        if *to_name == "null" {
            return from.has_null();
        }
        if from_name != to_name {
            return false;
        }
        // A type as a value, such as that of `type(1)`.
        if *from_name == "type" {
            return true;
        }
        from_parameters.len() == to_parameters.len()
            && from_parameters.iter().zip(to_parameters.iter()).all(|(from, to)| self.unify(from, to))
    }

    fn take_place(&mut self, candidate: &StaticType, variable: usize) -> Place {
        if *candidate == StaticType::Variable(variable) {
            return Place::Taken;
        }
        if let Some(bound) = self.bound_to(variable) {
            if self.is_same(candidate, &bound) {
                return Place::Taken;
            }
            if !self.unify(candidate, &bound) {
                return Place::Refused;
            }
            let general = self.more_general(candidate, &bound);
            if !self.contains(&general, variable) {
                self.bind(variable, general);
            }
            return Place::Taken;
        }
        if self.contains(candidate, variable) {
            return Place::Circular;
        }
        self.bind(variable, candidate.clone());
        Place::Taken
    }

    fn contains(&mut self, within: &StaticType, variable: usize) -> bool {
        self.limited(false, |this| match within {
            StaticType::Variable(other) if *other == variable => true,
            StaticType::Variable(other) => match this.bound_to(*other) {
                Some(bound) => this.contains(&bound, variable),
                None => false,
            },
            StaticType::Named(_, parameters) => parameters.iter().any(|it| this.contains(it, variable)),
            StaticType::Dyn | StaticType::Any | StaticType::Mistake => false,
        })
    }

    fn is_as_general(&mut self, left: &StaticType, right: &StaticType) -> bool {
        let is_open = |it: &StaticType| matches!(it, StaticType::Dyn | StaticType::Any | StaticType::Variable(_));
        self.limited(true, |this| {
            if is_open(left) || is_open(right) {
                return is_open(left);
            }
            match (left, right) {
                (StaticType::Named(left, ours), StaticType::Named(right, theirs)) => {
                    left == right
                        && ours.len() == theirs.len()
                        && ours.iter().zip(theirs.iter()).all(|(ours, theirs)| this.is_as_general(ours, theirs))
                }
                (left, right) => left == right,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int() -> StaticType {
        StaticType::named("int")
    }

    fn text() -> StaticType {
        StaticType::named("string")
    }

    fn list(of: StaticType) -> StaticType {
        StaticType::of("list", vec![of])
    }

    #[test]
    fn a_variable_keeps_the_first_type_and_becomes_more_general() {
        let mut bindings = Bindings::default();
        let variable = bindings.variable();
        assert!(bindings.suits(&int(), &variable));
        assert!(!bindings.suits(&text(), &variable));
        assert_eq!(bindings.resolved(&list(variable.clone())), list(int()));
        assert!(bindings.suits(&StaticType::Any, &variable));
        assert_eq!(bindings.resolved(&variable), StaticType::Any);
    }

    #[test]
    fn a_use_that_fails_binds_nothing() {
        let mut bindings = Bindings::default();
        let variable = bindings.variable();
        assert!(!bindings.all_suit(&[int(), int()], &[variable.clone(), text()]));
        assert_eq!(bindings.resolved(&variable), variable);
        assert_eq!(bindings.without_variables(&variable), StaticType::Dyn);
    }

    #[test]
    fn a_type_does_not_contain_itself() {
        let mut bindings = Bindings::default();
        let variable = bindings.variable();
        assert!(!bindings.suits(&list(variable.clone()), &variable));
        assert!(!bindings.is_exhausted());
    }

    #[test]
    fn null_suits_what_has_no_plain_value() {
        let mut bindings = Bindings::default();
        let null = StaticType::named("null");
        for of in [StaticType::optional(int()), StaticType::named("timestamp"), StaticType::device(), null.clone()] {
            assert!(bindings.suits(&null, &of) && bindings.suits(&of, &null), "{}", of.text());
        }
        for of in [int(), text(), list(int())] {
            assert!(!bindings.suits(&null, &of) && !bindings.suits(&of, &null), "{}", of.text());
        }
    }

    #[test]
    fn huge_types_exhaust_the_work_and_are_not_refused() {
        let mut bindings = Bindings::default();
        let mut innermost = int();
        for _ in 0..60 {
            let variable = bindings.variable();
            assert!(bindings.suits(&StaticType::of("map", vec![innermost.clone(), innermost]), &variable));
            innermost = variable;
        }
        assert_eq!(bindings.resolved(&innermost), StaticType::Dyn);
        assert!(bindings.is_exhausted() && bindings.suits(&int(), &text()));
    }
}
