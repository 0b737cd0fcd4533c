//! Values of options that also have an environment variable.

use std::{env, ffi::OsStr};

use clap::{Arg, Command, Error, builder::TypedValueParser, parser::ValueSource};

/// A value with its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OptionValue<T> {
    pub(crate) value: T,
    /// Whether the value is on the command line, and not in the variable.
    pub(crate) is_on_command_line: bool,
}

/// Adds the origin to the values of another parser.
#[derive(Clone, Debug)]
pub(crate) struct OptionValueParser<P>(pub(crate) P);

impl<P: TypedValueParser> TypedValueParser for OptionValueParser<P> {
    type Value = OptionValue<P::Value>;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Self::Value, Error> {
        self.parse_ref_(command, arg, value, ValueSource::CommandLine)
    }

    fn parse_ref_(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
        source: ValueSource,
    ) -> Result<Self::Value, Error> {
        let value = self.0.parse_ref_(command, arg, value, source)?;
        Ok(OptionValue { value, is_on_command_line: source == ValueSource::CommandLine })
    }
}

/// The name of a variable for clap; `None` if the variable is empty. An empty variable counts as unset.
#[must_use]
pub fn unless_empty(variable: &'static str) -> Option<&'static str> {
    env::var_os(variable).is_none_or(|value| !value.is_empty()).then_some(variable)
}
