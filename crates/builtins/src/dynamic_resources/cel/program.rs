//! A compiled selector: the expression, and its constant regular expressions.
//!
//! A constant pattern is compiled once, with the expression. A variable `#0`, which no user can write, replaces it. The
//! texts of errors are those of cel-go and kube-scheduler.

use std::sync::Arc;

use berth_framework::Deadline;
use cel::{
    Context, Env, ExecutionError, IdedExpr, Value,
    common::ast::{EntryExpr, Expr, IdedEntryExpr, LiteralValue},
};

use super::{
    SelectorError, SelectorResult,
    checker::{self, CheckError, Mistake},
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
    /// Mistakes in the expression, with their places.
    #[error("compilation failed: {0}")]
    Mistakes(String),
    #[error("must evaluate to bool or the unknown type, not {0}")]
    Result(String),
    #[error("program instantiation failed: {0}")]
    Pattern(PatternError),
    #[error(transparent)]
    TooComplex(#[from] TooComplex),
    #[error("compiling the expression took longer than the time limit")]
    TimedOut,
}

/// The reason why the constant patterns of an expression cannot be compiled.
enum PatternFault {
    /// An argument of `matches` that is no pattern.
    Mistake(Mistake),
    Other(PatternError),
    TimedOut,
}

impl Program {
    /// Compiles a selector, in which attributes may be lists if `with_lists`.
    ///
    /// # Errors
    /// The text is not a selector, it might take too long or too much memory, or `deadline` is over.
    pub(super) fn compile(
        text: &str,
        env: &Env,
        with_lists: bool,
        deadline: Deadline<'_>,
    ) -> Result<Self, CompileError> {
        if text.len() > MAX_LENGTH {
            return Err(CompileError::TooLong);
        }
        if nesting::is_too_deep(text) {
            return Err(CompileError::TooDeep);
        }
        let parsed = env.parser().parse_with_source_info(text);
        let (mut expression, source) =
            parsed.map_err(|errors| CompileError::Mistakes(checker::of_syntax(text, &errors)))?;
        let mistakes = |found: &[Mistake]| CompileError::Mistakes(checker::of_mistakes(text, &source, found));
        checker::check(&expression, with_lists).map_err(|error| match error {
            CheckError::Mistakes(found) => mistakes(&found),
            CheckError::Result(of_result) => CompileError::Result(of_result),
        })?;
        let mut patterns = ConstantPatterns::default();
        compile_patterns(&mut expression, &mut patterns, deadline).map_err(|fault| match fault {
            PatternFault::Mistake(mistake) => mistakes(&[mistake]),
            PatternFault::Other(error) => CompileError::Pattern(error),
            PatternFault::TimedOut => CompileError::TimedOut,
        })?;
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
            Ok(other) => Err(SelectorError::run(&not_a_bool(&other))),
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
) -> Result<(), PatternFault> {
    let is_match = matches!(
        &expression.expr,
        Expr::Call(call) if call.target.is_some() && cost::function_name(call) == "matches"
    );
    if let Some(argument) = pattern_argument(&mut expression.expr)
        && let Expr::Literal(LiteralValue::String(text)) = &argument.expr
    {
        let variable = patterns.variable_for(text.inner()).map_err(|error| match error {
            PatternError::Invalid(_) if is_match => {
                PatternFault::Mistake(Mistake { id: argument.id, message: "invalid matches argument".to_owned() })
            }
            PatternError::Invalid(_) | PatternError::TooLarge | PatternError::TooLong | PatternError::TooDeep => {
                PatternFault::Other(error)
            }
        })?;
        argument.expr = Expr::Ident(variable);
        if deadline.is_over() {
            return Err(PatternFault::TimedOut);
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

/// The message for a result that is known when the expression runs, and is not a bool.
fn not_a_bool(value: &Value) -> String {
    let kind = value.type_of().to_string();
    let reason = match kind.as_str() {
        "string" => "unsupported native conversion from string to 'bool'".to_owned(),
        "int" | "uint" => format!("unsupported type conversion from '{kind}' to bool"),
        other => format!("type conversion error from {other} to 'bool'"),
    };
    format!("CEL result of type {kind} could not be converted to bool: {reason}")
}

/// The message for conditions of pods, in the words of cel-go if it has some.
#[expect(clippy::wildcard_enum_match_arm, reason = "any other error is in the words of the interpreter")]
fn message(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(_, Value::UInt(_), _) => "unsigned integer overflow".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(Value::Int(index)) => format!("index out of bounds: {index}"),
        ExecutionError::FunctionError { message, .. } => message.clone(),
        ExecutionError::UnexpectedType { got, want } if want == "iterable" => {
            format!("got '{}', expected iterable type", name_in_go(got))
        }
        ExecutionError::NoSuchOverload(call) if is_name_of_function(call.function()) => {
            format!("no such overload: {}({})", call.function(), call.argument_types().join(", "))
        }
        ExecutionError::NoSuchOverload(_)
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnsupportedBinaryOperator(..) => "no such overload".to_owned(),
        _ => error.to_string(),
    }
}

/// Whether the name is the name of a function, and not of an operator such as `_+_`.
fn is_name_of_function(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
}

/// The name of a type in the code of cel-go and Kubernetes.
fn name_in_go(kind: &str) -> String {
    match kind {
        "kubernetes.Semver" => "cel.Semver".to_owned(),
        "kubernetes.Quantity" => "cel.Quantity".to_owned(),
        other => {
            let (first, rest) = other.split_at_checked(1).unwrap_or((other, ""));
            format!("types.{}{rest}", first.to_ascii_uppercase())
        }
    }
}
