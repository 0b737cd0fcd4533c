//! Quantities such as `500m` and `1Gi`: checked, compared, and written in canonical form.
//!
//! Fields that hold quantities are recognised by their names, which is unambiguous in the kinds served here.

use std::cmp::Ordering;

use serde_json::Value;

/// Maps whose values are quantities.
const MAPS: [&str; 14] = [
    "requests",
    "limits",
    "capacity",
    "allocatable",
    "overhead",
    "podFixed",
    "hard",
    "used",
    "default",
    "defaultRequest",
    "max",
    "min",
    "maxLimitRequestRatio",
    "allocatedResources",
];

/// A field holds a text that is no quantity, reported in the API server's words.
#[derive(Debug, thiserror::Error)]
#[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
pub(crate) struct MalformedQuantity;

/// A number with the family of its suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quantity {
    /// Thousandths, rounded up.
    milli: i128,
    binary: bool,
}

impl Quantity {
    /// Reads a quantity, or nothing if it isn't one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits_end = text.find(|c: char| !c.is_ascii_digit() && !"+-.".contains(c)).unwrap_or(text.len());
        let (number, suffix) = text.split_at(digits_end);
        let (multiplier, divisor, binary) = scale(suffix)?;
        let (negative, number) = match number.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, number.strip_prefix('+').unwrap_or(number)),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let fraction = fraction.get(..fraction.len().min(9)).unwrap_or_default();
        let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
        let divisor = divisor.checked_mul(10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?)?;
        let scaled = digits.checked_mul(multiplier)?.checked_mul(1000)?;
        let milli = scaled.div_euclid(divisor) + i128::from(scaled.rem_euclid(divisor) != 0);
        Some(Self { milli: if negative { -milli } else { milli }, binary })
    }

    /// Whether it is zero.
    pub(crate) fn is_zero(self) -> bool {
        self.milli == 0
    }

    fn canonical(self) -> String {
        const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
        const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
        if self.milli % 1000 != 0 {
            return format!("{}m", self.milli);
        }
        let mut number = self.milli / 1000;
        let (base, suffixes) = if self.binary && number.abs() >= 1024 { (1024, BINARY) } else { (1000, DECIMAL) };
        let mut suffix = suffixes.iter();
        let mut current = suffix.next().copied().unwrap_or_default();
        while number != 0 && number % base == 0 {
            let Some(&larger) = suffix.next() else { break };
            current = larger;
            number /= base;
        }
        format!("{number}{current}")
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.milli.cmp(&other.milli))
    }
}

/// Multiplier, divisor, and whether the suffix is binary.
fn scale(suffix: &str) -> Option<(i128, i128, bool)> {
    Some(match suffix {
        "" => (1, 1, false),
        "n" => (1, 1_000_000_000, false),
        "u" => (1, 1_000_000, false),
        "m" => (1, 1000, false),
        "k" => (1000, 1, false),
        "M" => (1_000_000, 1, false),
        "G" => (1_000_000_000, 1, false),
        "T" => (1_000_000_000_000, 1, false),
        "P" => (1_000_000_000_000_000, 1, false),
        "E" => (1_000_000_000_000_000_000, 1, false),
        "Ki" => (1 << 10, 1, true),
        "Mi" => (1 << 20, 1, true),
        "Gi" => (1 << 30, 1, true),
        "Ti" => (1 << 40, 1, true),
        "Pi" => (1 << 50, 1, true),
        "Ei" => (1 << 60, 1, true),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            let magnitude = 10_i128.checked_pow(power.unsigned_abs())?;
            if power < 0 { (1, magnitude, false) } else { (magnitude, 1, false) }
        }
    })
}

/// Refuses an object with a malformed quantity.
pub(crate) fn check(value: &Value) -> Result<(), MalformedQuantity> {
    visit(value, &mut |quantity| {
        let well_formed = quantity.as_str().is_none_or(|text| Quantity::parse(text).is_some());
        if well_formed { Ok(()) } else { Err(MalformedQuantity) }
    })
}

fn visit(
    value: &Value,
    inspect: &mut impl FnMut(&Value) -> Result<(), MalformedQuantity>,
) -> Result<(), MalformedQuantity> {
    match value {
        Value::Object(members) => members.iter().try_for_each(|(key, member)| match member {
            Value::Object(quantities) if MAPS.contains(&key.as_str()) => {
                quantities.values().filter(|quantity| !quantity.is_object()).try_for_each(&mut *inspect)
            }
            other => visit(other, inspect),
        }),
        Value::Array(elements) => elements.iter().try_for_each(|element| visit(element, inspect)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Rewrites all quantities of an object in canonical form.
pub(crate) fn canonicalise(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (key, member) in members.iter_mut() {
                match member {
                    Value::Object(quantities) if MAPS.contains(&key.as_str()) => {
                        quantities.values_mut().for_each(canonicalise_one);
                    }
                    other => canonicalise(other),
                }
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(canonicalise),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn canonicalise_one(value: &mut Value) {
    let text = match &*value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return canonicalise(value),
    };
    if let Some(quantity) = Quantity::parse(&text) {
        *value = quantity.canonical().into();
    }
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn quantities_become_canonical() {
        for (given, canonical) in [
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("2000", "2k"),
            ("110", "110"),
            ("1e3", "1k"),
            ("0", "0"),
            ("512Ki", "512Ki"),
        ] {
            assert_eq!(Quantity::parse(given).map(Quantity::canonical).as_deref(), Some(canonical), "{given}");
        }
        assert_eq!(Quantity::parse("abc"), None);
    }
}
