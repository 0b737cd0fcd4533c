//! Kubernetes' CEL library for semantic versions, <https://semver.org>, version 2.
//!
//! `semver(text, true)` and `isSemver(text, true)` first normalise the text: they accept a leading `v`, leading zeros,
//! and one or two numbers instead of three.

use std::cmp::Ordering;

use cel::{
    DeclarationError, Env, ExecutionError, add_member_overload, add_overload,
    common::types::{CelBool, CelInt, CelString, Type},
};
use semver::Version;

use super::{library_value::library_value, quantity::sign_of};

static SEMVER: Type = Type::new_unspecified_type("kubernetes.Semver");

#[derive(Clone, Debug)]
pub(super) struct SemanticVersion(Version);

impl SemanticVersion {
    pub(super) fn parse(text: &str) -> Option<Self> {
        Version::parse(text).ok().map(Self)
    }

    fn parse_lenient(text: &str) -> Option<Self> {
        Self::parse(&normalized(text)?)
    }

    /// The order of <https://semver.org>, item 11, which ignores build metadata.
    fn precedence(&self, other: &Self) -> Ordering {
        self.0.cmp_precedence(&other.0)
    }
}

/// The text as a complete version. `None` means that it has fewer than three numbers, and more than numbers.
fn normalized(text: &str) -> Option<String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_leading_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['-', '+'])) {
        return None;
    }
    parts.resize(parts.len().max(3), "0".to_owned());
    Some(parts.join("."))
}

fn without_leading_zeros(part: &str) -> String {
    let trimmed = if part.len() > 1 { part.trim_start_matches('0') } else { return part.to_owned() };
    let has_digit = trimmed.starts_with(|first: char| first.is_ascii_digit());
    if has_digit { trimmed.to_owned() } else { format!("0{trimmed}") }
}

impl PartialEq for SemanticVersion {
    fn eq(&self, other: &Self) -> bool {
        self.precedence(other).is_eq()
    }
}

library_value!(SemanticVersion: SEMVER);

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_type(SEMVER.to_owned())?;
    add_overload!(env, fn semver: (CelString) -> Result<SemanticVersion>)?;
    add_overload!(env, fn semver_normalized: (CelString, CelBool) -> Result<SemanticVersion>, name = "semver")?;
    add_overload!(env, fn is_semver: (CelString) -> CelBool)?;
    add_overload!(env, fn is_semver_normalized: (CelString, CelBool) -> CelBool, name = "isSemver")?;
    add_member_overload!(env, fn major: (SemanticVersion) -> Result<CelInt>)?;
    add_member_overload!(env, fn minor: (SemanticVersion) -> Result<CelInt>)?;
    add_member_overload!(env, fn patch: (SemanticVersion) -> Result<CelInt>)?;
    add_member_overload!(env, fn is_greater_than: (SemanticVersion, SemanticVersion) -> CelBool)?;
    add_member_overload!(env, fn is_less_than: (SemanticVersion, SemanticVersion) -> CelBool)?;
    add_member_overload!(env, fn compare_to: (SemanticVersion, SemanticVersion) -> CelInt)?;
    Ok(())
}

fn parsed(text: &str, normalize: bool) -> Option<SemanticVersion> {
    if normalize { SemanticVersion::parse_lenient(text) } else { SemanticVersion::parse(text) }
}

fn semver(text: &CelString<'_>) -> Result<SemanticVersion, ExecutionError> {
    semver_normalized(text, &CelBool::from(false))
}

fn semver_normalized(text: &CelString<'_>, normalize: &CelBool) -> Result<SemanticVersion, ExecutionError> {
    let broken = || ExecutionError::function_error("semver", format!("invalid semantic version {:?}", text.inner()));
    parsed(text.inner(), *normalize.inner()).ok_or_else(broken)
}

fn is_semver(text: &CelString<'_>) -> CelBool {
    parsed(text.inner(), false).is_some().into()
}

fn is_semver_normalized(text: &CelString<'_>, normalize: &CelBool) -> CelBool {
    parsed(text.inner(), *normalize.inner()).is_some().into()
}

fn number(number: u64) -> Result<CelInt, ExecutionError> {
    let number = i64::try_from(number).map_err(|error| ExecutionError::function_error("semver", error))?;
    Ok(number.into())
}

fn major(this: &SemanticVersion) -> Result<CelInt, ExecutionError> {
    number(this.0.major)
}

fn minor(this: &SemanticVersion) -> Result<CelInt, ExecutionError> {
    number(this.0.minor)
}

fn patch(this: &SemanticVersion) -> Result<CelInt, ExecutionError> {
    number(this.0.patch)
}

fn is_greater_than(this: &SemanticVersion, other: &SemanticVersion) -> CelBool {
    this.precedence(other).is_gt().into()
}

fn is_less_than(this: &SemanticVersion, other: &SemanticVersion) -> CelBool {
    this.precedence(other).is_lt().into()
}

fn compare_to(this: &SemanticVersion, other: &SemanticVersion) -> CelInt {
    sign_of(this.precedence(other))
}
