//! The checker of types, which finds mistakes in an expression before it runs: a name or function that does not exist, an
//! argument of a wrong type, or a result that is no bool.
//!
//! kube-apiserver refuses these expressions with cel-go's checker (`checker/checker.go`), so the rules and the texts are
//! cel-go's: what suits an expected type is in [`bindings`], and the functions are in [`signatures`]. A part whose type is
//! not declared has a type that suits every use.
//!
//! Deliberately absent: messages of protocol buffers (a name that begins with `google`, `kubernetes` or `net` suits every
//! use), and the check of a constant text to be formatted, which fails when the expression runs.

mod bindings;
mod report;
mod signatures;
mod static_type;
#[cfg(test)]
mod tests;

use cel::{
    IdedExpr,
    common::ast::{
        CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, ListExpr, LiteralValue, MapExpr, SelectExpr,
        StructExpr, operators,
    },
};

pub(super) use self::report::{Mistake, of_mistakes, of_syntax};
use self::{bindings::Bindings, signatures::Signature, static_type::StaticType};
use super::{cost::function_name, macros, times};

/// The type of the pairs that the macros of two variables make. No user can write its name.
const PAIR: &str = "@pair";
/// The most mistakes that are reported of one expression.
const MAX_MISTAKES: usize = 100;

/// The reason why an expression is no selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckError {
    Mistakes(Vec<Mistake>),
    /// The type of the result, which is neither bool nor known when the expression runs only.
    Result(String),
}

/// Checks the expression. Attributes may be lists if `with_lists`.
///
/// # Errors
/// kube-apiserver would refuse the expression, too.
pub(super) fn check(expression: &IdedExpr, with_lists: bool) -> Result<(), CheckError> {
    let mut checker = Checker::new(with_lists);
    let of_result = checker.part(expression);
    if !checker.mistakes.is_empty() {
        return Err(CheckError::Mistakes(checker.mistakes));
    }
    let mut late = std::mem::take(&mut checker.late_mistakes);
    checker.check_elements(&mut late);
    if !late.is_empty() {
        return Err(CheckError::Mistakes(late));
    }
    let of_result = checker.bindings.without_variables(&of_result);
    let is_known_later = of_result == StaticType::Any || with_lists && of_result == StaticType::Dyn;
    if of_result.is_named("bool") || is_known_later || checker.bindings.is_exhausted() {
        return Ok(());
    }
    Err(CheckError::Result(of_result.declared_text()))
}

struct Checker<'a> {
    bindings: Bindings,
    with_lists: bool,
    /// The variables of macros, innermost last.
    scope: Vec<(&'a str, StaticType)>,
    mistakes: Vec<Mistake>,
    /// The mistakes that count only if there are no others.
    late_mistakes: Vec<Mistake>,
    literals: Vec<Elements>,
    /// The number of calls of `format` around the part that is checked. Lists in them may be mixed.
    n_formats: usize,
}

/// The types of the elements of a literal list, or of the keys or values of a literal map.
struct Elements {
    types: Vec<(u64, StaticType)>,
    is_list: bool,
}

impl<'a> Checker<'a> {
    fn new(with_lists: bool) -> Self {
        Self {
            bindings: Bindings::default(),
            with_lists,
            scope: Vec::new(),
            mistakes: Vec::new(),
            late_mistakes: Vec::new(),
            literals: Vec::new(),
            n_formats: 0,
        }
    }

    fn mistake(&mut self, id: u64, message: String) {
        if self.mistakes.len() < MAX_MISTAKES {
            self.mistakes.push(Mistake { id, message });
        }
    }

    fn expected(&mut self, id: u64, expected: &StaticType, found: &StaticType) {
        self.mistake(id, expected_but_found(expected, found));
    }

    fn undeclared(&mut self, id: u64, name: &str) {
        self.mistake(id, format!("undeclared reference to '{name}' (in container '')"));
    }

