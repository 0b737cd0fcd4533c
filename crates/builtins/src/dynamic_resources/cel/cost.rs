//! The maximum cost of evaluating an expression, computed before it runs.
//!
//! The interpreter does not count steps, so the expression alone determines the maximum cost. Every node costs one
//! step. Functions that read texts or lists cost one more for ten characters or elements, as Kubernetes counts for
//! functions of strings. A comprehension costs its body for each element of its range. A value of the device has the
//! size of the largest value that a device may have.

use cel::{
    IdedExpr,
    common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, ListExpr, LiteralValue},
};

use super::{
    macros,
    pattern::{ConstantPattern, ConstantPatterns},
};

/// The limit of Kubernetes for device selectors (`CELSelectorExpressionMaxCost` in `k8s.io/api/resource/v1/types.go`).
/// Its unit differs slightly; both units are about one step.
const LIMIT: u64 = 1_000_000;
/// A device has at most 32 attributes and capacities; their texts have at most 64 characters.
const DEVICE_SIZE: u64 = 64;
/// The maximum number of nested comprehensions over elements. Three exceed the limit of cost even with the smallest
/// range of a device, and more than this limit takes long to estimate.
const MAX_LOOPS: usize = 5;
/// The cost of compiling a regular expression that is not known beforehand, and of searching a text of a device for it.
/// The expression may become as large as [`super::pattern`] allows.
const COMPUTED_REGEX: u64 = 10_000;

/// The steps of checking ten characters of a text for a named format. Kubernetes counts a quarter of the format's regular
/// expression; the longest one, that of URLs, has some hundred characters.
const STEPS_OF_FORMAT: u64 = 200;
/// The size of the errors of a text that is not of a named format.
const ERRORS_OF_FORMAT: Size = Size { count: 4, element: 512, weight: 1_024 };

/// The comparisons for each element that is sorted. A list has fewer than a million elements.
const STEPS_OF_SORTING: u64 = 20;

/// The reason why an expression is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooComplex {
    #[error("too complex, exceeds cost limit")]
    Cost,
    #[error("too complex, more than {MAX_LOOPS} nested comprehensions")]
    Loops,
}

/// The steps of an expression, and the size of its result.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    steps: u64,
    size: Size,
}

/// The maximum size of a value.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// The number of elements of a list or map, or of characters of a text.
    count: u64,
    /// The weight of the largest element.
    element: u64,
    /// The number of characters and numbers in the whole value.
    weight: u64,
}

/// Sizes of bound variables, innermost last.
type Scope<'a> = Vec<(&'a str, Size)>;

/// `patterns` are the expression's regular expressions. Compiling one takes a step for each of its states.
///
/// # Errors
/// Evaluating the expression might take too long or too much memory.
pub(super) fn check(expression: &IdedExpr, patterns: &ConstantPatterns) -> Result<(), TooComplex> {
    check_loops(expression, 0)?;
    let n_states = |it: &ConstantPattern| u64::try_from(it.pattern.n_states()).unwrap_or(u64::MAX);
    let compiling = patterns.iter().map(n_states).fold(0, u64::saturating_add);
    let mut scope: Scope<'_> = patterns.iter().map(|it| (it.variable.as_str(), Size::text(n_states(it)))).collect();
    let estimate = estimate(expression, &mut scope);
    let is_too_much = estimate.steps.saturating_add(compiling) > LIMIT || estimate.size.weight > LIMIT;
    if is_too_much { Err(TooComplex::Cost) } else { Ok(()) }
}

