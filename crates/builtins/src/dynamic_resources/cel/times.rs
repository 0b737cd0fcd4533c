//! CEL's durations and timestamps, as the standard definitions of the specification have them.
//!
//! Dates and times of day are in UTC, or in a zone that is given by its offset, such as `+02:00`. The name of a zone is
//! refused, because nothing here knows the rules of zones.

use std::cmp::Ordering;

use berth_model::duration::parse_duration;
use cel::{
    DeclarationError, Env, ExecutionError, add_member_overload, add_overload,
    common::{
        traits::{Adder, Comparer, Negator, Subtractor},
        types::{CelInt, CelString, Type},
        value::{CowVal, Val},
    },
};
use jiff::{Timestamp, civil::DateTime, tz::Offset};

use super::library_value::library_value;

static DURATION: Type = Type::new_unspecified_type("google.protobuf.Duration");
static TIMESTAMP: Type = Type::new_unspecified_type("google.protobuf.Timestamp");

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// A duration in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Duration(i64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Instant(Timestamp);

fn out_of_range(operator: &str) -> ExecutionError {
    ExecutionError::function_error(operator, "duration or timestamp out of range")
}

fn no_overload(operator: &str, left: &dyn Val, right: &dyn Val) -> ExecutionError {
    let types = [left, right].map(|value| value.get_type().name().to_owned());
    ExecutionError::no_such_overload(operator, types.to_vec())
}

