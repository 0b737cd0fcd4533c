//! Kubernetes' CEL library for quantities ("Kubernetes quantity library" in the documentation of CEL in Kubernetes).

use std::cmp::Ordering;

use berth_model::quantity::{Format, Quantity};
use cel::{
    DeclarationError, Env, ExecutionError, add_member_overload, add_overload,
    common::types::{CelBool, CelDouble, CelInt, CelString, Type},
};

use super::library_value::library_value;

static QUANTITY: Type = Type::new_unspecified_type("kubernetes.Quantity");

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QuantityValue(pub(super) Quantity);

library_value!(QuantityValue: QUANTITY);

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(QUANTITY.to_owned())?;
    add_overload!(env, fn quantity: (CelString) -> Result<QuantityValue>)?;
    add_overload!(env, fn is_quantity: (CelString) -> CelBool)?;
    add_overload!(env, fn sign: (QuantityValue) -> CelInt)?;
    add_member_overload!(env, fn sign: (QuantityValue) -> CelInt)?;
    add_member_overload!(env, fn is_integer: (QuantityValue) -> CelBool)?;
    add_member_overload!(env, fn as_integer: (QuantityValue) -> Result<CelInt>)?;
    add_member_overload!(env, fn as_approximate_float: (QuantityValue) -> CelDouble)?;
    add_member_overload!(env, fn is_greater_than: (QuantityValue, QuantityValue) -> CelBool)?;
    add_member_overload!(env, fn is_less_than: (QuantityValue, QuantityValue) -> CelBool)?;
    add_member_overload!(env, fn compare_to: (QuantityValue, QuantityValue) -> CelInt)?;
    add_member_overload!(env, fn add: (QuantityValue, QuantityValue) -> QuantityValue)?;
    add_member_overload!(env, fn add_integer: (QuantityValue, CelInt) -> QuantityValue, name = "add")?;
    add_member_overload!(env, fn sub: (QuantityValue, QuantityValue) -> QuantityValue)?;
    add_member_overload!(env, fn sub_integer: (QuantityValue, CelInt) -> QuantityValue, name = "sub")?;
    Ok(())
}

fn quantity(text: &CelString<'_>) -> Result<QuantityValue, ExecutionError> {
    let parsed = text.inner().parse().map(QuantityValue);
    parsed.map_err(|error| ExecutionError::function_error("quantity", error))
}

fn is_quantity(text: &CelString<'_>) -> CelBool {
    text.inner().parse::<Quantity>().is_ok().into()
}

fn sign(this: &QuantityValue) -> CelInt {
    i64::from(this.0.signum()).into()
}

fn integer(quantity: &Quantity) -> Option<i64> {
    let units = quantity.value();
    (Quantity::from_units(units, Format::DecimalSi) == *quantity).then_some(units)
}

fn is_integer(this: &QuantityValue) -> CelBool {
    integer(&this.0).is_some().into()
}

fn as_integer(this: &QuantityValue) -> Result<CelInt, ExecutionError> {
    let out_of_range = || ExecutionError::function_error("asInteger", "cannot convert value to integer");
    integer(&this.0).map(CelInt::from).ok_or_else(out_of_range)
}

/// The value as a float, exact to a thousandth.
#[expect(clippy::cast_precision_loss, reason = "the function's name says so")]
fn as_approximate_float(this: &QuantityValue) -> CelDouble {
    let float = match integer(&this.0) {
        Some(units) => units as f64,
        None => this.0.milli_value() as f64 / 1000.0,
    };
    float.into()
}

fn is_greater_than(this: &QuantityValue, other: &QuantityValue) -> CelBool {
    (this.0 > other.0).into()
}

fn is_less_than(this: &QuantityValue, other: &QuantityValue) -> CelBool {
    (this.0 < other.0).into()
}

fn compare_to(this: &QuantityValue, other: &QuantityValue) -> CelInt {
    sign_of(this.0.cmp(&other.0))
}

/// -1, 0 or 1, as CEL's comparing functions answer.
pub(super) fn sign_of(ordering: Ordering) -> CelInt {
    let sign: i64 = match ordering {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    };
    sign.into()
}

fn add(this: &QuantityValue, other: &QuantityValue) -> QuantityValue {
    QuantityValue(&this.0 + &other.0)
}

fn add_integer(this: &QuantityValue, other: &CelInt) -> QuantityValue {
    QuantityValue(&this.0 + &Quantity::from_units(*other.inner(), Format::DecimalSi))
}

fn sub(this: &QuantityValue, other: &QuantityValue) -> QuantityValue {
    QuantityValue(&this.0 - &other.0)
}

fn sub_integer(this: &QuantityValue, other: &CelInt) -> QuantityValue {
    QuantityValue(&this.0 - &Quantity::from_units(*other.inner(), Format::DecimalSi))
}
