//! The macros `cel.bind`, and those of comprehensions over two variables: `all`, `exists`, `existsOne`, `transformList`,
//! `transformMap` and `transformMapEntry` (cel-go's extensions `Bindings` and `TwoVarComprehensions`).
//!
//! The two variables are the index and the element of a list, or the key and the value of a map. The interpreter binds
//! one variable. So a macro makes a loop over a list of pairs, and names the parts of each pair.

use std::collections::HashMap;

use cel::{
    DeclarationError, Env, ExecutionError, IdedExpr, ParseError,
    common::{
        ast::{
            CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, ListExpr, LiteralValue, MapEntryExpr, MapExpr,
            operators,
        },
        types::{CelBool, CelInt, CelList, CelMap, CelMapKey, LIST_TYPE, MAP_TYPE},
        value::{CowVal, Val},
    },
    parser::{Macro, MacroExprHelper},
};

use super::arguments::{CelArguments, CelResult, elements};

/// The functions that the macros call. No user can write these names.
pub(super) const PAIRS: &str = "@pairs";
pub(super) const MERGED: &str = "@merged";
const PAIR: &str = "@pair";
const RESULT: &str = "@result";

/// The result that a loop makes of its rounds.
#[derive(Clone, Copy, Debug)]
enum Fold {
    All,
    Exists,
    ExistsOne,
    List,
    /// A map with the entry of each round: the key, and the value of the expression.
    Map,
    /// A map with the entries of the maps of all rounds.
    Entries,
}

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload(PAIRS, "@pairs(list)", vec![LIST_TYPE], pairs_of_list)?;
    env.add_overload(PAIRS, "@pairs(map)", vec![MAP_TYPE], pairs_of_map)?;
    env.add_overload(MERGED, "@merged(list)", vec![LIST_TYPE], merged)?;
    env.add_macro(Macro::receiver("bind", 3, bind))?;
    let macros = [
        ("all", 3, Fold::All),
        ("exists", 3, Fold::Exists),
        ("existsOne", 3, Fold::ExistsOne),
        ("exists_one", 3, Fold::ExistsOne),
        ("transformList", 3, Fold::List),
        ("transformList", 4, Fold::List),
        ("transformMap", 3, Fold::Map),
        ("transformMap", 4, Fold::Map),
        ("transformMapEntry", 3, Fold::Entries),
        ("transformMapEntry", 4, Fold::Entries),
    ];
    for (name, n_arguments, fold) in macros {
        let for_fold = Macro::receiver(name, n_arguments, move |helper, target, arguments| {
            expand(helper, target, arguments, fold)
        });
        env.add_macro(for_fold)?;
    }
    Ok(())
}

/// `cel.bind(name, value, expression)`.
fn bind(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
) -> Result<Option<IdedExpr>, ParseError> {
    if !target.as_ref().is_some_and(|target| matches!(&target.expr, Expr::Ident(name) if name == "cel")) {
        return Ok(None);
    }
    let name = match args.first().map(|argument| (&argument.expr, argument.id)) {
        Some((Expr::Ident(name), _)) => name.clone(),
        Some((_, id)) => return Err(helper.new_error(id, "cel.bind() variable names must be simple identifiers")),
        None => return Ok(None),
    };
    let (Some(result), Some(value)) = (args.pop(), args.pop()) else { return Ok(None) };
    Ok(Some(bound(helper, &name, value, result)))
}