/// The operators of durations and timestamps: they are added, subtracted and compared.
macro_rules! computes {
    () => {
        fn as_adder<'b, 'v>(&'b self) -> Option<&'b (dyn Adder + 'v)>
        where
            Self: 'v,
        {
            Some(self)
        }

        fn as_subtractor<'b, 'v>(&'b self) -> Option<&'b (dyn Subtractor + 'v)>
        where
            Self: 'v,
        {
            Some(self)
        }

        fn as_comparer(&self) -> Option<&dyn Comparer> {
            Some(self)
        }
    };
}

impl Duration {
    fn of_nanos(operator: &str, nanos: i128) -> Result<Self, ExecutionError> {
        i64::try_from(nanos).map(Self).map_err(|_| out_of_range(operator))
    }
}

impl Instant {
    fn later_by(self, operator: &str, nanos: i128) -> Result<Self, ExecutionError> {
        let later = Timestamp::from_nanosecond(self.0.as_nanosecond().saturating_add(nanos));
        later.map(Self).map_err(|_| out_of_range(operator))
    }
}

library_value!(Duration: DURATION {
    computes!();

    fn as_negator<'b, 'v>(&'b self) -> Option<&'b (dyn Negator + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }
});

impl Adder for Duration {
    fn add<'b, 'v>(&'b self, rhs: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let nanos = i128::from(self.0);
        if let Some(other) = rhs.downcast_ref::<Self>() {
            return Duration::of_nanos("_+_", nanos + i128::from(other.0)).map(CowVal::owned);
        }
        let Some(instant) = rhs.downcast_ref::<Instant>() else { return Err(no_overload("_+_", self, rhs)) };
        instant.later_by("_+_", nanos).map(CowVal::owned)
    }
}

impl Subtractor for Duration {
    fn sub<'b, 'v>(&'b self, rhs: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let Some(other) = rhs.downcast_ref::<Self>() else { return Err(no_overload("_-_", self, rhs)) };
        Duration::of_nanos("_-_", i128::from(self.0) - i128::from(other.0)).map(CowVal::owned)
    }
}

impl Negator for Duration {
    fn negate<'v>(&self) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        Ok(Box::new(Duration::of_nanos("-_", -i128::from(self.0))?))
    }
}

impl Comparer for Duration {
    fn compare(&self, rhs: &dyn Val) -> Result<Ordering, ExecutionError> {
        rhs.downcast_ref::<Self>().map(|other| self.cmp(other)).ok_or_else(|| no_overload("compare", self, rhs))
    }
}

library_value!(Instant: TIMESTAMP { computes!(); });

impl Adder for Instant {
    fn add<'b, 'v>(&'b self, rhs: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let Some(duration) = rhs.downcast_ref::<Duration>() else { return Err(no_overload("_+_", self, rhs)) };
        self.later_by("_+_", duration.0.into()).map(CowVal::owned)
    }
}

impl Subtractor for Instant {
    fn sub<'b, 'v>(&'b self, rhs: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        if let Some(other) = rhs.downcast_ref::<Self>() {
            return Duration::of_nanos("_-_", self.0.as_nanosecond() - other.0.as_nanosecond()).map(CowVal::owned);
        }
        let Some(duration) = rhs.downcast_ref::<Duration>() else { return Err(no_overload("_-_", self, rhs)) };
        self.later_by("_-_", -i128::from(duration.0)).map(CowVal::owned)
    }
}

impl Comparer for Instant {
    fn compare(&self, rhs: &dyn Val) -> Result<Ordering, ExecutionError> {
        rhs.downcast_ref::<Self>().map(|other| self.cmp(other)).ok_or_else(|| no_overload("compare", self, rhs))
    }
}

/// The functions that read a part of a timestamp, in UTC and in a zone.
macro_rules! parts {
    ($($part:ident, $in_zone:ident, $name:literal: $read:path;)+) => {
        $(
            fn $part(this: &Instant) -> CelInt {
                i64::from($read(Offset::UTC.to_datetime(this.0))).into()
            }

            fn $in_zone(this: &Instant, zone: &CelString<'_>) -> Result<CelInt, ExecutionError> {
                Ok(i64::from($read(offset($name, zone.inner())?.to_datetime(this.0))).into())
            }
        )+

        fn declare_parts(env: &mut Env) -> Result<(), DeclarationError> {
            $(
                add_member_overload!(env, fn $part: (Instant) -> CelInt, name = $name)?;
                add_member_overload!(env, fn $in_zone: (Instant, CelString) -> Result<CelInt>, name = $name)?;
            )+
            Ok(())
        }
    };
}

parts! {
    full_year, full_year_in, "getFullYear": DateTime::year;
    month, month_in, "getMonth": month_from_zero;
    date, date_in, "getDate": DateTime::day;
    day_of_month, day_of_month_in, "getDayOfMonth": day_from_zero;
    day_of_week, day_of_week_in, "getDayOfWeek": days_since_sunday;
    day_of_year, day_of_year_in, "getDayOfYear": day_of_year_from_zero;
    hours, hours_in, "getHours": DateTime::hour;
    minutes, minutes_in, "getMinutes": DateTime::minute;
    seconds, seconds_in, "getSeconds": DateTime::second;
    milliseconds, milliseconds_in, "getMilliseconds": DateTime::millisecond;
}

fn month_from_zero(at: DateTime) -> i8 {
    at.month() - 1
}

fn day_from_zero(at: DateTime) -> i8 {
    at.day() - 1
}

fn days_since_sunday(at: DateTime) -> i8 {
    at.weekday().to_sunday_zero_offset()
}

fn day_of_year_from_zero(at: DateTime) -> i16 {
    at.day_of_year() - 1
}

/// The offset in the text, such as `-08:00`. An empty text and `UTC` mean no offset.
fn offset(function: &str, zone: &str) -> Result<Offset, ExecutionError> {
    if zone.is_empty() || zone == "UTC" {
        return Ok(Offset::UTC);
    }
    let (sign, rest) = match zone.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, zone.strip_prefix('+').unwrap_or(zone)),
    };
    let of_text = || {
        let (hours, minutes) = rest.split_once(':')?;
        let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
        Offset::from_seconds(sign * (i32::from(hours) * 3_600 + i32::from(minutes) * 60)).ok()
    };
    of_text().ok_or_else(|| ExecutionError::function_error(function, format!("unknown time zone {zone}")))
}

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(DURATION.to_owned())?;
    env.add_type(TIMESTAMP.to_owned())?;
    add_overload!(env, fn duration: (CelString) -> Result<Duration>)?;
    add_overload!(env, fn timestamp: (CelString) -> Result<Instant>)?;
    add_overload!(env, fn timestamp_of_seconds: (CelInt) -> Result<Instant>, name = "timestamp")?;
    add_overload!(env, fn text_of_duration: (Duration) -> CelString, name = "string")?;
    add_overload!(env, fn text_of_timestamp: (Instant) -> CelString, name = "string")?;
    add_overload!(env, fn seconds_of_timestamp: (Instant) -> CelInt, name = "int")?;
    add_overload!(env, fn nanoseconds_of_duration: (Duration) -> CelInt, name = "int")?;
    add_overload!(env, fn same_duration: (Duration) -> Duration, name = "duration")?;
    add_overload!(env, fn same_timestamp: (Instant) -> Instant, name = "timestamp")?;
    add_member_overload!(env, fn hours_of: (Duration) -> CelInt, name = "getHours")?;
    add_member_overload!(env, fn minutes_of: (Duration) -> CelInt, name = "getMinutes")?;
    add_member_overload!(env, fn seconds_of: (Duration) -> CelInt, name = "getSeconds")?;
    add_member_overload!(env, fn milliseconds_of: (Duration) -> CelInt, name = "getMilliseconds")?;
    declare_parts(env)
}

