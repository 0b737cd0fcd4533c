//! A compiled selector: the expression, and its constant regular expressions.
//!
//! A constant pattern is compiled once, with the expression. A variable `#0`, which no user can write, replaces it.

use std::sync::Arc;

use berth_framework::Deadline;
use cel::{
    Context, Env, ExecutionError, IdedExpr, ParseErrors, Value,
    common::ast::{EntryExpr, Expr, IdedEntryExpr, LiteralValue},
};

use super::{
    SelectorError, SelectorResult,
    cost::{self, TooComplex},
    device_value, nesting,
    pattern::{ConstantPattern, ConstantPatterns, PatternError},
};
use crate::dynamic_resources::objects::Device;

/// The longest expression that Kubernetes accepts, in bytes.
pub(super) const MAX_LENGTH: usize = 10 * 1024;
/// The memory of an expression for each of its nodes, without the texts: blocks of the allocator.
const OVERHEAD_OF_NODE: usize = 48;

#[derive(Debug)]
pub(super) struct Program {
    expression: IdedExpr,
    patterns: ConstantPatterns,
}

/// The reason why a text is not a selector.
#[derive(Debug, thiserror::Error)]
pub(super) enum CompileError {
    #[error("expression is longer than {MAX_LENGTH} bytes")]
    TooLong,
    #[error("too complex, more than {} nested operations", nesting::MAX_DEPTH)]
    TooDeep,
    #[error(transparent)]
    Syntax(#[from] ParseErrors),
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error(transparent)]
    TooComplex(#[from] TooComplex),
    #[error("compiling the expression took longer than the time limit")]
    TimedOut,
}

impl Program {
    /// # Errors
    /// The text is not a selector, it might take too long or too much memory, or `deadline` is over.
    pub(super) fn compile(text: &str, env: &Env, deadline: Deadline<'_>) -> Result<Self, CompileError> {
        if text.len() > MAX_LENGTH {
            return Err(CompileError::TooLong);
        }
        if nesting::is_too_deep(text) {
            return Err(CompileError::TooDeep);
        }
        let mut expression = env.parser().parse(text)?;
        let mut patterns = ConstantPatterns::default();
        compile_patterns(&mut expression, &mut patterns, deadline)?;
        cost::check(&expression, &patterns)?;
        Ok(Self { expression, patterns })
    }

    pub(super) fn run(&self, env: &Arc<Env>, driver: &str, device: &Device, with_lists: bool) -> SelectorResult {
        let mut context = Context::with_env(Arc::clone(env));
        context.add_variable_as_val("device", device_value::of(driver, device, with_lists));
        for ConstantPattern { variable, pattern, .. } in self.patterns.iter() {
            context.add_variable_as_val(variable, Box::new(pattern.clone()));
        }
        match Value::resolve(&self.expression, &context) {
            Ok(Value::Bool(answer)) => Ok(answer),
            Ok(other) => Err(SelectorError::run(&format!("result of type {} is not a bool", other.type_of()))),
            Err(error) => Err(SelectorError::run(&message(&error))),
        }
    }

    /// The approximate memory of the program, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let of_pattern = |it: &ConstantPattern| it.bytes() + OVERHEAD_OF_NODE;
        bytes_of(&self.expression) + self.patterns.iter().map(of_pattern).sum::<usize>()
    }
}

/// Compiles the constant patterns in the expression, each once, and replaces them with variables.
fn compile_patterns(
    expression: &mut IdedExpr,
    patterns: &mut ConstantPatterns,
    deadline: Deadline<'_>,
) -> Result<(), CompileError> {
    if let Some(argument) = pattern_argument(&mut expression.expr)
        && let Expr::Literal(LiteralValue::String(text)) = &argument.expr
    {
        argument.expr = Expr::Ident(patterns.variable_for(text.inner())?);
        if deadline.is_over() {
            return Err(CompileError::TimedOut);
        }
    }
    children_mut(&mut expression.expr).into_iter().try_for_each(|child| compile_patterns(child, patterns, deadline))
}

/// The regular expression among the arguments of a call.
fn pattern_argument(expression: &mut Expr) -> Option<&mut IdedExpr> {
    let Expr::Call(call) = expression else { return None };
    match (cost::function_name(call), call.target.is_some()) {
        ("matches" | "find" | "findAll", true) => call.args.first_mut(),
        ("matches", false) => call.args.get_mut(1),
        _ => None,
    }
}

fn children_mut(expression: &mut Expr) -> Vec<&mut IdedExpr> {
    match expression {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => Vec::new(),
        Expr::Select(select) => vec![&mut *select.operand],
        Expr::Call(call) => call.target.as_deref_mut().into_iter().chain(&mut call.args).collect(),
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => map.entries.iter_mut().flat_map(parts_mut).collect(),
        Expr::Struct(fields) => fields.entries.iter_mut().flat_map(parts_mut).collect(),
        Expr::Comprehension(it) => {
            vec![&mut it.iter_range, &mut it.accu_init, &mut it.loop_cond, &mut it.loop_step, &mut it.result]
        }
    }
}

fn parts_mut(entry: &mut IdedEntryExpr) -> Vec<&mut IdedExpr> {
    match &mut entry.expr {
        EntryExpr::StructField(field) => vec![&mut field.value],
        EntryExpr::MapEntry(entry) => vec![&mut entry.key, &mut entry.value],
    }
}

fn bytes_of(expression: &IdedExpr) -> usize {
    let texts = match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => text.inner().len(),
        Expr::Literal(LiteralValue::Bytes(bytes)) => bytes.inner().len(),
        Expr::Literal(_) | Expr::Unspecified | Expr::List(_) | Expr::Map(_) | Expr::Struct(_) => 0,
        Expr::Ident(name) => name.len(),
        Expr::Select(select) => select.field.len(),
        Expr::Call(call) => call.func_name.len(),
        Expr::Comprehension(it) => it.iter_var.len() + it.accu_var.len(),
    };
    let children = cost::children(&expression.expr).into_iter().map(bytes_of).sum::<usize>();
    size_of::<IdedExpr>() + OVERHEAD_OF_NODE + texts + children
}

/// The message for conditions of pods. It has the wording of cel-go if the reason can be a field that a device lacks.
#[expect(clippy::wildcard_enum_match_arm, reason = "any other error is in the words of the interpreter")]
fn message(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(_, Value::UInt(_), _) => "unsigned integer overflow".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        _ => error.to_string(),
    }
}
