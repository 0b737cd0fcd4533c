//! The query of a request. The query is read into options and checked as in the API server.

use std::time::Duration;

use http::Uri;
use serde_json::Value;

use super::formats::table::Include;
use crate::fields::FieldError;
use crate::kinds::Kind;
use crate::objects::decode::FieldValidation;
use crate::selectors::{FieldSelector, LabelSelector, Selector};
use crate::status::{ApiResult, StatusError};

/// The parameters of a query, in order.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

/// Options of lists and watches.
#[derive(Debug)]
pub(super) struct ListOptions {
    /// The selector of the objects.
    pub(super) selector: Selector,
    /// The page size; 0 stands for everything.
    pub(super) limit: usize,
    /// The token of the next page; empty for the first page.
    pub(super) continue_token: String,
    /// `resourceVersion` as it was sent; empty if it is not set.
    pub(super) version: String,
    /// `Exact`, `NotOlderThan` or empty.
    pub(super) version_match: String,
    /// Whether the request is for a watch.
    pub(super) watch: bool,
    /// Whether a watch may get bookmarks.
    pub(super) bookmarks: bool,
    /// Whether a watch starts with the objects that exist.
    pub(super) initial_events: Option<bool>,
    /// The maximum duration of a watch.
    pub(super) timeout: Option<Duration>,
}

/// Options of writes.
#[derive(Debug)]
pub(super) struct WriteOptions {
    /// Whether the request is answered without storing anything.
    pub(super) dry_run: bool,
    /// The treatment of unknown fields.
    pub(super) field_validation: FieldValidation,
    /// The field manager, for server-side apply.
    pub(super) field_manager: String,
    /// Whether an apply takes over fields of other managers.
    pub(super) force: bool,
}

impl Query {
    /// Decodes the query of a URI.
    pub(super) fn of(uri: &Uri) -> Self {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri);
        Self(pairs.map(|pairs| pairs.0).unwrap_or_default())
    }

    /// The first value of a parameter.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A copy with one more parameter.
    pub(super) fn with(&self, name: &str, value: &str) -> Self {
        let mut pairs = self.0.clone();
        pairs.push((name.to_owned(), value.to_owned()));
        Self(pairs)
    }

    /// Reads `includeObject`, the part of each object in a table.
    pub(super) fn table_include(&self) -> ApiResult<Include> {
        match self.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => Ok(Include::Metadata),
            "Object" => Ok(Include::Object),
            "None" => Ok(Include::None),
            other => Err(StatusError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: \"{other}\": must be 'Metadata', 'Object', 'None', or empty"
            ))),
        }
    }

    /// A truth value. If the parameter exists, everything except `false` and `0` is true.
    fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|value| !matches!(value, "false" | "0"))
    }

    fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_owned()
    }

    fn integer(&self, name: &str) -> ApiResult<Option<i64>> {
        match self.get(name) {
            None | Some("") => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|_| StatusError::bad_request(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax"))),
        }
    }

    /// Reads the options of a list or a watch over `kind`.
    pub(super) fn list_options(&self, kind: &Kind) -> ApiResult<ListOptions> {
        let timeout = self.integer("timeoutSeconds")?.and_then(|seconds| u64::try_from(seconds).ok());
        let limit = self.integer("limit")?.unwrap_or(0);
        let labels = LabelSelector::parse(self.get("labelSelector").unwrap_or_default());
        let fields = FieldSelector::parse(kind, self.get("fieldSelector").unwrap_or_default());
        let options = ListOptions {
            selector: Selector {
                labels: labels.map_err(|error| StatusError::bad_request(error.to_string()))?,
                fields: fields.map_err(|error| StatusError::bad_request(error.to_string()))?,
            },
            limit: usize::try_from(limit).unwrap_or(0),
            continue_token: self.text("continue"),
            version: self.text("resourceVersion"),
            version_match: self.text("resourceVersionMatch"),
            watch: self.flag("watch").unwrap_or(false),
            bookmarks: self.flag("allowWatchBookmarks").unwrap_or(false),
            initial_events: self.flag("sendInitialEvents"),
            timeout: timeout.filter(|&seconds| seconds > 0).map(Duration::from_secs),
        };
        let errors = if options.watch { options.watch_errors() } else { options.list_errors() };
        if errors.is_empty() { Ok(options) } else { Err(StatusError::invalid_options("ListOptions", &errors)) }
    }

    /// Reads the options of a write. `options` is their name in messages.
    pub(super) fn write_options(&self, options: &str) -> ApiResult<WriteOptions> {
        let mut errors = Vec::new();
        let field_validation = match self.get("fieldValidation").unwrap_or_default() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported("fieldValidation", &other.into(), &supported));
                FieldValidation::Ignore
            }
        };
        let dry_run = self.dry_run(&mut errors);
        if !errors.is_empty() {
            return Err(StatusError::invalid_options(options, &errors));
        }
        let force = self.flag("force").unwrap_or(false);
        Ok(WriteOptions { dry_run, field_validation, field_manager: self.text("fieldManager"), force })
    }

    /// Whether nothing may be stored. Any value except `All` is an error.
    pub(super) fn dry_run(&self, errors: &mut Vec<FieldError>) -> bool {
        match self.get("dryRun") {
            None => false,
            Some("All") => true,
            Some(other) => {
                errors.push(FieldError::not_supported("dryRun", &Value::from(vec![other]), &["All"]));
                false
            }
        }
    }
}

impl ListOptions {
    fn list_errors(&self) -> Vec<FieldError> {
        let mut errors = self.version_match_errors();
        if self.initial_events.is_some() {
            errors.push(FieldError::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        errors
    }

    fn version_match_errors(&self) -> Vec<FieldError> {
        const FIELD: &str = "resourceVersionMatch";
        let mut errors = Vec::new();
        if self.version_match.is_empty() {
            return errors;
        }
        if self.version.is_empty() {
            errors.push(FieldError::forbidden(
                FIELD,
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ));
        }
        if !self.continue_token.is_empty() {
            errors.push(FieldError::forbidden(FIELD, "resourceVersionMatch is forbidden when continue is provided"));
        }
        match self.version_match.as_str() {
            "Exact" if self.version == "0" => {
                let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(FieldError::forbidden(FIELD, detail));
            }
            "Exact" | "NotOlderThan" => {}
            other => {
                let supported = ["Exact", "NotOlderThan", ""];
                errors.push(FieldError::not_supported(FIELD, &other.into(), &supported));
            }
        }
        errors
    }

    fn watch_errors(&self) -> Vec<FieldError> {
        const FIELD: &str = "resourceVersionMatch";
        let mut errors = Vec::new();
        match (self.initial_events, self.version_match.as_str()) {
            (None, "") | (Some(_), "NotOlderThan") => {}
            (None, _) => {
                let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(FIELD, detail));
            }
            (Some(_), other) => {
                let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                errors.push(FieldError::forbidden(FIELD, detail));
                if !other.is_empty() {
                    errors.push(FieldError::not_supported(FIELD, &other.into(), &["NotOlderThan"]));
                }
            }
        }
        errors
    }
}
