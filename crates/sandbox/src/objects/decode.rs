//! Decodes a request body into an object of a kind: checks the type meta, drops unknown fields, normalises values.

use serde_json::Value;

use super::duplicates;
use crate::fields::json::{as_map, drop_nulls, text};
use crate::fields::{FieldError, quantity};
use crate::kinds::{Decoding, Kind, events, schema};
use crate::status::{ApiResult, StatusError};

/// The treatment of unknown and repeated fields in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// The fields are dropped silently.
    Ignore,
    /// The fields are dropped with a warning.
    Warn,
    /// The request is refused.
    Strict,
}

/// A decoded object, and warnings for the client.
#[derive(Debug)]
pub(crate) struct Decoded {
    /// The object without type meta.
    pub(crate) value: Value,
    /// Texts for `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

/// Decodes a parsed body. `raw` is the JSON text in which repeated fields are searched, if there is one.
pub(crate) fn decode(
    kind: &Kind,
    mut body: Value,
    raw: Option<&[u8]>,
    validation: FieldValidation,
) -> ApiResult<Decoded> {
    let mut unknown = Vec::new();
    check_type_meta(kind, &body)?;
    let duplicates = match (raw, validation) {
        (Some(raw), FieldValidation::Warn | FieldValidation::Strict) => duplicates::find(raw),
        _ => Vec::new(),
    };
    prune(kind, &mut body, &mut unknown)?;
    let problems: Vec<String> = duplicates
        .iter()
        .map(|path| format!("duplicate field \"{path}\""))
        .chain(unknown.iter().map(|path| format!("unknown field \"{path}\"")))
        .collect();
    if validation == FieldValidation::Strict && !problems.is_empty() {
        let why = format!("strict decoding error: {}", problems.join(", "));
        return Err(cannot_handle(kind, &kind.version, &kind.kind, &why));
    }
    let members = as_map(&mut body);
    members.remove("apiVersion");
    members.remove("kind");
    let warnings = if validation == FieldValidation::Warn { problems } else { Vec::new() };
    Ok(Decoded { value: normalise(kind, body), warnings })
}

/// Drops fields that the kind doesn't have, and refuses values of the wrong type.
pub(crate) fn prune(kind: &Kind, body: &mut Value, unknown: &mut Vec<String>) -> ApiResult<()> {
    match &kind.decoding {
        Decoding::Typed(decode) => {
            if kind.has_quantities() {
                quantity::check(body)
                    .map_err(|error| cannot_handle(kind, &kind.version, &kind.kind, &error.to_string()))?;
            }
            let mut typed = std::mem::take(body);
            let members = as_map(&mut typed);
            members.insert("apiVersion".to_owned(), kind.api_version().into());
            members.insert("kind".to_owned(), kind.kind.as_str().into());
            let known =
                decode(&typed).map_err(|error| cannot_handle(kind, &kind.version, &kind.kind, &error.to_string()))?;
            schema::prune_unknown(&mut typed, &known, "", unknown);
            *body = typed;
        }
        Decoding::Custom(schema) => schema.prune(body, unknown),
    }
    Ok(())
}

/// Converts a decoded object without type meta to its stored form.
pub(crate) fn normalise(kind: &Kind, mut value: Value) -> Value {
    if kind.is_custom() {
        return value;
    }
    drop_nulls(&mut value);
    if kind.has_quantities() {
        quantity::canonicalise(&mut value);
    }
    if kind.is("events.k8s.io", "events") { events::to_core(value) } else { value }
}

fn check_type_meta(kind: &Kind, body: &Value) -> ApiResult<()> {
    let (api_version, found) = (text(body, "/apiVersion"), text(body, "/kind"));
    let (wanted, wanted_kind) = (kind.api_version(), &kind.kind);
    let fits_version = api_version.is_empty() || api_version == wanted;
    let fits_kind = found.is_empty() || found == wanted_kind;
    if kind.is_custom() {
        return check_custom_type_meta(kind, body, fits_version, fits_kind);
    }
    let found = if found.is_empty() { wanted_kind } else { found };
    if !fits_version {
        let version = api_version.rsplit('/').next().unwrap_or(api_version);
        let why = format!(
            "no kind \"{found}\" is registered for version \"{api_version}\" in scheme \"pkg/api/legacyscheme/scheme.go:30\""
        );
        return Err(cannot_handle(kind, version, found, &why));
    }
    if !fits_kind {
        let version = &kind.version;
        let package = if kind.group.is_empty() { "core" } else { kind.group.split('.').next().unwrap_or_default() };
        let why = format!("converting ({version}.{found}) to ({package}.{wanted_kind}): unknown conversion");
        return Err(cannot_handle(kind, version, found, &why));
    }
    Ok(())
}

fn check_custom_type_meta(kind: &Kind, body: &Value, fits_version: bool, fits_kind: bool) -> ApiResult<()> {
    let (api_version, found) = (text(body, "/apiVersion"), text(body, "/kind"));
    if !fits_version {
        let wanted = kind.api_version();
        let message =
            format!("the API version in the data ({api_version}) does not match the expected API version ({wanted})");
        return Err(StatusError::bad_request(message));
    }
    if !fits_kind {
        let error = FieldError::invalid("kind", &found.into(), &format!("must be {}", kind.kind));
        return Err(StatusError::invalid_named(found, &kind.group, text(body, "/metadata/name"), &[error]));
    }
    Ok(())
}

fn cannot_handle(kind: &Kind, version: &str, found: &str, why: &str) -> StatusError {
    StatusError::bad_request(format!("{found} in version \"{version}\" cannot be handled as a {}: {why}", kind.kind))
}