/// A comprehension over an empty list; its accumulator is the variable.
fn bound(helper: &mut MacroExprHelper<'_>, name: &str, value: IdedExpr, result: IdedExpr) -> IdedExpr {
    let comprehension = ComprehensionExpr {
        iter_range: helper.next_expr(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "#unused".to_owned(),
        iter_var2: None,
        accu_var: name.to_owned(),
        accu_init: value,
        loop_cond: helper.next_expr(Expr::Literal(LiteralValue::Boolean(CelBool::from(false)))),
        loop_step: ident(helper, name),
        result,
    };
    helper.next_expr(Expr::Comprehension(Box::new(comprehension)))
}

/// The arguments are the two variables, a condition if there are four, and the expression of each round.
fn expand(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    arguments: &mut Vec<IdedExpr>,
    fold: Fold,
) -> Result<Option<IdedExpr>, ParseError> {
    let names = variables(helper, arguments)?;
    let Some(range) = target.take() else { return Ok(None) };
    let mut parts = arguments.split_off(2);
    let Some(body) = parts.pop() else { return Ok(None) };
    let body = match fold {
        Fold::Map => {
            let key = ident(helper, &names[0]);
            let entry = MapEntryExpr { key, value: body, optional: false };
            let entry = IdedEntryExpr { id: entry.key.id, expr: EntryExpr::MapEntry(entry) };
            helper.next_expr(Expr::Map(MapExpr { entries: vec![entry] }))
        }
        Fold::All | Fold::Exists | Fold::ExistsOne | Fold::List | Fold::Entries => body,
    };
    let body = with_names(helper, &names, body);
    let condition = parts.pop().map(|condition| with_names(helper, &names, condition));
    let pairs = call(helper, PAIRS, vec![range]);
    let folded = match fold {
        Fold::All => quantified(helper, pairs, body, true),
        Fold::Exists => quantified(helper, pairs, body, false),
        Fold::ExistsOne => exactly_one(helper, pairs, body),
        Fold::List => listed(helper, pairs, condition, body),
        Fold::Map | Fold::Entries => {
            let list = listed(helper, pairs, condition, body);
            call(helper, MERGED, vec![list])
        }
    };
    Ok(Some(folded))
}

/// The names in the first two arguments.
fn variables(helper: &MacroExprHelper<'_>, arguments: &[IdedExpr]) -> Result<[String; 2], ParseError> {
    let name = |position: usize| {
        let argument = arguments.get(position);
        if let Some(IdedExpr { expr: Expr::Ident(name), .. }) = argument {
            return Ok(name.clone());
        }
        Err(helper.new_error(argument.map_or(0, |argument| argument.id), "argument must be a simple name"))
    };
    let names = [name(0)?, name(1)?];
    if names[0] == names[1] {
        let id = arguments.get(1).map_or(0, |argument| argument.id);
        return Err(helper.new_error(id, format!("duplicate variable name: {}", names[0])));
    }
    Ok(names)
}

/// The expression, in which the names stand for the parts of the pair.
fn with_names(helper: &mut MacroExprHelper<'_>, names: &[String; 2], expression: IdedExpr) -> IdedExpr {
    let [first, second] = names;
    let value = part_of_pair(helper, 1);
    let inner = bound(helper, second, value, expression);
    let value = part_of_pair(helper, 0);
    bound(helper, first, value, inner)
}

fn part_of_pair(helper: &mut MacroExprHelper<'_>, position: i64) -> IdedExpr {
    let pair = ident(helper, PAIR);
    let position = int(helper, position);
    call(helper, operators::INDEX, vec![pair, position])
}

/// Ends as soon as a round decides: with false if all rounds must be true, and with true if one must be.
fn quantified(helper: &mut MacroExprHelper<'_>, pairs: IdedExpr, body: IdedExpr, all: bool) -> IdedExpr {
    let start = helper.next_expr(Expr::Literal(LiteralValue::Boolean(CelBool::from(all))));
    let result = ident(helper, RESULT);
    let undecided = if all { result } else { call(helper, operators::LOGICAL_NOT, vec![result]) };
    let condition = call(helper, operators::NOT_STRICTLY_FALSE, vec![undecided]);
    let result = ident(helper, RESULT);
    let operator = if all { operators::LOGICAL_AND } else { operators::LOGICAL_OR };
    let step = call(helper, operator, vec![result, body]);
    let result = ident(helper, RESULT);
    folded(helper, pairs, [start, condition, step, result])
}

fn exactly_one(helper: &mut MacroExprHelper<'_>, pairs: IdedExpr, body: IdedExpr) -> IdedExpr {
    let start = int(helper, 0);
    let condition = always(helper);
    let (result, one) = (ident(helper, RESULT), int(helper, 1));
    let more = call(helper, operators::ADD, vec![result, one]);
    let same = ident(helper, RESULT);
    let step = call(helper, operators::CONDITIONAL, vec![body, more, same]);
    let (result, one) = (ident(helper, RESULT), int(helper, 1));
    let is_one = call(helper, operators::EQUALS, vec![result, one]);
    folded(helper, pairs, [start, condition, step, is_one])
}

/// The list of the expression's values in the rounds in which `filter` is true.
fn listed(helper: &mut MacroExprHelper<'_>, pairs: IdedExpr, filter: Option<IdedExpr>, body: IdedExpr) -> IdedExpr {
    let start = helper.next_expr(Expr::List(ListExpr::new(Vec::new())));
    let condition = always(helper);
    let result = ident(helper, RESULT);
    let element = helper.next_expr(Expr::List(ListExpr::new(vec![body])));
    let mut step = call(helper, operators::ADD, vec![result, element]);
    if let Some(filter) = filter {
        let same = ident(helper, RESULT);
        step = call(helper, operators::CONDITIONAL, vec![filter, step, same]);
    }
    let result = ident(helper, RESULT);
    folded(helper, pairs, [start, condition, step, result])
}

fn folded(
    helper: &mut MacroExprHelper<'_>,
    pairs: IdedExpr,
    [accu_init, loop_cond, loop_step, result]: [IdedExpr; 4],
) -> IdedExpr {
    helper.next_expr(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: pairs,
        iter_var: PAIR.to_owned(),
        iter_var2: None,
        accu_var: RESULT.to_owned(),
        accu_init,
        loop_cond,
        loop_step,
        result,
    })))
}

