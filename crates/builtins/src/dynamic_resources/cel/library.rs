//! The environment of a selector: CEL's standard library and the extensions that Kubernetes adds to it.
//!
//! The extensions for strings and lists come with the interpreter, regular expressions are in [`pattern`], macros in
//! [`macros`], and each of Kubernetes' types has a file of its own. This file adds Kubernetes' lists (`isSorted`, `sum`,
//! `min`, `max`, `indexOf`, `lastIndexOf`), attributes of devices (`includes`), optional values (`first`, `last`,
//! `unwrapOpt`) and sets (`sets.contains`, `sets.equivalent`, `sets.intersects`).

use std::{cmp::Ordering, sync::Arc};

use cel::{
    DeclarationError, Env, ExecutionError,
    common::{
        types::{CelBool, CelInt, CelList, CelOptional, DYN_TYPE, Kind, LIST_TYPE},
        value::{CowVal, Val},
    },
    extensions,
};

use super::{
    address,
    arguments::{CelArguments, CelResult, elements},
    macros, named_format, pattern, quantity, semantic_version, times, url,
};

/// The maximum number of values in an attribute (`ResourceSliceMaxAttributeValuesPerDevice` in
/// `k8s.io/api/resource/v1/types.go`). `includes` takes no longer list.
const MAX_VALUES_OF_ATTRIBUTE: usize = 48;

pub(super) fn environment() -> Arc<Env> {
    let mut env = Env::stdlib();
    #[expect(clippy::expect_used, reason = "the declarations are constants, and the tests evaluate with them")]
    declare(&mut env).expect("no name is declared twice");
    Arc::new(env)
}

fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_extension(extensions::strings)?;
    env.add_extension(extensions::lists)?;
    env.add_extension(pattern::extension)?;
    env.add_extension(quantity::extension)?;
    env.add_extension(semantic_version::extension)?;
    env.add_extension(address::extension)?;
    env.add_extension(times::extension)?;
    env.add_extension(url::extension)?;
    env.add_extension(named_format::extension)?;
    env.add_extension(macros::extension)?;
    lists(env)?;
    optional_values(env)?;
    sets(env)
}

fn lists(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_member_overload("isSorted", "list.isSorted()", LIST_TYPE, Vec::new(), is_sorted)?;
    env.add_member_overload("sum", "list.sum()", LIST_TYPE, Vec::new(), sum)?;
    env.add_member_overload("min", "list.min()", LIST_TYPE, Vec::new(), min)?;
    env.add_member_overload("max", "list.max()", LIST_TYPE, Vec::new(), max)?;
    let any = || vec![DYN_TYPE];
    env.add_member_overload("indexOf", "list.indexOf(dyn)", LIST_TYPE, any(), index_of)?;
    env.add_member_overload("lastIndexOf", "list.lastIndexOf(dyn)", LIST_TYPE, any(), last_index_of)?;
    env.add_member_overload("includes", "list.includes(dyn)", LIST_TYPE, any(), includes_element)?;
    env.add_member_overload("includes", "dyn.includes(dyn)", DYN_TYPE, any(), includes_itself)
}

/// KEP-5491: whether an attribute that is a list includes the element.
fn includes_element<'b, 'v>(arguments: CelArguments<'b, 'v>) -> CelResult<'b, 'v> {
    let wanted = arguments.get(1).ok_or_else(ExecutionError::missing_argument_or_target)?;
    let elements = elements(&arguments, 0)?;
    let is_there = elements.iter().take(MAX_VALUES_OF_ATTRIBUTE).any(|element| element.equals(wanted.as_ref()));
    if !is_there && elements.len() > MAX_VALUES_OF_ATTRIBUTE {
        let reason =
            format!("'includes' function cannot be applied to lists longer than {MAX_VALUES_OF_ATTRIBUTE} values");
        return Err(ExecutionError::function_error("includes", reason));
    }
    Ok(CowVal::owned(CelBool::from(is_there)))
}

/// An attribute that is not a list includes itself, so that a driver can make it a list later.
fn includes_itself<'b, 'v>(arguments: CelArguments<'b, 'v>) -> CelResult<'b, 'v> {
    let [value, wanted] = arguments.as_slice() else { return Err(ExecutionError::missing_argument_or_target()) };
    Ok(CowVal::owned(CelBool::from(value.as_ref().equals(wanted.as_ref()))))
}

fn compare(left: &dyn Val, right: &dyn Val) -> Result<Ordering, ExecutionError> {
    let incomparable = || ExecutionError::no_such_overload("compare", vec![left.get_type().name().to_owned()]);
    left.as_comparer().ok_or_else(incomparable)?.compare(right)
}

fn is_sorted<'b, 'v>(arguments: CelArguments<'b, 'v>) -> CelResult<'b, 'v> {
    let elements = elements(&arguments, 0)?;
    let mut sorted = true;
    for (left, right) in elements.iter().zip(elements.iter().skip(1)) {
        sorted &= compare(*left, *right)?.is_le();
    }
    Ok(CowVal::owned(CelBool::from(sorted)))
}

/// The sum of numbers or durations. Adding texts or lists would copy the sum in each step.
fn sum<'b, 'v>(arguments: CelArguments<'b, 'v>) -> CelResult<'b, 'v> {
    let elements = elements(&arguments, 0)?;
    let Some((first, rest)) = elements.split_first() else { return Ok(CowVal::owned(CelInt::from(0))) };
    if matches!(first.get_type().kind(), Kind::String | Kind::Bytes | Kind::List) {
        return Err(ExecutionError::no_such_overload("sum", vec![first.get_type().name().to_owned()]));
    }
    let mut total: Box<dyn Val + 'v> = first.clone_as_boxed();
    for element in rest {
        let adder = total.as_adder().ok_or_else(ExecutionError::missing_argument_or_target)?;
        let next: Box<dyn Val + 'v> = adder.add(*element)?.into_owned();
        total = next;
    }
    Ok(CowVal::Owned(total))
}

