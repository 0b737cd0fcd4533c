//! Strict reading of a JSON object, field by field.
//!
//! [`Fields`] remembers the names that were read, so that [`Fields::finish`] can report the other names as unknown. A
//! field of the wrong type is reported and read as absent. `null` counts as absent, as in Kubernetes. The functions do
//! not fail. They add mistakes to [`Problems`], so that one pass reports all mistakes with their full paths.

use std::cell::RefCell;

use berth_model::duration::parse_duration;
use serde_json::{Map, Value};

use crate::error::Problems;

/// A JSON object that is being read, and its place in the document.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    pub(crate) path: String,
    object: Option<&'a Map<String, Value>>,
    known: RefCell<Vec<&'static str>>,
    pub(crate) problems: &'a Problems,
}

impl<'a> Fields<'a> {
    /// Starts to read `value`, which should be an object. An absent value is read as `{}`.
    pub(crate) fn new(path: impl Into<String>, value: Option<&'a Value>, problems: &'a Problems) -> Self {
        let path = path.into();
        let object = match value {
            None | Some(Value::Null) => None,
            Some(Value::Object(object)) => Some(object),
            Some(other) => {
                problems.invalid(&path, other.clone(), "must be a mapping of fields to values");
                None
            }
        };
        Self { path, object, known: RefCell::default(), problems }
    }

    /// The path of the field `name` of this object.
    pub(crate) fn at(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    pub(crate) fn value(&self, name: &'static str) -> Option<&'a Value> {
        self.known.borrow_mut().push(name);
        self.object?.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&self, name: &'static str) -> Option<&'a str> {
        self.typed(name, "must be a string", Value::as_str)
    }

    pub(crate) fn flag(&self, name: &'static str) -> Option<bool> {
        self.typed(name, "must be true or false", Value::as_bool)
    }

    pub(crate) fn number(&self, name: &'static str) -> Option<f64> {
        self.typed(name, "must be a number", Value::as_f64)
    }

    pub(crate) fn whole(&self, name: &'static str) -> Option<i64> {
        self.typed(name, "must be a whole number", Value::as_i64)
    }

    /// A whole number of 32 bits, which is the type that Kubernetes uses for most counts.
    pub(crate) fn whole32(&self, name: &'static str) -> Option<i32> {
        self.typed(name, "must be a whole number of at most 32 bits", |value| i32::try_from(value.as_i64()?).ok())
    }

    /// A duration such as `1m30s`, which may be negative.
    pub(crate) fn duration_nanos(&self, name: &'static str) -> Option<i64> {
        self.typed(name, "must be a duration such as \"15s\" or \"1m30s\"", |value| parse_duration(value.as_str()?))
    }

    /// The object under `name`; empty if the field is absent.
    pub(crate) fn object(&self, name: &'static str) -> Self {
        Self::new(self.at(name), self.value(name), self.problems)
    }

    /// The elements of the list under `name` with their paths; empty if the field is absent.
    pub(crate) fn list(&self, name: &'static str) -> Vec<(String, &'a Value)> {
        let Some(list) = self.typed(name, "must be a list", Value::as_array) else { return Vec::new() };
        let path = self.at(name);
        list.iter().enumerate().map(|(idx, value)| (format!("{path}[{idx}]"), value)).collect()
    }

    /// The objects of the list under `name`.
    pub(crate) fn objects(&self, name: &'static str) -> Vec<Self> {
        let list = self.list(name).into_iter();
        list.map(|(path, value)| Self::new(path, Some(value), self.problems)).collect()
    }

    /// The strings of the list under `name`, with their paths.
    pub(crate) fn texts(&self, name: &'static str) -> Vec<(String, &'a str)> {
        let mut texts = Vec::new();
        for (path, value) in self.list(name) {
            match value.as_str() {
                Some(text) => texts.push((path, text)),
                None => self.problems.invalid(&path, value.clone(), "must be a string"),
            }
        }
        texts
    }

    pub(crate) fn invalid(&self, name: &str, value: impl Into<Value>, why: &str) {
        self.problems.invalid(&self.at(name), value, why);
    }

    pub(crate) fn required(&self, name: &str, why: &str) {
        self.problems.required(&self.at(name), why);
    }

    /// Accepts `apiVersion` and `kind`, which may be absent but must not differ from the expected values.
    pub(crate) fn envelope(&self, kind: &str) {
        let api_version = self.text("apiVersion");
        if let Some(other) = api_version.filter(|found| *found != API_VERSION) {
            self.problems.unsupported(&self.at("apiVersion"), other, &[API_VERSION]);
        }
        if let Some(other) = self.text("kind").filter(|found| *found != kind) {
            self.problems.unsupported(&self.at("kind"), other, &[kind]);
        }
    }

    /// Reports every field that was never read.
    pub(crate) fn finish(self) {
        let known = self.known.borrow();
        for name in self.object.into_iter().flat_map(Map::keys) {
            if !known.contains(&name.as_str()) {
                let message = format!("unknown field; remove it or use one of: {}", known.join(", "));
                self.problems.add(&self.at(name), message);
            }
        }
    }

    fn typed<T>(&self, name: &'static str, expected: &str, read: impl Fn(&'a Value) -> Option<T>) -> Option<T> {
        let value = self.value(name)?;
        let read = read(value);
        if read.is_none() {
            self.invalid(name, value.clone(), expected);
        }
        read
    }
}

/// The group and version of everything in a configuration document.
pub(crate) const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
