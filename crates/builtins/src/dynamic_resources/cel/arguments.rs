//! The arguments of functions that take values of several types, such as lists of any kind.

use cel::{
    ExecutionError,
    common::value::{CowVal, Val},
};

pub(super) type CelArguments<'b, 'v> = Vec<CowVal<'b, 'v>>;
pub(super) type CelResult<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// The elements of the list, or the keys of the map, that is the argument at `position`.
pub(super) fn elements<'a, 'v>(
    arguments: &'a [CowVal<'_, 'v>],
    position: usize,
) -> Result<Vec<&'a (dyn Val + 'v)>, ExecutionError> {
    let missing = ExecutionError::missing_argument_or_target;
    let argument = arguments.get(position).ok_or_else(missing)?;
    let mut iterator = argument.as_ref().as_iterable().ok_or_else(missing)?.iter();
    let mut elements: Vec<&'a (dyn Val + 'v)> = Vec::new();
    while let Some(element) = iterator.next() {
        elements.push(element);
    }
    Ok(elements)
}