fn extreme<'b, 'v>(arguments: &[CowVal<'_, 'v>], wanted: Ordering) -> CelResult<'b, 'v> {
    let elements = elements(arguments, 0)?;
    let Some((first, rest)) = elements.split_first() else {
        return Err(ExecutionError::function_error("min/max", "called on empty list"));
    };
    let mut best = *first;
    for element in rest {
        if compare(*element, best)? == wanted {
            best = *element;
        }
    }
    Ok(CowVal::Owned(best.clone_as_boxed()))
}

fn min<'b, 'v>(arguments: CelArguments<'b, 'v>) -> CelResult<'b, 'v> {
    extreme(&arguments, Ordering::Less)
}

fn max<'b, 'v>(arguments: CelArguments<'b, 'v>) -> CelResult<'b, 'v> {
    extreme(&arguments, Ordering::Greater)
}

fn position(found: Option<usize>) -> CowVal<'static, 'static> {
    let position = found.and_then(|position| i64::try_from(position).ok()).unwrap_or(-1);
    CowVal::owned(CelInt::from(position))
}

fn index_of<'b, 'v>(arguments: CelArguments<'b, 'v>) -> CelResult<'b, 'v> {
    let wanted = arguments.get(1).ok_or_else(ExecutionError::missing_argument_or_target)?;
    let elements = elements(&arguments, 0)?;
    Ok(position(elements.iter().position(|element| element.equals(wanted.as_ref()))))
}

fn last_index_of<'b, 'v>(arguments: CelArguments<'b, 'v>) -> CelResult<'b, 'v> {
    let wanted = arguments.get(1).ok_or_else(ExecutionError::missing_argument_or_target)?;
    let elements = elements(&arguments, 0)?;
    Ok(position(elements.iter().rposition(|element| element.equals(wanted.as_ref()))))
}

fn optional_values(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_member_overload("first", "list.first()", LIST_TYPE, Vec::new(), first)?;
    env.add_member_overload("last", "list.last()", LIST_TYPE, Vec::new(), last)?;
    env.add_member_overload("unwrapOpt", "list.unwrapOpt()", LIST_TYPE, Vec::new(), unwrap_optionals)?;
    env.add_overload("optional.unwrap", "optional.unwrap(list)", vec![LIST_TYPE], unwrap_optionals)
}

fn optional<'b, 'v>(element: Option<&(dyn Val + 'v)>) -> CowVal<'b, 'v> {
    let value: Option<Box<dyn Val + 'v>> = element.map(|element| element.clone_as_boxed());
    CowVal::owned(CelOptional::from(value))
}

fn first<'b, 'v>(arguments: CelArguments<'b, 'v>) -> CelResult<'b, 'v> {
    Ok(optional(elements(&arguments, 0)?.first().copied()))
}

fn last<'b, 'v>(arguments: CelArguments<'b, 'v>) -> CelResult<'b, 'v> {
    Ok(optional(elements(&arguments, 0)?.last().copied()))
}

/// The values of the optional values in a list that are present.
fn unwrap_optionals<'b, 'v>(arguments: CelArguments<'b, 'v>) -> CelResult<'b, 'v> {
    let mut values: Vec<Box<dyn Val + 'v>> = Vec::new();
    for element in elements(&arguments, 0)? {
        let Some(element) = element.downcast_ref::<CelOptional<'_>>() else {
            return Err(ExecutionError::no_such_overload("unwrap", vec![element.get_type().name().to_owned()]));
        };
        values.extend(element.option().map(|value| -> Box<dyn Val + 'v> { value.clone_as_boxed() }));
    }
    Ok(CowVal::owned(CelList::from(values)))
}

fn sets(env: &mut Env) -> Result<(), DeclarationError> {
    let two = || vec![LIST_TYPE, LIST_TYPE];
    env.add_overload("sets.contains", "sets.contains(list,list)", two(), set_contains)?;
    env.add_overload("sets.equivalent", "sets.equivalent(list,list)", two(), set_equivalent)?;
    env.add_overload("sets.intersects", "sets.intersects(list,list)", two(), set_intersects)
}

fn includes<'v>(outer: &[&(dyn Val + 'v)], inner: &[&(dyn Val + 'v)]) -> bool {
    inner.iter().all(|wanted| outer.iter().any(|element| element.equals(*wanted)))
}

fn set_contains<'b, 'v>(arguments: CelArguments<'b, 'v>) -> CelResult<'b, 'v> {
    let answer = includes(&elements(&arguments, 0)?, &elements(&arguments, 1)?);
    Ok(CowVal::owned(CelBool::from(answer)))
}

fn set_equivalent<'b, 'v>(arguments: CelArguments<'b, 'v>) -> CelResult<'b, 'v> {
    let (left, right) = (elements(&arguments, 0)?, elements(&arguments, 1)?);
    Ok(CowVal::owned(CelBool::from(includes(&left, &right) && includes(&right, &left))))
}

fn set_intersects<'b, 'v>(arguments: CelArguments<'b, 'v>) -> CelResult<'b, 'v> {
    let (left, right) = (elements(&arguments, 0)?, elements(&arguments, 1)?);
    let answer = left.iter().any(|wanted| right.iter().any(|element| element.equals(*wanted)));
    Ok(CowVal::owned(CelBool::from(answer)))
}