fn always(helper: &mut MacroExprHelper<'_>) -> IdedExpr {
    helper.next_expr(Expr::Literal(LiteralValue::Boolean(CelBool::from(true))))
}

fn int(helper: &mut MacroExprHelper<'_>, number: i64) -> IdedExpr {
    helper.next_expr(Expr::Literal(LiteralValue::Int(CelInt::from(number))))
}

fn ident(helper: &mut MacroExprHelper<'_>, name: &str) -> IdedExpr {
    helper.next_expr(Expr::Ident(name.to_owned()))
}

fn call(helper: &mut MacroExprHelper<'_>, function: &str, args: Vec<IdedExpr>) -> IdedExpr {
    helper.next_expr(Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args }))
}

fn pair<'v>(first: Box<dyn Val + 'v>, second: Box<dyn Val + 'v>) -> Box<dyn Val + 'v> {
    Box::new(CelList::from(vec![first, second]))
}

fn pairs_of_list<'b, 'v>(arguments: CelArguments<'b, 'v>) -> CelResult<'b, 'v> {
    let mut pairs: Vec<Box<dyn Val + 'v>> = Vec::new();
    for (position, element) in (0_i64..).zip(elements(&arguments, 0)?) {
        pairs.push(pair(Box::new(CelInt::from(position)), element.clone_as_boxed()));
    }
    Ok(CowVal::owned(CelList::from(pairs)))
}

fn pairs_of_map<'b, 'v>(arguments: CelArguments<'b, 'v>) -> CelResult<'b, 'v> {
    let missing = ExecutionError::missing_argument_or_target;
    let values = arguments.first().and_then(|map| map.as_ref().as_indexer()).ok_or_else(missing)?;
    let mut pairs: Vec<Box<dyn Val + 'v>> = Vec::new();
    for key in elements(&arguments, 0)? {
        let value: Box<dyn Val + 'v> = values.get(key)?.into_owned();
        pairs.push(pair(key.clone_as_boxed(), value));
    }
    Ok(CowVal::owned(CelList::from(pairs)))
}

/// The map with the entries of all maps of a list.
fn merged<'b, 'v>(arguments: CelArguments<'b, 'v>) -> CelResult<'b, 'v> {
    let missing = ExecutionError::missing_argument_or_target;
    let mut entries: HashMap<CelMapKey<'v>, Box<dyn Val + 'v>> = HashMap::new();
    for map in elements(&arguments, 0)? {
        let values = map.as_indexer().ok_or_else(missing)?;
        let mut keys = map.as_iterable().ok_or_else(missing)?.iter();
        while let Some(key) = keys.next() {
            let value: Box<dyn Val + 'v> = values.get(key)?.into_owned();
            let key: Box<dyn Val + 'v> = key.clone_as_boxed();
            if entries.insert(CelMapKey::try_from(key)?, value).is_some() {
                return Err(ExecutionError::function_error("transformMapEntry", "a key occurs twice"));
            }
        }
    }
    Ok(CowVal::owned(CelMap::from(entries)))
}
