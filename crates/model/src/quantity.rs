//! Resource quantities such as `250m`, `1.5Gi` or `2e3`.
//!
//! A quantity is exact: comparing and adding never round. Only [`Quantity::value`] and [`Quantity::milli_value`], which
//! make the integers for the scheduler, round, and they round up. For amounts beyond `i64` they return the same odd
//! results as Kubernetes, so that both schedulers read a manifest in the same way. API validation keeps such amounts
//! out of a real cluster.
//!
//! The grammar, rounding and canonical text follow the Kubernetes API reference ("Quantity").

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Mul, Sub};
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use self::decimal::Decimal;

mod decimal;
mod parse;
mod text;

/// An exact amount of a resource, and the family of suffixes with which it is written.
///
/// Equality and order compare only the amount: `1Gi` equals `1073741824`.
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// The original text, if Kubernetes prints the original text instead of the canonical text.
    written: Option<Box<str>>,
}

/// The family of suffixes with which a quantity is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// `1k`, `1500m`: powers of 1000.
    #[default]
    DecimalSi,
    /// `1Ki`, `1536Mi`: powers of 1024.
    BinarySi,
    /// `1e3`: powers of 1000 as an exponent.
    DecimalExponent,
}

/// The reason why a text is not a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuantityError {
    /// The text is not a number followed by a possible suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The suffix is unknown, or is an exponent beyond 9999.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// The form of an amount. Kubernetes keeps most amounts as an integer with a decimal exponent, and all other amounts as
/// decimals of any size. Beyond `i64`, and for negative fractions, the two forms give different results, so the form is
/// part of the value.
#[derive(Clone, Debug)]
enum Amount {
    Compact { mantissa: i64, exponent: i32 },
    Wide(Decimal),
}

impl Default for Amount {
    fn default() -> Self {
        Self::Compact { mantissa: 0, exponent: 0 }
    }
}

impl Quantity {
    /// An amount of `milli` thousandths, as CPU is counted.
    #[must_use]
    pub fn from_milli(milli: i64) -> Self {
        Self::new(Amount::Compact { mantissa: milli, exponent: -3 }, Format::DecimalSi)
    }

    /// An amount of whole units, such as bytes.
    #[must_use]
    pub fn from_units(units: i64, format: Format) -> Self {
        Self::new(Amount::Compact { mantissa: units, exponent: 0 }, format)
    }

    fn new(amount: Amount, format: Format) -> Self {
        Self { amount, format, written: None }
    }

    /// The amount in whole units, rounded up. A negative fraction that was never summed is rounded away from zero.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.amount.scaled(0)
    }

    /// The amount in thousandths, rounded like [`Quantity::value`].
    #[must_use]
    pub fn milli_value(&self) -> i64 {
        self.amount.scaled(3)
    }

    /// The family of suffixes with which the quantity is printed.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether the amount is exactly zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.signum() == 0
    }

    /// The sign of the amount: -1, 0 or 1.
    #[must_use]
    pub fn signum(&self) -> i32 {
        match &self.amount {
            Amount::Compact { mantissa, .. } => match mantissa.cmp(&0) {
                Ordering::Less => -1,
                Ordering::Equal => 0,
                Ordering::Greater => 1,
            },
            Amount::Wide(decimal) => decimal.signum(),
        }
    }

    /// This amount in the form of arbitrary precision. Kubernetes changes a quantity to this form before it compares
    /// the quantity with another quantity that is too large or too fine for the compact form. Sums and order do not
    /// change. Only the rounding of negative fractions and the results beyond `i64` differ.
    #[must_use]
    pub fn widened(&self) -> Self {
        Self::new(Amount::Wide(self.amount.to_decimal()), self.format)
    }

    fn plus(&self, other: &Self) -> Self {
        let both_compact = matches!((&self.amount, &other.amount), (Amount::Compact { .. }, Amount::Compact { .. }));
        let format = if self.is_zero() { other.format } else { self.format };
        if both_compact && self.is_zero() {
            return Self::new(other.amount.clone(), format);
        }
        if both_compact && other.is_zero() {
            return Self::new(self.amount.clone(), format);
        }
        let amount = self
            .amount
            .compact_sum(&other.amount)
            .unwrap_or_else(|| Amount::Wide(self.amount.to_decimal().plus(&other.amount.to_decimal())));
        Self::new(amount, format)
    }

    fn negated(&self) -> Self {
        let amount = match &self.amount {
            Amount::Compact { mantissa, exponent } => match mantissa.checked_neg() {
                Some(mantissa) => Amount::Compact { mantissa, exponent: *exponent },
                None => Amount::Wide(self.amount.to_decimal().negated()),
            },
            Amount::Wide(decimal) => Amount::Wide(decimal.clone().negated()),
        };
        Self::new(amount, self.format)
    }
}

impl Amount {
    /// The amount times 10^`decimals`, rounded up.
    fn scaled(&self, decimals: i32) -> i64 {
        match self {
            Self::Compact { mantissa, exponent } => match exponent.saturating_add(decimals) {
                shift @ 0.. => shifted_left(*mantissa, shift.unsigned_abs()),
                shift => shifted_right(*mantissa, shift.unsigned_abs()),
            },
            Self::Wide(decimal) => decimal.scaled(decimals),
        }
    }

