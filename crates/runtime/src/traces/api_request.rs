//! The span of a request to the API server, or to an extender that binds a pod. The span includes the wait for the rate
//! limit, and repeated requests.

use std::{fmt::Display, time::Duration};

use berth_framework::Clock as _;
use berth_otlp::{Span, SpanKind, SpanSender};
use berth_telemetry::clock::{Stopwatch, unix_nanos};

use super::ids::Place;

/// A request, in the words of the API.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApiRequest<'a> {
    /// `POST`, `PATCH` or `DELETE`.
    pub(crate) method: &'static str,
    /// The resource, such as `pods`.
    pub(crate) resource: &'a str,
    /// The subresource, such as `binding`.
    pub(crate) subresource: Option<&'a str>,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

/// A request that has no answer yet. The value is empty if its attempt is not traced.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct OpenRequest(Option<Box<Open>>);

#[derive(Debug)]
struct Open {
    sender: SpanSender,
    span: Span,
}

impl OpenRequest {
    pub(super) fn new(sender: SpanSender, place: Place, request: ApiRequest<'_>, start: Duration) -> Self {
        let Place { trace, id, parent } = place;
        let ApiRequest { method, resource, subresource, namespace, name } = request;
        let resource = match subresource {
            Some(subresource) => format!("{resource}/{subresource}"),
            None => resource.to_owned(),
        };
        let shown = format!("{method} {resource}");
        let attributes = vec![
            ("http.request.method", method.into()),
            ("k8s.resource", resource.into()),
            ("k8s.namespace.name", namespace.to_owned().into()),
            ("k8s.object.name", name.to_owned().into()),
        ];
        let start = unix_nanos(start);
        let span = Span {
            trace,
            id,
            parent,
            name: shown.into(),
            kind: SpanKind::Client,
            start,
            end: start,
            attributes,
            events: Vec::new(),
            error: None,
        };
        Self(Some(Box::new(Open { sender, span })))
    }

    /// Sends the span.
    pub(crate) fn end<T, E: Display>(self, result: &Result<T, E>) {
        let Some(open) = self.0 else { return };
        let Open { sender, mut span } = *open;
        span.end = unix_nanos(Stopwatch.now());
        span.error = result.as_ref().err().map(ToString::to_string);
        sender.send(span);
    }
}
