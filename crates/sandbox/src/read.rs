//! GET: single objects and lists, with pages and lists of the past.

use std::sync::Arc;

use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::{Api, Target};
use crate::kinds::Kind;
use crate::media::{Form, negotiate};
use crate::object::Object;
use crate::query::{ListOptions, Query};
use crate::status::{Answer, StatusError};
use crate::store::{Collection, key};
use crate::{table, view, watch};

/// How the API server calls a kind in messages about its own types.
fn internal_type(kind: &Kind) -> String {
    let package = if kind.group.is_empty() { "core" } else { kind.group.split('.').next().unwrap_or_default() };
    format!("*{package}.{}", kind.kind)
}

/// What a `continue` token says.
#[derive(Debug, Serialize, Deserialize)]
struct Continue {
    v: String,
    rv: i64,
    start: String,
}

/// One page of a list.
struct Page {
    objects: Vec<Arc<Object>>,
    revision: u64,
    continue_token: Option<String>,
    remaining: Option<usize>,
}

/// Answers a GET of one object.
pub(crate) fn get(api: &Api, target: &Target, name: &str, query: &Query, headers: &HeaderMap) -> Answer<Response> {
    let form = negotiate(headers, &[Form::Table, Form::Partial, Form::PartialList], false)?;
    if form == Form::PartialList {
        let object = internal_type(&target.kind);
        let message =
            format!("you requested PartialObjectMetadataList, but the requested object is not a list ({object})");
        return Err(StatusError::not_acceptable(message));
    }
    let include = table::Include::of(query)?;
    let collection = api.store.collection(&target.kind.collection());
    let wanted = parse_revision(query.get("resourceVersion").unwrap_or_default())?;
    let current = collection.revision();
    if wanted > current {
        return Err(StatusError::too_large_revision(wanted, current));
    }
    let object =
        collection.get(&key(&target.namespace, name)).ok_or_else(|| StatusError::not_found(&target.kind, name))?;
    Ok(view::object_response(&target.kind, &object, StatusCode::OK, form, include, &[]))
}

/// Answers a GET of a collection, which may be a watch.
pub(crate) fn list_or_watch(api: &Arc<Api>, target: &Target, query: &Query, headers: &HeaderMap) -> Answer<Response> {
    let mut options = query.list_options(&target.kind)?;
    if target.watch {
        options.watch = true;
    }
    let include = table::Include::of(query)?;
    if options.watch {
        let form = negotiate(headers, &[Form::Table, Form::Partial], true)?;
        return watch::start(api, target, options, form, include, headers);
    }
    let form = negotiate(headers, &[Form::Table, Form::PartialList, Form::Partial], true)?;
    if form == Form::Partial {
        let list = internal_type(&target.kind);
        let message = format!("you requested PartialObjectMetadata, but the requested object is a list ({list}List)");
        return Err(StatusError::not_acceptable(message));
    }
    list(api, target, &options, form, include)
}

fn list(api: &Api, target: &Target, options: &ListOptions, form: Form, include: table::Include) -> Answer<Response> {
    let kind = &target.kind;
    let collection = api.store.collection(&kind.collection());
    let page = page(&collection, kind, &target.namespace, options)?;
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if let Some(token) = page.continue_token {
        metadata["continue"] = token.into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    let objects: Vec<&Object> = page.objects.iter().map(Arc::as_ref).collect();
    match form {
        Form::Table => {
            let table = table::render(kind, &objects, &metadata, include);
            Ok(view::json_response(StatusCode::OK, table.to_string()))
        }
        Form::PartialList | Form::Partial => {
            let items: Vec<Value> = objects.iter().map(|object| view::partial(&object.value)).collect();
            let list = json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "items": items,
            });
            Ok(view::json_response(StatusCode::OK, list.to_string()))
        }
        Form::Yaml => {
            let text = list_json(kind, &objects, &metadata);
            let value = serde_json::from_slice(&text).map_err(|error| StatusError::internal(error.to_string()))?;
            Ok(view::yaml_response(&value))
        }
        Form::Json | Form::Discovery => Ok(view::json_response(StatusCode::OK, list_json(kind, &objects, &metadata))),
    }
}

/// The JSON text of a list, made from the texts that the objects already have.
pub(crate) fn list_json(kind: &Kind, objects: &[&Object], metadata: &Value) -> Vec<u8> {
    let size: usize = objects.iter().map(|object| object.json.len() + 1).sum();
    let mut out = Vec::with_capacity(size + 256);
    let head = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
        kind.list_kind,
        kind.api_version()
    );
    out.extend_from_slice(head.as_bytes());
    for (position, object) in objects.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        view::write_item(kind, object, &mut out);
    }
    out.extend_from_slice(b"]}");
    out
}