pub(super) fn children(expression: &Expr) -> Vec<&IdedExpr> {
    match expression {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => Vec::new(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Call(call) => operands(call).collect(),
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(parts).collect(),
        Expr::Struct(fields) => fields.entries.iter().flat_map(parts).collect(),
        Expr::Comprehension(it) => vec![&it.iter_range, &it.accu_init, &it.loop_cond, &it.loop_step, &it.result],
    }
}

/// Checks the nesting of comprehensions. `loops` is the number of comprehensions that evaluate the expression for each
/// of their elements.
fn check_loops(expression: &IdedExpr, loops: usize) -> Result<(), TooComplex> {
    if loops > MAX_LOOPS {
        return Err(TooComplex::Loops);
    }
    if let Expr::Comprehension(comprehension) = &expression.expr {
        let within = loops + usize::from(!is_bind(comprehension));
        let ComprehensionExpr { iter_range, accu_init, loop_cond, loop_step, result, .. } = &**comprehension;
        [iter_range, accu_init, result].into_iter().try_for_each(|part| check_loops(part, loops))?;
        return [loop_cond, loop_step].into_iter().try_for_each(|part| check_loops(part, within));
    }
    children(&expression.expr).into_iter().try_for_each(|part| check_loops(part, loops))
}

/// Whether the comprehension only gives a value a name.
fn is_bind(comprehension: &ComprehensionExpr) -> bool {
    matches!(&comprehension.iter_range.expr, Expr::List(ListExpr { elements, .. }) if elements.is_empty())
}

fn operands(call: &CallExpr) -> impl Iterator<Item = &IdedExpr> {
    call.target.as_deref().into_iter().chain(&call.args)
}

impl Size {
    const SCALAR: Self = Self { count: 1, element: 1, weight: 1 };
    const OF_DEVICE: Self = Self { count: DEVICE_SIZE, element: DEVICE_SIZE, weight: DEVICE_SIZE };

    fn text(characters: u64) -> Self {
        Self { count: characters.max(1), element: 1, weight: characters.max(1) }
    }

    /// The size of an element, of which only the weight is known.
    fn of_element(self) -> Self {
        Self { count: self.element, element: self.element, weight: self.element }
    }

    fn max(self, other: Self) -> Self {
        Self {
            count: self.count.max(other.count),
            element: self.element.max(other.element),
            weight: self.weight.max(other.weight),
        }
    }

    /// The size of both values together, as when lists and texts are added.
    fn and(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            element: self.element.max(other.element),
            weight: self.weight.saturating_add(other.weight),
        }
    }
}

fn estimate<'a>(expression: &'a IdedExpr, scope: &mut Scope<'a>) -> Estimate {
    match &expression.expr {
        Expr::Unspecified => Estimate { steps: 0, size: Size::SCALAR },
        Expr::Literal(literal) => Estimate { steps: 1, size: Size::text(literal_length(literal)) },
        Expr::Ident(name) => {
            let bound = scope.iter().rev().find(|(bound, _)| bound == name);
            Estimate { steps: 1, size: bound.map_or(Size::OF_DEVICE, |(_, size)| *size) }
        }
        Expr::Select(select) => {
            let operand = estimate(&select.operand, scope);
            Estimate { steps: operand.steps.saturating_add(1), size: operand.size }
        }
        Expr::Call(call) => call_estimate(call, scope),
        Expr::List(list) => collection(list.elements.iter(), scope),
        Expr::Map(map) => collection(map.entries.iter().flat_map(parts), scope),
        Expr::Struct(fields) => collection(fields.entries.iter().flat_map(parts), scope),
        Expr::Comprehension(comprehension) => comprehension_estimate(comprehension, scope),
    }
}

