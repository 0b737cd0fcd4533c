//! GET of objects and lists: whole lists, pages, and lists at an earlier resource version.

use std::sync::Arc;

use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::context::Api;
use super::formats::media::{Form, negotiate};
use super::formats::{table, view};
use super::query::{ListOptions, Query};
use super::request::Target;
use super::{responses, watch};
use crate::kinds::Kind;
use crate::status::{ApiResult, StatusError};
use crate::storage::{Collection, InvalidResourceVersion, Object, ResourceVersion, key};

/// The name of the API server's internal type for a kind, for messages.
fn internal_type(kind: &Kind) -> String {
    let package = if kind.group.is_empty() { "core" } else { kind.group.split('.').next().unwrap_or_default() };
    format!("*{package}.{}", kind.kind)
}

/// The content of a `continue` token. The fields have the names of the API server's fields.
#[derive(Debug, Serialize, Deserialize)]
struct ContinueToken {
    v: String,
    rv: i64,
    start: String,
}

/// One page of a list.
struct Page {
    objects: Vec<Arc<Object>>,
    version: ResourceVersion,
    continue_token: Option<String>,
    remaining: Option<usize>,
}

/// Answers a GET of one object.
pub(crate) fn get(api: &Api, target: &Target, name: &str, query: &Query, headers: &HeaderMap) -> ApiResult<Response> {
    let form = negotiate(headers, &[Form::Table, Form::Partial, Form::PartialList], false)?;
    if form == Form::PartialList {
        let object = internal_type(&target.kind);
        let message =
            format!("you requested PartialObjectMetadataList, but the requested object is not a list ({object})");
        return Err(StatusError::not_acceptable(message));
    }
    let include = query.table_include()?;
    let collection = api.state.collection_of(&target.kind);
    let wanted = parse_version(query.get("resourceVersion").unwrap_or_default())?;
    let current = collection.version();
    if wanted > current {
        return Err(StatusError::too_large_version(wanted, current));
    }
    let object =
        collection.get(&key(&target.namespace, name)).ok_or_else(|| StatusError::not_found(&target.kind, name))?;
    Ok(responses::object_response(&target.kind, &object, StatusCode::OK, form, include, &[]))
}

/// Answers a GET of a collection, which may be a watch.
pub(crate) fn list_or_watch(
    api: &Arc<Api>,
    target: &Target,
    query: &Query,
    headers: &HeaderMap,
) -> ApiResult<Response> {
    let mut options = query.list_options(&target.kind)?;
    if target.watch {
        options.watch = true;
    }
    let include = query.table_include()?;
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

fn list(api: &Api, target: &Target, options: &ListOptions, form: Form, include: table::Include) -> ApiResult<Response> {
    let kind = &target.kind;
    let collection = api.state.collection_of(kind);
    let page = page(&collection, kind, &target.namespace, options)?;
    let mut metadata = json!({"resourceVersion": page.version.to_string()});
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
            Ok(responses::json_response(StatusCode::OK, table.to_string()))
        }
        Form::PartialList | Form::Partial => {
            let items: Vec<Value> = objects.iter().map(|object| view::partial(&object.value)).collect();
            let list = json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
                "items": items,
            });
            Ok(responses::json_response(StatusCode::OK, list.to_string()))
        }
        Form::Yaml => {
            let text = view::list_json(kind, &objects, &metadata);
            let value = serde_json::from_slice(&text).map_err(|error| StatusError::internal(error.to_string()))?;
            Ok(responses::yaml_response(&value))
        }
        Form::Json | Form::Discovery => {
            Ok(responses::json_response(StatusCode::OK, view::list_json(kind, &objects, &metadata)))
        }
    }
}

fn page(collection: &Collection, kind: &Kind, namespace: &str, options: &ListOptions) -> ApiResult<Page> {
    let (objects, version, start) = if options.continue_token.is_empty() {
        let (objects, version) = unpaged(collection, namespace, options)?;
        (objects, version, None)
    } else {
        let (objects, version, start) = continued(collection, namespace, options)?;
        (objects, version, Some(start))
    };
    let limit = if options.version == "0" || options.limit == 0 { usize::MAX } else { options.limit };
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
    let continue_token = next.map(|start| token(version, &start));
    let counted = continue_token.is_some() && options.selector.is_empty();
    tracing::trace!(kind = %kind.kind, taken = taken.len(), remaining, "listed");
    Ok(Page { objects: taken, version, continue_token, remaining: counted.then_some(remaining) })
}

/// The objects of a list without `continue`.
fn unpaged(
    collection: &Collection,
    namespace: &str,
    options: &ListOptions,
) -> ApiResult<(Vec<Arc<Object>>, ResourceVersion)> {
    let wanted = parse_version(&options.version)?;
    let (objects, current) = collection.list(namespace);
    if wanted > current {
        return Err(StatusError::too_large_version(wanted, current));
    }
    let exact = options.version_match == "Exact"
        || (options.version_match.is_empty() && options.limit > 0 && wanted > ResourceVersion::ZERO);
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
) -> ApiResult<(Vec<Arc<Object>>, ResourceVersion, String)> {
    if !matches!(options.version.as_str(), "" | "0") {
        return Err(StatusError::bad_request("specifying resource version is not allowed when using continue"));
    }
    let invalid =
        |why: String| StatusError::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
    let bytes = URL_SAFE_NO_PAD
        .decode(options.continue_token.trim_end_matches('='))
        .map_err(|error| invalid(error.to_string()))?;
    let token: ContinueToken = serde_json::from_slice(&bytes).map_err(|error| {
        let first = char::from(bytes.first().copied().unwrap_or_default());
        let why = format!("invalid character '{first}' looking for beginning of value");
        if error.is_syntax() { invalid(why) } else { invalid(error.to_string()) }
    })?;
    if token.v != "meta.k8s.io/v1" {
        return Err(invalid(format!("server does not recognize this encoded version {}", token.v)));
    }
    let start = token.start.strip_prefix('/').unwrap_or(&token.start).to_owned();
    let Ok(version) = u64::try_from(token.rv).map(ResourceVersion::new) else {
        let (objects, current) = collection.list(namespace);
        return Ok((objects, current, start));
    };
    let objects = collection.list_at(namespace, version).map_err(|_| {
        let metadata = json!({"continue": encode(-1, &start)});
        StatusError::expired(EXPIRED_TOKEN).with_metadata(metadata)
    })?;
    Ok((objects, version, start))
}

const EXPIRED_TOKEN: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

fn token(version: ResourceVersion, start: &str) -> String {
    encode(i64::try_from(version.number()).unwrap_or(i64::MAX), start)
}

fn encode(version: i64, start: &str) -> String {
    let token = ContinueToken { v: "meta.k8s.io/v1".to_owned(), rv: version, start: format!("/{start}") };
    URL_SAFE_NO_PAD.encode(serde_json::to_string(&token).unwrap_or_default())
}

/// The key, without the namespace if the list is limited to one namespace.
fn relative_key(namespace: &str, object: &Object) -> String {
    let confined = !namespace.is_empty() || object.namespace().is_empty();
    if confined { object.name().to_owned() } else { key(object.namespace(), object.name()) }
}

fn parse_version(text: &str) -> ApiResult<ResourceVersion> {
    text.parse()
        .map_err(|error: InvalidResourceVersion| StatusError::bad_request(format!("invalid resource version: {error}")))
}
