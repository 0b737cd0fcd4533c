//! The canonical text of a quantity. The text is a whole number with the largest possible suffix.

use super::Format;
use super::decimal::Decimal;

/// The largest power of 1000 with a decimal suffix, `E`.
const MAX_SI_EXPONENT: i32 = 18;
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

pub(super) fn canonical(amount: &Decimal, format: Format) -> String {
    match format {
        Format::DecimalExponent => decimal(amount, i32::MAX, |exponent| format!("e{exponent}")),
        Format::DecimalSi => decimal(amount, MAX_SI_EXPONENT, si_suffix),
        Format::BinarySi => binary(amount).unwrap_or_else(|| decimal(amount, MAX_SI_EXPONENT, si_suffix)),
    }
}

fn decimal(amount: &Decimal, max_exponent: i32, suffix: impl Fn(i32) -> String) -> String {
    if amount.signum() == 0 {
        return "0".to_owned();
    }
    let stripped = amount.clone().stripped();
    let finest = stripped.scale().saturating_neg().min(max_exponent);
    let exponent = finest - finest.rem_euclid(3);
    let mut text = digits_of(&stripped.rounded_to(-exponent));
    if exponent != 0 {
        text.push_str(&suffix(exponent));
    }
    text
}

/// The text in powers of 1024. `None` if the amount is small or fractional, because such an amount is printed in powers
/// of 1000.
fn binary(amount: &Decimal) -> Option<String> {
    if amount.clone().stripped().scale() > 0 {
        return None;
    }
    let mut amount = amount.clone().stripped().rounded_to(0);
    let is_small = amount.compare(&Decimal::new(1024, 0)).is_lt() && amount.compare(&Decimal::new(-1024, 0)).is_gt();
    if is_small {
        return None;
    }
    let mut suffixes = BINARY_SUFFIXES.iter();
    let mut suffix = suffixes.next()?;
    for larger in suffixes {
        let Some(quotient) = amount.divided_by_1024() else {
            break;
        };
        amount = quotient;
        suffix = larger;
    }
    Some(digits_of(&amount) + suffix)
}

fn digits_of(amount: &Decimal) -> String {
    let sign = if amount.signum() < 0 { "-" } else { "" };
    sign.chars().chain(amount.digits().iter().map(|digit| char::from(b'0' + digit))).collect()
}

fn si_suffix(exponent: i32) -> String {
    let suffix = match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => "",
    };
    suffix.to_owned()
}