fn literal_length(literal: &LiteralValue) -> u64 {
    let length = match literal {
        LiteralValue::String(text) => text.inner().len(),
        LiteralValue::Bytes(bytes) => bytes.inner().len(),
        LiteralValue::Boolean(_)
        | LiteralValue::Double(_)
        | LiteralValue::Int(_)
        | LiteralValue::Null
        | LiteralValue::UInt(_) => 1,
    };
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn parts(entry: &IdedEntryExpr) -> Vec<&IdedExpr> {
    match &entry.expr {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

/// The estimate for a literal list or map. An empty one has no elements, so a loop over it costs nothing.
fn collection<'a>(elements: impl Iterator<Item = &'a IdedExpr>, scope: &mut Scope<'a>) -> Estimate {
    let mut total = Estimate { steps: 1, size: Size { count: 0, element: 1, weight: 0 } };
    for element in elements {
        let Estimate { steps, size } = estimate(element, scope);
        total.steps = total.steps.saturating_add(steps);
        // An empty list is also an element that takes memory.
        let weight = size.weight.max(1);
        total.size = total.size.and(Size { count: 1, element: weight, weight });
    }
    total
}

fn call_estimate<'a>(call: &'a CallExpr, scope: &mut Scope<'a>) -> Estimate {
    let mut steps = 1_u64;
    let mut sizes = Vec::with_capacity(call.args.len() + 1);
    for operand in operands(call) {
        let estimate = estimate(operand, scope);
        steps = steps.saturating_add(estimate.steps);
        sizes.push(estimate.size);
    }
    let (extra, size) = match (namespace(call), function_name(call)) {
        (Some("lists"), "range") => range_of_numbers(call),
        // The functions of `sets` compare each element of one list with each element of the other.
        (Some("sets"), "contains" | "equivalent" | "intersects") => {
            (product(sizes.get(1..).unwrap_or_default(), |size| size.count), Size::SCALAR)
        }
        _ => function_estimate(call, &sizes),
    };
    Estimate { steps: steps.saturating_add(extra), size }
}

/// The name before a function. It may be the namespace of the function, or a variable, as in
/// `cel.bind(lists, [1], lists.sort())`. If there is a function of this namespace, it is called even if there is such a
/// variable.
fn namespace(call: &CallExpr) -> Option<&str> {
    let Expr::Ident(name) = &call.target.as_deref()?.expr else { return None };
    Some(name.trim_start_matches('.'))
}

/// The name of the function, without the dot that makes a name absolute: `.size(text)` is `size(text)`.
pub(super) fn function_name(call: &CallExpr) -> &str {
    call.func_name.trim_start_matches('.')
}

/// The numbers of `lists.range`. Their count must be a constant, because the count is not known otherwise.
fn range_of_numbers(call: &CallExpr) -> (u64, Size) {
    let n = match call.args.first() {
        Some(IdedExpr { expr: Expr::Literal(LiteralValue::Int(n)), .. }) => u64::try_from(*n.inner()).unwrap_or(0),
        Some(_) | None => LIMIT,
    };
    (n, Size { count: n, element: 1, weight: n })
}

fn product(sizes: &[Size], of: fn(&Size) -> u64) -> u64 {
    sizes.iter().map(of).fold(1_u64, |all, size| all.saturating_mul(size.max(1)))
}

/// The steps of a function besides those of its operands, and the size of its result.
fn function_estimate(call: &CallExpr, sizes: &[Size]) -> (u64, Size) {
    let read = sizes.iter().fold(0_u64, |read, size| read.saturating_add(size.weight));
    let all = sizes.iter().copied().reduce(Size::and).unwrap_or(Size::SCALAR);
    let text = sizes.first().map_or(1, |text| text.weight);
    let text = Size { count: text, element: text, weight: text };
    match function_name(call) {
        "_?_:_" => (0, sizes.iter().skip(1).copied().reduce(Size::max).unwrap_or(Size::SCALAR)),
        "_&&_" | "_||_" | "!_" | "@not_strictly_false" => (0, Size::SCALAR),
        "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" | "contains" | "startsWith" | "endsWith" | "size" => {
            (read / 10, Size::SCALAR)
        }
        "@in" | "indexOf" | "lastIndexOf" => (read, Size::SCALAR),
        "_[_]" | "_[?_]" => (0, sizes.first().map_or(Size::SCALAR, |operand| operand.of_element())),
        "matches" => (search_steps(call, sizes), Size::SCALAR),
        "find" => (search_steps(call, sizes), text),
        // The next search begins at the end of the previous match.
        "findAll" => (search_steps(call, sizes).saturating_mul(text.weight), text),
        "replace" | "join" | "format" => {
            let size = Size::text(product(sizes, |size| size.weight));
            (size.weight / 10, size)
        }
        "split" | "getQuery" => (read / 10, Size { count: read, element: read, weight: read }),
        // An escape of three characters may replace each character.
        "getEscapedPath" => (read / 10, Size::text(read.saturating_mul(3))),
        "validate" => ((read / 10 + 1).saturating_mul(STEPS_OF_FORMAT), ERRORS_OF_FORMAT),
        // Each element is compared with each other element.
        "distinct" => (all.count.saturating_mul(all.count.max(read / 10)), all),
        "sort" | "@sortByAssociatedKeys" => (read.saturating_mul(STEPS_OF_SORTING), all),
        "flatten" | macros::MERGED => (read, Size { count: all.weight, ..all }),
        macros::PAIRS => {
            let element = all.element.saturating_mul(2);
            (read, Size { count: all.count, element, weight: all.weight.saturating_mul(2).saturating_add(all.count) })
        }
        _ => (read / 10, all),
    }
}

/// The steps of a search. A search visits the states of its regular expression for each character of the text;
/// Kubernetes counts a quarter of the states and a tenth of the characters. A constant regular expression in the
/// expression is a variable.
fn search_steps(call: &CallExpr, sizes: &[Size]) -> u64 {
    let [text, pattern, ..] = sizes else { return 0 };
    match operands(call).nth(1).map(|pattern| &pattern.expr) {
        Some(Expr::Ident(name)) if name.starts_with('#') => {
            (text.weight / 10 + 1).saturating_mul(pattern.weight / 4 + 1)
        }
        _ => (text.weight / DEVICE_SIZE + 1).saturating_mul(COMPUTED_REGEX).saturating_add(pattern.weight),
    }
}

/// The estimate for a comprehension. Its result is the final accumulator. Two rounds show how the accumulator grows: by
/// the same amount each time, or by a factor.
fn comprehension_estimate<'a>(comprehension: &'a ComprehensionExpr, scope: &mut Scope<'a>) -> Estimate {
    let range = estimate(&comprehension.iter_range, scope);
    let start = estimate(&comprehension.accu_init, scope);
    let once = range.steps.saturating_add(start.steps);
    let (rounds, accumulated) = match range.size.count {
        0 => (0, start.size),
        n => {
            let first = round(comprehension, range.size, start.size, scope).size;
            let second = round(comprehension, range.size, first, scope).size;
            let accumulated = Size {
                count: grown([start.size.count, first.count, second.count], n),
                element: first.element.max(second.element),
                weight: grown([start.size.weight, first.weight, second.weight], n),
            };
            (n.saturating_mul(round(comprehension, range.size, accumulated, scope).steps), accumulated)
        }
    };
    scope.push((&comprehension.accu_var, accumulated));
    let result = estimate(&comprehension.result, scope);
    scope.pop();
    Estimate { steps: once.saturating_add(rounds).saturating_add(result.steps), size: result.size }
}

/// One round: the condition, then the next value of the accumulator.
fn round<'a>(comprehension: &'a ComprehensionExpr, range: Size, accumulated: Size, scope: &mut Scope<'a>) -> Estimate {
    let depth = scope.len();
    scope.push((&comprehension.iter_var, range.of_element()));
    scope.extend(comprehension.iter_var2.as_deref().map(|variable| (variable, range.of_element())));
    scope.push((&comprehension.accu_var, accumulated));
    let condition = estimate(&comprehension.loop_cond, scope);
    let step = estimate(&comprehension.loop_step, scope);
    scope.truncate(depth);
    Estimate { steps: condition.steps.saturating_add(step.steps), size: step.size }
}

/// The size after `n` rounds of a value that grows from the first to the second to the third number.
fn grown([start, first, second]: [u64; 3], n: u64) -> u64 {
    let (growth, later_growth) = (first.saturating_sub(start), second.saturating_sub(first));
    if later_growth <= growth {
        return start.max(first).saturating_add(n.saturating_mul(growth.max(later_growth)));
    }
    let factor = second.div_ceil(first.max(1));
    first.saturating_mul(factor.saturating_pow(u32::try_from(n).unwrap_or(u32::MAX)))
}