/// Whether `duration` reads the text.
pub(super) fn is_duration(text: &str) -> bool {
    parse_duration(text).is_some()
}

/// Whether `timestamp` reads the text.
pub(super) fn is_timestamp(text: &str) -> bool {
    text.parse::<Timestamp>().is_ok()
}

fn duration(text: &CelString<'_>) -> Result<Duration, ExecutionError> {
    let invalid = || ExecutionError::function_error("duration", format!("invalid duration {:?}", text.inner()));
    parse_duration(text.inner()).map(Duration).ok_or_else(invalid)
}

fn timestamp(text: &CelString<'_>) -> Result<Instant, ExecutionError> {
    let parsed = text.inner().parse::<Timestamp>().map(Instant);
    parsed.map_err(|error| ExecutionError::function_error("timestamp", error))
}

fn timestamp_of_seconds(seconds: &CelInt) -> Result<Instant, ExecutionError> {
    Timestamp::from_second(*seconds.inner()).map(Instant).map_err(|_| out_of_range("timestamp"))
}

/// The duration in seconds, such as `1.5s`.
#[expect(clippy::cast_precision_loss, reason = "cel-go writes a float as well")]
fn text_of_duration(this: &Duration) -> CelString<'static> {
    format!("{}s", this.0 as f64 / NANOS_PER_SECOND as f64).into()
}

fn text_of_timestamp(this: &Instant) -> CelString<'static> {
    this.0.to_string().into()
}

fn seconds_of_timestamp(this: &Instant) -> CelInt {
    this.0.as_second().into()
}

/// cel-go converts a duration as well; the specification has only timestamps.
fn nanoseconds_of_duration(this: &Duration) -> CelInt {
    this.0.into()
}

fn same_duration(this: &Duration) -> Duration {
    *this
}

fn same_timestamp(this: &Instant) -> Instant {
    *this
}

fn hours_of(this: &Duration) -> CelInt {
    (this.0 / (3_600 * NANOS_PER_SECOND)).into()
}

fn minutes_of(this: &Duration) -> CelInt {
    (this.0 / (60 * NANOS_PER_SECOND)).into()
}

fn seconds_of(this: &Duration) -> CelInt {
    (this.0 / NANOS_PER_SECOND).into()
}

fn milliseconds_of(this: &Duration) -> CelInt {
    (this.0 / (NANOS_PER_SECOND / 1_000)).into()
}