    fn to_decimal(&self) -> Decimal {
        match self {
            Self::Compact { mantissa, exponent } => Decimal::new(*mantissa, exponent.saturating_neg()),
            Self::Wide(decimal) => decimal.clone(),
        }
    }

    /// The sum, if it fits the compact form.
    fn compact_sum(&self, other: &Self) -> Option<Self> {
        let (mantissa, other_mantissa, exponent) = self.aligned(other)?;
        Some(Self::Compact { mantissa: mantissa.checked_add(other_mantissa)?, exponent })
    }

    /// Both mantissas with the finer of the two exponents.
    fn aligned(&self, other: &Self) -> Option<(i64, i64, i32)> {
        let (
            Self::Compact { mantissa, exponent },
            Self::Compact { mantissa: other_mantissa, exponent: other_exponent },
        ) = (self, other)
        else {
            return None;
        };
        let finer = *exponent.min(other_exponent);
        let at_finer = |mantissa: i64, exponent: i32| {
            let factor = 10i64.checked_pow(exponent.abs_diff(finer))?;
            mantissa.checked_mul(factor)
        };
        Some((at_finer(*mantissa, *exponent)?, at_finer(*other_mantissa, *other_exponent)?, finer))
    }
}

/// `mantissa` × 10^`digits`. Beyond `i64`, Kubernetes' multiplication in one step wraps around, and its multiplication
/// digit by digit gives zero.
fn shifted_left(mantissa: i64, digits: u32) -> i64 {
    let factor = 10i64.checked_pow(digits);
    if let Some(product) = factor.and_then(|factor| mantissa.checked_mul(factor)) {
        return product;
    }
    match (digits, factor) {
        (1 | 2 | 3 | 6 | 9, Some(factor)) => mantissa.wrapping_mul(factor),
        _ => 0,
    }
}

/// `mantissa` / 10^`digits`, rounded away from zero.
fn shifted_right(mantissa: i64, digits: u32) -> i64 {
    let Some(divisor) = 10i64.checked_pow(digits) else {
        return mantissa.signum();
    };
    let quotient = mantissa / divisor;
    if mantissa % divisor == 0 { quotient } else { quotient + mantissa.signum() }
}

/// The exact sum. It is printed like the left side, or like the right side if the left is zero.
impl Add for &Quantity {
    type Output = Quantity;

    fn add(self, other: &Quantity) -> Quantity {
        self.plus(other)
    }
}

/// The exact difference. It is printed like a sum.
impl Sub for &Quantity {
    type Output = Quantity;

    fn sub(self, other: &Quantity) -> Quantity {
        self.plus(&other.negated())
    }
}

/// The exact product. It is printed like the left side.
impl Mul for &Quantity {
    type Output = Quantity;

    fn mul(self, other: &Quantity) -> Quantity {
        let product = self.amount.to_decimal().times(&other.amount.to_decimal());
        Quantity::new(Amount::Wide(product), self.format)
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match self.amount.aligned(&other.amount) {
            Some((mantissa, other_mantissa, _)) => mantissa.cmp(&other_mantissa),
            None => self.amount.to_decimal().compare(&other.amount.to_decimal()),
        }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Quantity {}

/// Refuses a text that the Kubernetes API server refuses, with the same message.
impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse::quantity(text)
    }
}

/// Writes the canonical text, from which the same amount can be read.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.written {
            Some(written) => f.write_str(written),
            None => f.write_str(&text::canonical(&self.amount.to_decimal(), self.format)),
        }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads a string or a bare number; `null` is zero.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a resource quantity")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        text.trim().parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, units: i64) -> Result<Quantity, E> {
        self.visit_str(&units.to_string())
    }

    fn visit_u64<E: de::Error>(self, units: u64) -> Result<Quantity, E> {
        self.visit_str(&units.to_string())
    }

    fn visit_f64<E: de::Error>(self, units: f64) -> Result<Quantity, E> {
        self.visit_str(&units.to_string())
    }

    fn visit_unit<E: de::Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::default())
    }
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn reads_strings_and_bare_numbers() {
        let read = |json: &str| serde_json::from_str::<Quantity>(json).unwrap().to_string();
        assert_eq!(read(r#""1500Mi""#), "1500Mi");
        assert_eq!(read("2"), "2");
        assert_eq!(read("0.5"), "500m");
        assert_eq!(read("null"), "0");
        assert!(serde_json::from_str::<Quantity>("true").is_err());
    }

    #[test]
    fn refuses_exponents_that_would_fill_memory() {
        assert!("1e10000".parse::<Quantity>().is_err());
        assert!("1e-99999999999".parse::<Quantity>().is_ok());
    }

    #[test]
    fn products_are_exact_and_printed_like_the_left_side() {
        let product = |left: &str, right: &str| {
            (&left.parse::<Quantity>().unwrap() * &right.parse::<Quantity>().unwrap()).to_string()
        };
        assert_eq!(product("4Gi", "2"), "8Gi");
        assert_eq!(product("3", "1500m"), "4500m");
        assert_eq!(product("12", "0"), "0");
        assert_eq!(product("-105", "10"), "-1050");
        assert_eq!(product("9223372036854775807", "10"), "92233720368547758070");
    }

    #[test]
    fn equal_amounts_are_equal_however_written() {
        let read = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(read("1Gi"), read("1073741824"));
        assert_eq!(read("0.3Ei"), read("345876451382054092800m"));
        assert_eq!(Quantity::from_milli(1500), read("1.5"));
    }
}