    fn part(&mut self, expression: &'a IdedExpr) -> StaticType {
        match &expression.expr {
            Expr::Unspecified => StaticType::Mistake,
            Expr::Literal(literal) => StaticType::named(name_of_literal(literal)),
            Expr::Ident(name) => self.identifier(expression.id, name),
            Expr::Select(select) => self.select(expression, select),
            Expr::Call(call) => self.call(expression.id, call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Struct(message) => self.message(expression.id, message),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    fn identifier(&mut self, id: u64, name: &str) -> StaticType {
        if let Some((_, local)) = self.scope.iter().rev().find(|(local, _)| *local == name) {
            return local.clone();
        }
        let name = name.trim_start_matches('.');
        if name == "device" {
            return StaticType::device();
        }
        if let Some(named) = signatures::type_with_name(name) {
            return named;
        }
        self.undeclared(id, name);
        StaticType::Mistake
    }

    fn select(&mut self, whole: &'a IdedExpr, select: &'a SelectExpr) -> StaticType {
        if !select.test && self.is_name_of_message(whole) {
            return StaticType::Dyn;
        }
        let field = self.field(whole.id, &select.operand, &select.field, false);
        if select.test { StaticType::named("bool") } else { self.bindings.resolved(&field) }
    }

    /// Whether the expression is a name such as `google.protobuf.Timestamp`.
    fn is_name_of_message(&self, expression: &IdedExpr) -> bool {
        let mut root = expression;
        while let Expr::Select(select) = &root.expr {
            root = &select.operand;
        }
        let Expr::Ident(name) = &root.expr else { return false };
        is_package(name) && !self.scope.iter().any(|(local, _)| *local == name.as_str())
    }

    /// The type of a field of `operand`: of an optional value, if `is_optional` or if the operand is one.
    fn field(&mut self, id: u64, operand: &'a IdedExpr, field: &str, is_optional: bool) -> StaticType {
        let of_operand = self.part(operand);
        let of_operand = self.bindings.resolved(&of_operand);
        let (target, is_of_optional) = of_operand.unwrapped();
        let found = match &target {
            StaticType::Dyn | StaticType::Any | StaticType::Mistake => StaticType::Dyn,
            StaticType::Variable(_) => {
                self.bindings.suits(&StaticType::Dyn, &target);
                StaticType::Dyn
            }
            StaticType::Named(..) => self.declared_field(id, &target, field),
        };
        if is_optional || is_of_optional { StaticType::optional(found) } else { found }
    }

    fn declared_field(&mut self, id: u64, target: &StaticType, field: &str) -> StaticType {
        if let Some([_, value]) = target.parameters_of("map") {
            return value.clone();
        }
        if !target.is_structure() {
            self.mistake(id, format!("type '{}' does not support field selection", target.text()));
            return StaticType::Dyn;
        }
        let declared = if target.is_device() { self.field_of_device(field) } else { None };
        declared.unwrap_or_else(|| {
            self.mistake(id, format!("undefined field '{field}'"));
            StaticType::Mistake
        })
    }

    /// The fields of `device`: see `k8s.io/dynamic-resource-allocation/cel/compile.go`.
    fn field_of_device(&self, field: &str) -> Option<StaticType> {
        let text = || StaticType::named("string");
        let by_domain = |value| StaticType::of("map", vec![text(), StaticType::of("map", vec![text(), value])]);
        match field {
            "driver" => Some(text()),
            "allowMultipleAllocations" => Some(StaticType::named("bool")),
            "attributes" => Some(by_domain(if self.with_lists { StaticType::Dyn } else { StaticType::Any })),
            "capacity" => Some(by_domain(StaticType::named("kubernetes.Quantity"))),
            _ => None,
        }
    }

    fn call(&mut self, id: u64, call: &'a CallExpr) -> StaticType {
        let name = function_name(call);
        if let (operators::OPT_SELECT, [operand, IdedExpr { expr: Expr::Literal(LiteralValue::String(field)), .. }]) =
            (name, call.args.as_slice())
        {
            let field = self.field(id, operand, field.inner(), true);
            return self.bindings.resolved(&field);
        }
        let is_format = name == "format";
        self.n_formats += usize::from(is_format);
        let of_call = self.call_of_function(id, call, name);
        self.n_formats -= usize::from(is_format);
        self.check_literal(call, name);
        of_call
    }

    fn call_of_function(&mut self, id: u64, call: &'a CallExpr, name: &str) -> StaticType {
        let mut arguments: Vec<StaticType> = call.args.iter().map(|argument| self.part(argument)).collect();
        match name {
            macros::PAIRS => return self.pairs(call, &arguments),
            macros::MERGED => return self.merged(&arguments),
            operators::INDEX => {
                if let Some(part) = part_of_pair(call, &arguments) {
                    return part;
                }
            }
            _ => {}
        }
        let Some(target) = &call.target else {
            let Some(signatures) = signatures::of_function(name) else {
                self.undeclared(id, name);
                return StaticType::Mistake;
            };
            return self.overload(id, name, signatures, &arguments, Some(&call.args), false);
        };
        if let Some(qualified) = qualified_name(target).map(|prefix| format!("{prefix}.{name}"))
            && let Some(signatures) = signatures::of_function(&qualified)
        {
            return self.overload(id, &qualified, signatures, &arguments, None, false);
        }
        arguments.insert(0, self.part(target));
        let Some(signatures) = signatures::of_function(name) else {
            self.undeclared(id, name);
            return StaticType::Mistake;
        };
        self.overload(id, name, signatures, &arguments, None, true)
    }

    /// The type of a call. It is known later if overloads with different results suit the arguments.
    fn overload(
        &mut self,
        id: u64,
        name: &str,
        signatures: &'static [&'static str],
        arguments: &[StaticType],
        operands: Option<&[IdedExpr]>,
        is_member: bool,
    ) -> StaticType {
        if let (operators::LOGICAL_AND | operators::LOGICAL_OR, Some(operands)) = (name, operands) {
            return self.logical(arguments, operands);
        }
        let mut of_call = None;
        for signature in signatures {
            let signature = Signature::read(signature, &mut self.bindings);
            if signature.is_member != is_member || !self.bindings.all_suit(arguments, &signature.arguments) {
                continue;
            }
            let result = self.bindings.resolved(&signature.result);
            of_call = Some(match of_call {
                None => result,
                Some(former) if matches!(former, StaticType::Dyn | StaticType::Any) => former,
                Some(former) if self.bindings.is_same(&former, &result) => former,
                Some(_) => StaticType::Dyn,
            });
        }
        of_call.unwrap_or_else(|| {
            let texts: Vec<String> =
                arguments.iter().map(|argument| self.bindings.without_variables(argument).text()).collect();
            let (target, arguments) = texts.split_at(usize::from(is_member));
            let dot = if is_member { "." } else { "" };
            let applied = format!("{}{dot}({})", target.concat(), arguments.join(", "));
            self.mistake(id, format!("found no matching overload for '{name}' applied to '{applied}'"));
            StaticType::Mistake
        })
    }

    /// The type of `&&` and `||`. Each operand that is no bool is a mistake of its own.
    fn logical(&mut self, arguments: &[StaticType], operands: &[IdedExpr]) -> StaticType {
        let bool = StaticType::named("bool");
        let mut of_call = bool.clone();
        for (argument, operand) in arguments.iter().zip(operands) {
            if !self.bindings.suits(argument, &bool) {
                self.expected(operand.id, &bool, argument);
                of_call = StaticType::Mistake;
            }
        }
        of_call
    }

    /// The type of the pairs over which a macro of two variables loops.
    fn pairs(&mut self, call: &CallExpr, arguments: &[StaticType]) -> StaticType {
        let range = arguments.first().map_or(StaticType::Mistake, |range| self.bindings.resolved(range));
        let [first, second] = match (range.parameters_of("list"), range.parameters_of("map")) {
            (Some([element]), _) => [StaticType::named("int"), element.clone()],
            (_, Some([key, value])) => [key.clone(), value.clone()],
            _ => {
                let id = call.args.first().map_or(0, |range| range.id);
                let of_element = self.element_of_other(id, &range);
                [of_element.clone(), of_element]
            }
        };
        StaticType::of("list", vec![StaticType::of(PAIR, vec![first, second])])
    }

    /// The map with the entries of all maps of a list.
    fn merged(&mut self, arguments: &[StaticType]) -> StaticType {
        let maps = arguments.first().map_or(StaticType::Dyn, |maps| self.bindings.resolved(maps));
        match maps.parameters_of("list") {
            Some([map]) if map.is_named("map") => map.clone(),
            Some(_) | None => StaticType::Dyn,
        }
    }

    /// The type of an element of a range that is neither a list nor a map.
    fn element_of_other(&mut self, id: u64, range: &StaticType) -> StaticType {
        match range {
            StaticType::Dyn | StaticType::Mistake => StaticType::Dyn,
            StaticType::Variable(_) => {
                self.bindings.suits(&StaticType::Dyn, range);
                StaticType::Dyn
            }
            StaticType::Any | StaticType::Named(..) => {
                let kind = range.text();
                let message = format!(
                    "expression of type '{kind}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.mistake(id, message);
                StaticType::Mistake
            }
        }
    }

    fn list(&mut self, list: &'a ListExpr) -> StaticType {
        let mut joined = None;
        let mut elements = Vec::with_capacity(list.elements.len());
        for (index, element) in list.elements.iter().enumerate() {
            let found = self.part(element);
            let found = self.value(element.id, found, list.optional_indices.contains(&index));
            elements.push((element.id, found.clone()));
            joined = Some(self.joined(joined, found));
        }
        self.keep_elements(elements, true);
        let of_elements = joined.unwrap_or_else(|| self.bindings.variable());
        StaticType::of("list", vec![of_elements])
    }

    fn map(&mut self, map: &'a MapExpr) -> StaticType {
        let (mut of_keys, mut of_values) = (None, None);
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for IdedEntryExpr { expr, .. } in &map.entries {
            let EntryExpr::MapEntry(entry) = expr else { continue };
            let key = self.part(&entry.key);
            keys.push((entry.key.id, key.clone()));
            of_keys = Some(self.joined(of_keys, key));
            let found = self.part(&entry.value);
            let value = self.value(entry.value.id, found, entry.optional);
            values.push((entry.value.id, value.clone()));
            of_values = Some(self.joined(of_values, value));
        }
        self.keep_elements(keys, false);
        self.keep_elements(values, false);
        let of_keys = of_keys.unwrap_or_else(|| self.bindings.variable());
        let of_values = of_values.unwrap_or_else(|| self.bindings.variable());
        StaticType::of("map", vec![of_keys, of_values])
    }

    /// The type of an element of a literal: that of the value in an optional value, if the element is written as `?x`.
    fn value(&mut self, id: u64, found: StaticType, is_optional: bool) -> StaticType {
        if !is_optional {
            return found;
        }
        let (value, is_of_optional) = found.unwrapped();
        if !is_of_optional && !matches!(value, StaticType::Dyn | StaticType::Any) {
            self.expected(id, &StaticType::optional(value.clone()), &value);
        }
        value
    }

    /// The type of all elements so far, with a further one.
    fn joined(&mut self, former: Option<StaticType>, found: StaticType) -> StaticType {
        let Some(former) = former else { return found };
        if self.bindings.suits(&former, &found) {
            return self.bindings.more_general(&former, &found);
        }
        StaticType::Dyn
    }

    fn keep_elements(&mut self, types: Vec<(u64, StaticType)>, is_list: bool) {
        if self.n_formats == 0 && types.len() > 1 {
            self.literals.push(Elements { types, is_list });
        }
    }

    /// Checks that the elements of each literal have one type. One mistake is reported of each list.
    fn check_elements(&mut self, mistakes: &mut Vec<Mistake>) {
        for Elements { types, is_list } in std::mem::take(&mut self.literals) {
            let mut types = types.into_iter().map(|(id, element)| (id, self.bindings.without_variables(&element)));
            let Some((_, first)) = types.next() else { continue };
            let others: Vec<(u64, StaticType)> = types.collect();
            let is_other = |(_, other): &&(u64, StaticType)| !self.bindings.is_same(&first, other);
            let found = others.iter().filter(is_other).take(if is_list { 1 } else { usize::MAX });
            mistakes.extend(found.map(|(id, other)| Mistake { id: *id, message: expected_but_found(&first, other) }));
        }
    }

    fn message(&mut self, id: u64, message: &'a StructExpr) -> StaticType {
        let name = message.type_name.trim_start_matches('.');
        if !is_package(name.split('.').next().unwrap_or_default()) {
            self.undeclared(id, name);
            return StaticType::Mistake;
        }
        for IdedEntryExpr { expr, .. } in &message.entries {
            let EntryExpr::StructField(field) = expr else { continue };
            self.part(&field.value);
        }
        StaticType::Dyn
    }

    fn comprehension(&mut self, it: &'a ComprehensionExpr) -> StaticType {
        let range = self.part(&it.iter_range);
        let start = self.part(&it.accu_init);
        let range = self.bindings.resolved(&range);
        let outer = self.scope.len();
        self.scope.push((&it.accu_var, start.clone()));
        let inner = self.scope.len();
        let element = match (range.parameters_of("list"), range.parameters_of("map")) {
            (Some([element, ..]), _) | (_, Some([element, ..])) => element.clone(),
            _ => self.element_of_other(it.iter_range.id, &range),
        };
        self.scope.push((&it.iter_var, element));
        let condition = self.part(&it.loop_cond);
        self.must_suit(it.loop_cond.id, &StaticType::named("bool"), &condition);
        let step = self.part(&it.loop_step);
        self.must_suit(it.loop_step.id, &start, &step);
        self.scope.truncate(inner);
        let result = self.part(&it.result);
        self.scope.truncate(outer);
        self.bindings.resolved(&result)
    }

    fn must_suit(&mut self, id: u64, expected: &StaticType, found: &StaticType) {
        if !self.bindings.suits(expected, found) {
            self.expected(id, expected, found);
        }
    }

    /// Reports a constant argument of `duration` or `timestamp` that cannot be read.
    fn check_literal(&mut self, call: &CallExpr, name: &str) {
        let Some(IdedExpr { id, expr: Expr::Literal(LiteralValue::String(text)) }) = call.args.first() else { return };
        let is_read = match name {
            "duration" => times::is_duration(text.inner()),
            "timestamp" => times::is_timestamp(text.inner()),
            _ => true,
        };
        if !is_read {
            self.late_mistakes.push(Mistake { id: *id, message: format!("invalid {name} argument") });
        }
    }
}

fn name_of_literal(literal: &LiteralValue) -> &'static str {
    match literal {
        LiteralValue::Boolean(_) => "bool",
        LiteralValue::Bytes(_) => "bytes",
        LiteralValue::Double(_) => "double",
        LiteralValue::Int(_) => "int",
        LiteralValue::Null => "null",
        LiteralValue::String(_) => "string",
        LiteralValue::UInt(_) => "uint",
    }
}

fn expected_but_found(expected: &StaticType, found: &StaticType) -> String {
    format!("expected type '{}' but found '{}'", expected.text(), found.text())
}

/// Whether the name may be the first of a message's name.
fn is_package(name: &str) -> bool {
    matches!(name.trim_start_matches('.'), "google" | "kubernetes" | "net")
}

/// The name that the expression spells, such as `a.b`.
fn qualified_name(expression: &IdedExpr) -> Option<String> {
    match &expression.expr {
        Expr::Ident(name) => Some(name.trim_start_matches('.').to_owned()),
        Expr::Select(select) if !select.test => Some(format!("{}.{}", qualified_name(&select.operand)?, select.field)),
        Expr::Unspecified
        | Expr::Call(_)
        | Expr::Comprehension(_)
        | Expr::List(_)
        | Expr::Literal(_)
        | Expr::Map(_)
        | Expr::Select(_)
        | Expr::Struct(_) => None,
    }
}

/// The type of one part of a pair, if the call reads one.
fn part_of_pair(call: &CallExpr, arguments: &[StaticType]) -> Option<StaticType> {
    let parts = arguments.first()?.parameters_of(PAIR)?;
    let Expr::Literal(LiteralValue::Int(position)) = &call.args.get(1)?.expr else { return None };
    parts.get(usize::try_from(*position.inner()).ok()?).cloned()
}
