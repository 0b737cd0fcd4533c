//! Regular expressions in the syntax of RE2, as in Kubernetes' selectors: `matches`, `find` and `findAll`.
//!
//! A constant pattern is compiled with its expression ([`super::program`]). A pattern that is computed when the
//! expression runs is compiled each time, so it must be small. The cost of a pattern is known: a search keeps nothing,
//! and its time grows with the pattern's states times the text's characters.

use std::{any::Any, error::Error as _, sync::Arc};

use cel::{
    DeclarationError, Env, ExecutionError, add_member_overload, add_overload,
    common::{
        types::{CelBool, CelInt, CelList, CelString, Type},
        value::{StaticVal, Val},
    },
};
use regex_automata::{
    nfa::thompson::{self, WhichCaptures, pikevm::PikeVM},
    util::syntax,
};

/// The maximum memory of all constant patterns of one expression when they are compiled, in bytes. Usual selectors take
/// some hundreds of steps.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// The maximum memory of a compiled pattern that is computed when an expression runs, in bytes.
const MAX_COMPUTED_BYTES: usize = 128 << 10;
/// The maximum length of a computed pattern in bytes. A text of a device has at most 64 characters.
const MAX_COMPUTED_LENGTH: usize = 256;
/// The maximum nesting of groups, which limits the stack of the compiler.
const MAX_DEPTH: u32 = 50;
/// The maximum nesting that Go's `regexp` accepts.
const MAX_DEPTH_IN_GO: u32 = 1_000;

static REGEX: Type = Type::new_unspecified_type("regex");

/// The reason why a text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatternError {
    #[error("regular expressions exceed the size limit")]
    TooLarge,
    #[error("computed regular expression is longer than {MAX_COMPUTED_LENGTH} bytes")]
    TooLong,
    #[error("regular expression is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    #[error("{0}")]
    Invalid(Box<str>),
}

/// A compiled regular expression, as a value that replaces the text in an expression.
#[derive(Clone, Debug)]
pub(super) struct Pattern(Arc<PikeVM>);

/// A constant pattern in an expression.
#[derive(Debug)]
pub(super) struct ConstantPattern {
    /// The name of the variable that replaces the pattern.
    pub(super) variable: String,
    text: String,
    pub(super) pattern: Pattern,
}

/// The constant patterns of one expression, each once.
#[derive(Debug, Default)]
pub(super) struct ConstantPatterns(Vec<ConstantPattern>);

impl ConstantPattern {
    /// The memory of the patterns, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.text.len() + self.pattern.bytes()
    }
}

impl ConstantPatterns {
    pub(super) fn iter(&self) -> impl Iterator<Item = &ConstantPattern> {
        self.0.iter()
    }

    /// The variable that replaces `text`. A new text is compiled.
    ///
    /// # Errors
    /// The text is not a pattern, or the patterns together would exceed the memory limit of an expression.
    pub(super) fn variable_for(&mut self, text: &str) -> Result<String, PatternError> {
        if let Some(known) = self.iter().find(|known| known.text == text) {
            return Ok(known.variable.clone());
        }
        let taken: usize = self.iter().map(|it| it.pattern.bytes()).sum();
        let pattern = Pattern::new(text, MAX_BYTES.saturating_sub(taken))?;
        let variable = format!("#{}", self.0.len());
        self.0.push(ConstantPattern { variable: variable.clone(), text: text.to_owned(), pattern });
        Ok(variable)
    }
}

impl Pattern {
    /// # Errors
    /// The text is not a pattern, or it would take more than `max_bytes`.
    pub(super) fn new(text: &str, max_bytes: usize) -> Result<Self, PatternError> {
        let sizes = thompson::Config::new().nfa_size_limit(Some(max_bytes)).which_captures(WhichCaptures::Implicit);
        let built = PikeVM::builder().syntax(syntax::Config::new().nest_limit(MAX_DEPTH)).thompson(sizes).build(text);
        built.map(|regex| Self(Arc::new(regex))).map_err(|error| match error.size_limit() {
            Some(_) => PatternError::TooLarge,
            None if is_valid_if_nested(text) => PatternError::TooDeep,
            None => PatternError::Invalid(error.source().map_or_else(|| error.to_string(), ToString::to_string).into()),
        })
    }

