//! The parser of quantities.

use super::decimal::Decimal;
use super::{Amount, Format, ParseQuantityError, Quantity};

/// The largest exponent. With larger exponents, a few bytes of manifest could fill the memory with digits.
const MAX_EXPONENT: i32 = 9999;
/// The number of decimals of the finest amount, 10^-9 ("nano").
const NANO_DECIMALS: i32 = 9;

/// The parts of a quantity's text.
struct Parts<'a> {
    negative: bool,
    /// The digits before the point, without leading zeros, but at least one digit.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
}

/// The factor of a suffix.
#[derive(Clone, Copy)]
enum Multiplier {
    PowerOf10(i32, Format),
    PowerOf2(u32),
}

pub(super) fn quantity(text: &str) -> Result<Quantity, ParseQuantityError> {
    let parts = split(text)?;
    match multiplier(parts.suffix)? {
        Multiplier::PowerOf10(exponent, format) => Ok(decimal(text, &parts, exponent, format)),
        Multiplier::PowerOf2(exponent) => Ok(binary(&parts, exponent)),
    }
}

fn split(text: &str) -> Result<Parts<'_>, ParseQuantityError> {
    if text.is_empty() {
        return Err(ParseQuantityError::Format);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, rest) = split_digits(unsigned);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    let after_letters = suffix.trim_start_matches(['e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P']);
    let (_, remainder) = split_digits(after_letters.strip_prefix(['+', '-']).unwrap_or(after_letters));
    if !remainder.is_empty() {
        return Err(ParseQuantityError::Format);
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        significant => significant,
    };
    Ok(Parts { negative: text.starts_with('-'), whole, fraction, suffix })
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn multiplier(suffix: &str) -> Result<Multiplier, ParseQuantityError> {
    let si = |exponent| Ok(Multiplier::PowerOf10(exponent, Format::DecimalSi));
    match suffix {
        "n" => si(-9),
        "u" => si(-6),
        "m" => si(-3),
        "" => si(0),
        "k" => si(3),
        "M" => si(6),
        "G" => si(9),
        "T" => si(12),
        "P" => si(15),
        "E" => si(18),
        "Ki" => Ok(Multiplier::PowerOf2(10)),
        "Mi" => Ok(Multiplier::PowerOf2(20)),
        "Gi" => Ok(Multiplier::PowerOf2(30)),
        "Ti" => Ok(Multiplier::PowerOf2(40)),
        "Pi" => Ok(Multiplier::PowerOf2(50)),
        "Ei" => Ok(Multiplier::PowerOf2(60)),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E']).and_then(|exponent| exponent.parse::<i64>().ok());
            let exponent = exponent.ok_or(ParseQuantityError::Suffix)?.max(i64::from(-MAX_EXPONENT));
            match i32::try_from(exponent) {
                Ok(exponent @ ..=MAX_EXPONENT) => Ok(Multiplier::PowerOf10(exponent, Format::DecimalExponent)),
                _ => Err(ParseQuantityError::Suffix),
            }
        }
    }
}

fn decimal(text: &str, parts: &Parts<'_>, exponent: i32, format: Format) -> Quantity {
    let digits = [parts.whole, parts.fraction].concat();
    let n_decimals = i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX);
    let exponent = exponent.saturating_sub(n_decimals);
    if digits.len() <= 18 && exponent >= -NANO_DECIMALS {
        let mantissa = signed(parts, digits.parse().unwrap_or_default());
        // Kubernetes decides by this simple check whether a number is canonical. It prints the original text of such a
        // number.
        let keeps_text = exponent % 3 == 0 && !digits.starts_with('0') && !digits.ends_with("000");
        let written = keeps_text.then(|| text.into());
        return Quantity { amount: Amount::Compact { mantissa, exponent }, format, written };
    }
    let exact = to_decimal(parts.negative, &digits, exponent.saturating_neg());
    Quantity::new(Amount::Wide(exact.rounded_to(NANO_DECIMALS)), format)
}

fn binary(parts: &Parts<'_>, exponent: u32) -> Quantity {
    // A compact amount has at most 14 digits, including the digits of the suffix.
    let n_suffix_digits = usize::try_from(exponent * 3 / 10).unwrap_or(usize::MAX);
    if parts.fraction.is_empty() && parts.whole.len().saturating_add(n_suffix_digits) <= 14 {
        let mantissa = signed(parts, parts.whole.parse().unwrap_or_default()) << exponent;
        return Quantity::new(Amount::Compact { mantissa, exponent: 0 }, Format::BinarySi);
    }
    let digits = [parts.whole, parts.fraction].concat();
    let scale = i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX);
    let magnitude = to_decimal(false, &digits, scale).doubled(exponent).rounded_to(NANO_DECIMALS);
    let magnitude =
        if magnitude.compare(&Decimal::new(i64::MAX, 0)).is_gt() { Decimal::new(i64::MAX, 0) } else { magnitude };
    let below_one = magnitude.signum() > 0 && magnitude.compare(&Decimal::new(1, 0)).is_lt();
    let format = if below_one { Format::DecimalSi } else { Format::BinarySi };
    Quantity::new(Amount::Wide(if parts.negative { magnitude.negated() } else { magnitude }), format)
}

fn signed(parts: &Parts<'_>, magnitude: i64) -> i64 {
    if parts.negative { -magnitude } else { magnitude }
}

fn to_decimal(negative: bool, digits: &str, scale: i32) -> Decimal {
    Decimal::from_digits(negative, digits.bytes().map(|byte| byte - b'0').collect(), scale)
}