fn page(collection: &Collection, kind: &Kind, namespace: &str, options: &ListOptions) -> Answer<Page> {
    let (objects, revision, start) = if options.continue_token.is_empty() {
        let (objects, revision) = state(collection, namespace, options)?;
        (objects, revision, None)
    } else {
        let (objects, revision, start) = continued(collection, namespace, options)?;
        (objects, revision, Some(start))
    };
    let limit = if options.revision == "0" || options.limit == 0 { usize::MAX } else { options.limit };
    let relative = |object: &Object| relative_key(namespace, object);
    let mut rest = objects.into_iter().filter(|object| start.as_ref().is_none_or(|start| relative(object) >= *start));
    let mut taken: Vec<Arc<Object>> = Vec::new();
    for object in rest.by_ref() {
        if options.selector.is_empty() || options.selector.matches(&object.value) {
            taken.push(object);
            if taken.len() == limit {
                break;
            }
        }
    }
    let remaining = rest.count();
    let next = taken.last().filter(|_| remaining > 0).map(|last| format!("{}\0", relative(last)));
    let continue_token = next.map(|start| token(revision, &start));
    let counted = continue_token.is_some() && options.selector.is_empty();
    tracing::trace!(kind = %kind.kind, taken = taken.len(), remaining, "listed");
    Ok(Page { objects: taken, revision, continue_token, remaining: counted.then_some(remaining) })
}

/// The objects that a list without `continue` is about.
fn state(collection: &Collection, namespace: &str, options: &ListOptions) -> Answer<(Vec<Arc<Object>>, u64)> {
    let wanted = parse_revision(&options.revision)?;
    let (objects, current) = collection.list(namespace);
    if wanted > current {
        return Err(StatusError::too_large_revision(wanted, current));
    }
    let exact =
        options.revision_match == "Exact" || (options.revision_match.is_empty() && options.limit > 0 && wanted > 0);
    if !exact {
        return Ok((objects, current));
    }
    let objects = collection
        .list_at(namespace, wanted)
        .map_err(|_| StatusError::expired("The resourceVersion for the provided list is too old."))?;
    Ok((objects, wanted))
}

fn continued(
    collection: &Collection,
    namespace: &str,
    options: &ListOptions,
) -> Answer<(Vec<Arc<Object>>, u64, String)> {
    if !matches!(options.revision.as_str(), "" | "0") {
        return Err(StatusError::bad_request("specifying resource version is not allowed when using continue"));
    }
    let invalid =
        |why: String| StatusError::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
    let bytes = URL_SAFE_NO_PAD
        .decode(options.continue_token.trim_end_matches('='))
        .map_err(|error| invalid(error.to_string()))?;
    let token_text: Continue = serde_json::from_slice(&bytes).map_err(|error| {
        let first = char::from(bytes.first().copied().unwrap_or_default());
        let why = format!("invalid character '{first}' looking for beginning of value");
        if error.is_syntax() { invalid(why) } else { invalid(error.to_string()) }
    })?;
    if token_text.v != "meta.k8s.io/v1" {
        return Err(invalid(format!("server does not recognize this encoded version {}", token_text.v)));
    }
    let start = token_text.start.strip_prefix('/').unwrap_or(&token_text.start).to_owned();
    let Ok(revision) = u64::try_from(token_text.rv) else {
        let (objects, current) = collection.list(namespace);
        return Ok((objects, current, start));
    };
    let objects = collection.list_at(namespace, revision).map_err(|_| {
        let metadata = json!({"continue": encode(-1, &start)});
        StatusError::expired(EXPIRED_TOKEN).with_metadata(metadata)
    })?;
    Ok((objects, revision, start))
}

const EXPIRED_TOKEN: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

fn token(revision: u64, start: &str) -> String {
    encode(i64::try_from(revision).unwrap_or(i64::MAX), start)
}

fn encode(revision: i64, start: &str) -> String {
    let token = Continue { v: "meta.k8s.io/v1".to_owned(), rv: revision, start: format!("/{start}") };
    URL_SAFE_NO_PAD.encode(serde_json::to_string(&token).unwrap_or_default())
}

/// The key without the namespace that the list is confined to.
fn relative_key(namespace: &str, object: &Object) -> String {
    let confined = !namespace.is_empty() || object.namespace().is_empty();
    if confined { object.name().to_owned() } else { key(object.namespace(), object.name()) }
}

/// Reads a resource version; empty means none, as does 0.
pub(crate) fn parse_revision(text: &str) -> Answer<u64> {
    revision_number(text).map_err(|why| StatusError::bad_request(format!("invalid resource version: {why}")))
}

/// Reads a resource version; the error is the API server's description.
pub(crate) fn revision_number(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        format!("resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax")
    })
}
