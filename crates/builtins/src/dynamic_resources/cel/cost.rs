//! An upper bound for the cost of evaluating an expression, estimated before it runs.
//!
//! The interpreter does not count steps, so the cost is estimated from the expression alone: every node costs one step, a
//! comprehension its body times the size of its range. Literals have their own size; everything else has the size of the
//! largest value of a device.

use cel::{
    IdedExpr,
    common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, LiteralValue},
};

/// The limit of Kubernetes for device selectors (`CELSelectorExpressionMaxCost` in `k8s.io/api/resource/v1/types.go`). Its
/// unit differs somewhat; in both cases it is about one step.
const LIMIT: u64 = 1_000_000;
/// A device has at most 32 attributes and capacities; their texts have at most 64 characters.
const DEVICE_SIZE: u64 = 64;

/// Steps to evaluate an expression, and elements or characters of its result.
#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    steps: u64,
    size: u64,
}

/// Sizes of bound variables, innermost last.
type Scope<'a> = Vec<(&'a str, u64)>;

pub(super) fn exceeds_limit(expression: &IdedExpr) -> bool {
    estimate(expression, &mut Scope::new()).steps > LIMIT
}

fn estimate<'a>(expression: &'a IdedExpr, scope: &mut Scope<'a>) -> Estimate {
    match &expression.expr {
        Expr::Unspecified => Estimate::default(),
        Expr::Literal(literal) => Estimate { steps: 1, size: literal_size(literal) },
        Expr::Ident(name) => {
            let bound = scope.iter().rev().find(|(bound, _)| bound == name);
            Estimate { steps: 1, size: bound.map_or(DEVICE_SIZE, |(_, size)| *size) }
        }
        Expr::Select(select) => {
            let operand = estimate(&select.operand, scope);
            Estimate { steps: operand.steps.saturating_add(1), size: operand.size.max(1) }
        }
        Expr::Call(call) => call_estimate(call, scope),
        Expr::List(list) => sum(list.elements.iter(), scope),
        Expr::Map(map) => sum(map.entries.iter().flat_map(parts), scope),
        Expr::Struct(fields) => sum(fields.entries.iter().flat_map(parts), scope),
        Expr::Comprehension(comprehension) => comprehension_estimate(comprehension, scope),
    }
}

fn literal_size(literal: &LiteralValue) -> u64 {
    let length = match literal {
        LiteralValue::String(text) => text.inner().len(),
        LiteralValue::Bytes(bytes) => bytes.inner().len(),
        LiteralValue::Boolean(_)
        | LiteralValue::Double(_)
        | LiteralValue::Int(_)
        | LiteralValue::Null
        | LiteralValue::UInt(_) => 1,
    };
    u64::try_from(length).unwrap_or(u64::MAX).max(1)
}

fn parts(entry: &IdedEntryExpr) -> Vec<&IdedExpr> {
    match &entry.expr {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

fn sum<'a>(expressions: impl Iterator<Item = &'a IdedExpr>, scope: &mut Scope<'a>) -> Estimate {
    let mut total = Estimate { steps: 1, size: 0 };
    for expression in expressions {
        let each = estimate(expression, scope);
        total.steps = total.steps.saturating_add(each.steps);
        total.size = total.size.saturating_add(each.size.max(1));
    }
    total
}

/// A call reads all its operands, and its result is no larger than they are; replacing and joining multiply sizes.
fn call_estimate<'a>(call: &'a CallExpr, scope: &mut Scope<'a>) -> Estimate {
    let mut operands = Vec::with_capacity(call.args.len() + 1);
    for operand in call.target.as_deref().into_iter().chain(&call.args) {
        operands.push(estimate(operand, scope));
    }
    let steps = operands.iter().fold(1u64, |steps, operand| steps.saturating_add(operand.steps));
    let sizes = operands.iter().map(|operand| operand.size.max(1));
    let size = match call.func_name.as_str() {
        "replace" | "join" | "format" => sizes.fold(1, u64::saturating_mul),
        _ => sizes.fold(0, u64::saturating_add),
    };
    // Ten characters a step, as Kubernetes counts for string functions.
    Estimate { steps: steps.saturating_add(size / 10), size }
}

fn comprehension_estimate<'a>(comprehension: &'a ComprehensionExpr, scope: &mut Scope<'a>) -> Estimate {
    let range = estimate(&comprehension.iter_range, scope);
    let start = estimate(&comprehension.accu_init, scope);
    let depth = scope.len();
    scope.push((&comprehension.iter_var, range.size.max(1)));
    scope.extend(comprehension.iter_var2.as_deref().map(|variable| (variable, range.size.max(1))));
    scope.push((&comprehension.accu_var, start.size.max(range.size)));
    let condition = estimate(&comprehension.loop_cond, scope);
    let step = estimate(&comprehension.loop_step, scope);
    let result = estimate(&comprehension.result, scope);
    scope.truncate(depth);
    let round = condition.steps.saturating_add(step.steps);
    let steps = range.size.saturating_mul(round).saturating_add(range.steps);
    Estimate {
        steps: steps.saturating_add(start.steps).saturating_add(result.steps),
        size: range.size.max(start.size).max(result.size),
    }
}
