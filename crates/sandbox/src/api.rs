//! From a request to what it is about: the path becomes a target, the method picks the handler.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, StatusCode, Uri, header, request::Parts};
use tokio::sync::watch;

use crate::kinds::Kind;
use crate::query::Query;
use crate::registry::{Registry, Resource};
use crate::status::{Answer, StatusError};
use crate::store::Store;
use crate::{apply, binding, delete, discovery, eviction, openapi, read, reviews, scale, write};

/// The largest body that is read.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// Everything that requests share.
#[derive(Debug)]
pub(crate) struct Api {
    /// The objects.
    pub(crate) store: Store,
    /// The kinds.
    pub(crate) registry: Registry,
    /// Who applied what.
    pub(crate) appliers: apply::Appliers,
    /// Turns true when the server stops; watches end then.
    pub(crate) stopping: watch::Receiver<bool>,
}

/// What a path is about.
#[derive(Debug)]
pub(crate) struct Target {
    /// The kind.
    pub(crate) kind: Arc<Kind>,
    /// The namespace; empty for cluster-scoped kinds and for all namespaces.
    pub(crate) namespace: String,
    /// The object, unless the collection is meant.
    pub(crate) name: Option<String>,
    /// The subresource, empty for the object itself.
    pub(crate) subresource: String,
    /// Whether the path is one of the old watch paths.
    pub(crate) watch: bool,
}

/// One request with its body read.
#[derive(Debug)]
pub(crate) struct Request {
    /// The method.
    pub(crate) method: Method,
    /// The decoded query.
    pub(crate) query: Query,
    /// The headers.
    pub(crate) headers: HeaderMap,
    /// The body.
    pub(crate) body: Bytes,
}

impl Api {
    /// Answers a request.
    pub(crate) async fn handle(self: Arc<Self>, parts: Parts, body: Body) -> Response {
        let Ok(body) = axum::body::to_bytes(body, BODY_LIMIT).await else {
            let message = format!("Request entity too large: limit is {BODY_LIMIT}");
            return StatusError::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message).into_response();
        };
        let Parts { method, uri, headers, .. } = parts;
        let request = Request { method, query: Query::of(&uri), headers, body };
        let answer = self.route(&uri, &request);
        answer.unwrap_or_else(|error| {
            tracing::debug!(method = %request.method, %uri, code = %error.code(), "refused");
            error.into_response()
        })
    }

    fn route(self: &Arc<Self>, uri: &Uri, request: &Request) -> Answer<Response> {
        let path = uri.path();
        let segments: Vec<&str> = path.strip_suffix('/').unwrap_or(path).split('/').skip(1).collect();
        if let Some(response) = discovery::answer(self, &segments, request)? {
            return Ok(response);
        }
        match segments.as_slice() {
            ["api", "v1", rest @ ..] => self.group_version("", "v1", rest, request),
            ["apis", group, version, rest @ ..] => self.group_version(group, version, rest, request),
            ["openapi", rest @ ..] => Ok(openapi::answer(self, rest).unwrap_or_else(page_not_found)),
            _ => Ok(page_not_found()),
        }
    }

    fn group_version(
        self: &Arc<Self>,
        group: &str,
        version: &str,
        rest: &[&str],
        request: &Request,
    ) -> Answer<Response> {
        if !self.registry.has_group(group) {
            return Ok(page_not_found());
        }
        let (rest, watch) = match rest {
            ["watch", rest @ ..] => (rest, true),
            rest => (rest, false),
        };
        let (namespace, rest) = match rest {
            ["namespaces", _, "status" | "finalize"] => ("", rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            rest => ("", rest),
        };
        let (resource, name, subresource) = match rest {
            [resource] => (*resource, None, ""),
            [resource, name] => (*resource, Some(*name), ""),
            [resource, name, subresource] => (*resource, Some(*name), *subresource),
            _ => return Err(StatusError::no_such_resource()),
        };
        let kind = match self.registry.find(group, version, resource) {
            Some(Resource::Stored(kind)) => kind,
            Some(Resource::Virtual(resource)) => return reviews::answer(self, resource, namespace, request),
            None => return Err(StatusError::no_such_resource()),
        };
        if kind.namespaced && namespace.is_empty() && name.is_some() || !kind.namespaced && !namespace.is_empty() {
            return Err(StatusError::no_such_resource());
        }
        let (namespace, name) = (decode(namespace), name.map(decode));
        self.dispatch(&Target { kind, namespace, name, subresource: subresource.to_owned(), watch }, request)
    }

    fn dispatch(self: &Arc<Self>, target: &Target, request: &Request) -> Answer<Response> {
        let Some(name) = &target.name else { return self.collection(target, request) };
        match target.subresource.as_str() {
            "" => {}
            "status" if target.kind.has_status => {}
            "scale" if target.kind.scale.is_some() => return scale::answer(self, target, name, request),
            "binding" if target.kind.plural == "pods" => return binding::answer(self, target, Some(name), request),
            "eviction" if target.kind.plural == "pods" => return eviction::answer(self, target, name, request),
            "resize" | "ephemeralcontainers" if target.kind.plural == "pods" => {}
            "finalize" if target.kind.plural == "namespaces" => {}
            _ => return Err(StatusError::no_such_resource()),
        }
        if target.watch {
            return self.watch_one(target, name, request);
        }
        match request.method {
            Method::GET => read::get(self, target, name, &request.query, &request.headers),
            Method::PUT => write::put(self, target, name, request),
            Method::PATCH => write::patch(self, target, name, request),
            Method::DELETE if target.subresource.is_empty() => delete::one(self, target, name, request),
            _ => Err(StatusError::method_not_allowed()),
        }
    }

    fn collection(self: &Arc<Self>, target: &Target, request: &Request) -> Answer<Response> {
        let writable = !target.kind.namespaced || !target.namespace.is_empty();
        match request.method {
            Method::GET => read::list_or_watch(self, target, &request.query, &request.headers),
            Method::POST if writable => write::create(self, target, request),
            Method::DELETE if writable && !target.kind.is("", "namespaces") => {
                delete::collection(self, target, request)
            }
            _ => Err(StatusError::method_not_allowed()),
        }
    }

    /// The old path for watching one object, which is a watch with a field selector.
    fn watch_one(self: &Arc<Self>, target: &Target, name: &str, request: &Request) -> Answer<Response> {
        if request.method != Method::GET {
            return Err(StatusError::method_not_allowed());
        }
        let query = request.query.with("fieldSelector", &format!("metadata.name={name}"));
        read::list_or_watch(self, target, &query, &request.headers)
    }
}

/// The plain answer to paths outside the API.
pub(crate) fn page_not_found() -> Response {
    let mut response = Response::new(Body::from("404 page not found\n"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

/// Resolves percent escapes of a path segment.
fn decode(segment: &str) -> String {
    if !segment.contains('%') {
        return segment.to_owned();
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = if first == b'%' { after.get(..2) } else { None };
        let code =
            escaped.and_then(|hex| std::str::from_utf8(hex).ok()).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