    /// Compiles a pattern that is computed when an expression runs.
    fn computed(function: &str, text: &CelString<'_>) -> Result<Self, ExecutionError> {
        let is_long = text.inner().len() > MAX_COMPUTED_LENGTH;
        let pattern = if is_long { Err(PatternError::TooLong) } else { Self::new(text.inner(), MAX_COMPUTED_BYTES) };
        pattern.map_err(|error| ExecutionError::function_error(function, error))
    }

    /// The memory of the pattern, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<PikeVM>() + self.0.get_nfa().memory_usage()
    }

    /// The number of states that a search may have to visit for each character.
    pub(super) fn n_states(&self) -> usize {
        self.0.get_nfa().states().len()
    }

    fn is_match(&self, text: &str) -> bool {
        self.0.is_match(&mut self.0.create_cache(), text)
    }

    fn find_up_to(&self, text: &str, limit: usize) -> Vec<String> {
        let mut cache = self.0.create_cache();
        let found = self.0.find_iter(&mut cache, text).take(limit);
        found.filter_map(|found| text.get(found.range())).map(ToOwned::to_owned).collect()
    }
}

/// Whether the text is a pattern with the nesting that Go's `regexp` accepts.
fn is_valid_if_nested(text: &str) -> bool {
    syntax::parse_with(text, &syntax::Config::new().nest_limit(MAX_DEPTH_IN_GO)).is_ok()
}

impl Val for Pattern {
    fn get_type(&self) -> &Type {
        &REGEX
    }

    fn cel_type() -> &'static Type {
        &REGEX
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Pattern {}

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    add_member_overload!(env, fn matches: (CelString, Pattern) -> CelBool)?;
    add_overload!(env, fn matches: (CelString, Pattern) -> CelBool)?;
    add_member_overload!(env, fn find: (CelString, Pattern) -> CelString)?;
    add_member_overload!(env, fn find_all: (CelString, Pattern) -> CelList)?;
    add_member_overload!(env, fn find_all_up_to: (CelString, Pattern, CelInt) -> CelList, name = "findAll")?;
    add_member_overload!(env, fn matches_computed: (CelString, CelString) -> Result<CelBool>, name = "matches")?;
    add_overload!(env, fn matches_computed: (CelString, CelString) -> Result<CelBool>, name = "matches")?;
    add_member_overload!(env, fn find_computed: (CelString, CelString) -> Result<CelString>, name = "find")?;
    add_member_overload!(env, fn find_all_computed: (CelString, CelString) -> Result<CelList>, name = "findAll")?;
    add_member_overload!(
        env, fn find_all_computed_up_to: (CelString, CelString, CelInt) -> Result<CelList>, name = "findAll"
    )
}

fn matches(text: &CelString<'_>, pattern: &Pattern) -> CelBool {
    pattern.is_match(text.inner()).into()
}

fn find(text: &CelString<'_>, pattern: &Pattern) -> CelString<'static> {
    pattern.find_up_to(text.inner(), 1).pop().unwrap_or_default().into()
}

fn find_all(text: &CelString<'_>, pattern: &Pattern) -> CelList<'static> {
    find_all_up_to(text, pattern, &CelInt::from(-1))
}

/// A negative limit means no limit.
fn find_all_up_to(text: &CelString<'_>, pattern: &Pattern, limit: &CelInt) -> CelList<'static> {
    let found = pattern.find_up_to(text.inner(), usize::try_from(*limit.inner()).unwrap_or(usize::MAX)).into_iter();
    CelList::from(found.map(|text| Box::new(CelString::from(text)) as Box<dyn Val>).collect::<Vec<_>>())
}

fn matches_computed(text: &CelString<'_>, pattern: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    Ok(matches(text, &Pattern::computed("matches", pattern)?))
}

fn find_computed(text: &CelString<'_>, pattern: &CelString<'_>) -> Result<CelString<'static>, ExecutionError> {
    Ok(find(text, &Pattern::computed("find", pattern)?))
}

fn find_all_computed(text: &CelString<'_>, pattern: &CelString<'_>) -> Result<CelList<'static>, ExecutionError> {
    Ok(find_all(text, &Pattern::computed("findAll", pattern)?))
}

fn find_all_computed_up_to(
    text: &CelString<'_>,
    pattern: &CelString<'_>,
    limit: &CelInt,
) -> Result<CelList<'static>, ExecutionError> {
    Ok(find_all_up_to(text, &Pattern::computed("findAll", pattern)?, limit))
}
