//! `DynamicResourcesArgs`.

use serde::Deserialize;

use crate::args;

/// Looks at devices that the allocator gets through in a millisecond, roughly. There is no clock here, so a time-out
/// becomes a number of steps.
const STEPS_PER_MILLISECOND: u64 = 1_000;
const DEFAULT_FILTER_TIMEOUT: u64 = 10_000;
const DEFAULT_BINDING_TIMEOUT: u64 = 600_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arguments {
    /// Of the search for devices on one node.
    pub(super) max_steps: u64,
    /// How long devices may take to get ready, in milliseconds.
    pub(super) binding_timeout: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    filter_timeout: Option<String>,
    binding_timeout: Option<String>,
}

impl Arguments {
    pub(super) fn parse(plugin: &str, args: &str) -> Result<Self, String> {
        let written: Written = args::parse(plugin, args)?;
        let filter_timeout = milliseconds("filterTimeout", written.filter_timeout, DEFAULT_FILTER_TIMEOUT)?;
        let binding_timeout = milliseconds("bindingTimeout", written.binding_timeout, DEFAULT_BINDING_TIMEOUT)?;
        if binding_timeout == 0 {
            return Err("bindingTimeout: must be at least 1s".to_owned());
        }
        // No time-out stands for the most steps there are.
        let max_steps =
            if filter_timeout == 0 { u64::MAX } else { filter_timeout.saturating_mul(STEPS_PER_MILLISECOND) };
        Ok(Self { max_steps, binding_timeout })
    }
}

fn milliseconds(field: &str, written: Option<String>, default: u64) -> Result<u64, String> {
    let Some(written) = written else { return Ok(default) };
    duration(&written).ok_or_else(|| format!("{field}: invalid duration {written:?}, or below zero"))
}

/// A duration as Go writes it: `1m30s`, `1.5h`, `0`. In milliseconds, rounded up; `None` for a negative one.
fn duration(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    let mut nanoseconds = 0f64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end_of_number = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let (number, with_unit) = rest.split_at(end_of_number);
        let end_of_unit = with_unit.find(|letter: char| letter.is_ascii_digit() || letter == '.');
        let (unit, after) = with_unit.split_at(end_of_unit.unwrap_or(with_unit.len()));
        nanoseconds += number.parse::<f64>().ok()? * nanoseconds_of(unit)?;
        rest = after;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative, and `as` saturates")]
    let milliseconds = (nanoseconds / 1e6).ceil() as u64;
    Some(milliseconds)
}

fn nanoseconds_of(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1.0),
        "us" | "µs" | "μs" => Some(1e3),
        "ms" => Some(1e6),
        "s" => Some(1e9),
        "m" => Some(60e9),
        "h" => Some(3600e9),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference documentation of the scheduler's configuration, DynamicResourcesArgs.
    #[test]
    fn time_outs_have_defaults_and_bounds() {
        let parse = |args: &str| Arguments::parse("DynamicResources", args);
        let default = Arguments { max_steps: 10_000_000, binding_timeout: 600_000 };
        assert_eq!(parse("null"), Ok(default));
        let written = parse(r#"{"filterTimeout":"1m0.5s","bindingTimeout":"1h"}"#);
        assert_eq!(written, Ok(Arguments { max_steps: 60_500_000, binding_timeout: 3_600_000 }));
        assert_eq!(parse(r#"{"filterTimeout":"0s"}"#).unwrap().max_steps, u64::MAX);
        for refused in
            [r#"{"filterTimeout":"-1s"}"#, r#"{"bindingTimeout":"0"}"#, r#"{"filterTimeout":"1"}"#, r#"{"x":1}"#]
        {
            assert!(parse(refused).is_err(), "{refused}");
        }
    }
}
