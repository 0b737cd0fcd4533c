//! The address of the collector, and the protocol.
//!
//! Kubernetes' components take an address such as `localhost:4317` and speak gRPC without TLS. The libraries of
//! OpenTelemetry take a URL and speak HTTP. Both forms are accepted. The variables of OpenTelemetry
//! (<https://opentelemetry.io/docs/specs/otel/protocol/exporter/>) add the values that the configuration leaves open.

use std::fmt;

use http::{
    HeaderMap, HeaderName, HeaderValue, Uri,
    uri::{PathAndQuery, Scheme},
};

/// The endpoint of Kubernetes' components.
const DEFAULT_ENDPOINT: &str = "localhost:4317";
/// The path of the collector over HTTP, below the path of the endpoint.
const HTTP_PATH: &str = "/v1/traces";
/// The path of the collector over gRPC.
const GRPC_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const HEADERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];

/// The protocol below the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Grpc,
    /// HTTP/1.1 with the messages as protobuf.
    Http,
}

/// A trace collector.
#[derive(Clone, PartialEq, Eq)]
pub struct Destination {
    pub(crate) uri: Uri,
    pub(crate) protocol: Protocol,
    /// Further headers, which may contain secrets.
    pub(crate) headers: HeaderMap,
}

/// The reason why an address or a variable is not accepted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{from}: Invalid value: {value:?}: {why}")]
pub struct DestinationError {
    /// The field or variable.
    from: String,
    value: String,
    why: &'static str,
}

impl fmt::Debug for Destination {
    /// Leaves the values of the headers out.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uri, protocol, headers } = self;
        let headers: Vec<&HeaderName> = headers.keys().collect();
        let mut debug = formatter.debug_struct("Destination");
        debug.field("uri", uri).field("protocol", protocol).field("headers", &headers).finish()
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uri.fmt(formatter)
    }
}

impl Destination {
    /// The collector at `endpoint`, which the configuration names. `variable` returns the value of an environment
    /// variable; an empty value counts as a missing variable.
    ///
    /// # Errors
    /// The endpoint or a variable has a value that cannot be used.
    pub fn new(endpoint: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> Result<Self, DestinationError> {
        let first = |names: [&'static str; 2]| {
            let set = |name: &'static str| variable(name).filter(|value| !value.is_empty()).map(|value| (name, value));
            names.into_iter().find_map(set)
        };
        let protocol = match first(PROTOCOLS) {
            Some((name, value)) => Some(read_protocol(name, &value)?),
            None => None,
        };
        let (from, text) = match endpoint {
            Some(endpoint) => ("endpoint", endpoint.to_owned()),
            None => first(ENDPOINTS).unwrap_or(("endpoint", DEFAULT_ENDPOINT.to_owned())),
        };
        // A URL in the first variable is used without changes.
        let is_whole = from == ENDPOINTS[0];
        let (uri, protocol) = read_endpoint(&text, protocol, is_whole).map_err(|why| DestinationError {
            from: from.to_owned(),
            value: text,
            why,
        })?;
        let headers = match first(HEADERS) {
            Some((name, value)) => read_headers(&value).ok_or_else(|| DestinationError {
                from: name.to_owned(),
                // The value may contain a secret.
                value: "…".to_owned(),
                why: "use a list such as name=value,other=value, with special characters of a value as %20",
            })?,
            None => HeaderMap::new(),
        };
        Ok(Self { uri, protocol, headers })
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.uri.scheme() == Some(&Scheme::HTTPS)
    }
}

fn read_protocol(name: &str, value: &str) -> Result<Protocol, DestinationError> {
    match value {
        "grpc" => Ok(Protocol::Grpc),
        "http/protobuf" => Ok(Protocol::Http),
        _ => Err(DestinationError {
            from: name.to_owned(),
            value: value.to_owned(),
            why: "supported values are \"grpc\" and \"http/protobuf\"",
        }),
    }
}

/// Without a protocol, an address without a scheme means gRPC, and a URL means HTTP.
fn read_endpoint(text: &str, protocol: Option<Protocol>, is_whole: bool) -> Result<(Uri, Protocol), &'static str> {
    const NEITHER: &str = "use an address such as \"localhost:4317\", or a URL that begins with http:// or https://";
    let (text, default) = match text.split_once("://") {
        None => (format!("http://{text}"), Protocol::Grpc),
        Some(("dns", address)) => (format!("http://{}", address.trim_start_matches('/')), Protocol::Grpc),
        Some(("http" | "https", _)) => (text.to_owned(), Protocol::Http),
        Some(_) => return Err(NEITHER),
    };
    let uri: Uri = text.parse().map_err(|_| NEITHER)?;
    if uri.host().unwrap_or_default().is_empty() {
        return Err(NEITHER);
    }
    let protocol = protocol.unwrap_or(default);
    let path = match protocol {
        Protocol::Grpc => GRPC_PATH.to_owned(),
        Protocol::Http if is_whole => return Ok((uri, protocol)),
        Protocol::Http => format!("{}{HTTP_PATH}", uri.path().trim_end_matches('/')),
    };
    let mut parts = uri.into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path).map_err(|_| NEITHER)?);
    Ok((Uri::from_parts(parts).map_err(|_| NEITHER)?, protocol))
}

/// Reads `name=value,other=value`. Values may be percent-encoded, as in W3C baggage.
fn read_headers(text: &str) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=')?;
        let mut value = HeaderValue::from_bytes(&decoded(value.trim())?).ok()?;
        value.set_sensitive(true);
        headers.insert(HeaderName::from_bytes(name.trim().as_bytes()).ok()?, value);
    }
    Some(headers)
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(endpoint: Option<&str>, variables: &[(&str, &str)]) -> Result<Destination, DestinationError> {
        let variable =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Destination::new(endpoint, variable)
    }

    #[test]
    fn an_address_stands_for_grpc_and_a_url_for_http() {
        let grpc = "opentelemetry.proto.collector.trace.v1.TraceService/Export";
        for (endpoint, variables, uri, protocol) in [
            (None, vec![], format!("http://localhost:4317/{grpc}"), Protocol::Grpc),
            (Some("collector:4317"), vec![], format!("http://collector:4317/{grpc}"), Protocol::Grpc),
            (Some("dns:///collector:4317"), vec![], format!("http://collector:4317/{grpc}"), Protocol::Grpc),
            (Some("[::1]:4317"), vec![], format!("http://[::1]:4317/{grpc}"), Protocol::Grpc),
            (Some("http://collector:4318"), vec![], "http://collector:4318/v1/traces".to_owned(), Protocol::Http),
            (Some("https://c/otlp/"), vec![], "https://c/otlp/v1/traces".to_owned(), Protocol::Http),
            (
                Some("https://c:4317"),
                vec![("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
                format!("https://c:4317/{grpc}"),
                Protocol::Grpc,
            ),
            (
                None,
                vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "")],
                "http://c:4318/v1/traces".to_owned(),
                Protocol::Http,
            ),
            (
                None,
                vec![("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4318/mine")],
                "http://c:4318/mine".to_owned(),
                Protocol::Http,
            ),
            (
                Some("a:1"),
                vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "http://b:2"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")],
                "http://a:1/v1/traces".to_owned(),
                Protocol::Http,
            ),
        ] {
            let found = destination(endpoint, &variables).expect("accepted");
            assert_eq!((found.uri.to_string(), found.protocol), (uri, protocol), "{endpoint:?} {variables:?}");
        }
    }

    #[test]
    fn headers_are_decoded_and_not_shown() {
        let variables = [("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cret, x-tenant=a")];
        let found = destination(None, &variables).expect("accepted");
        assert_eq!(found.headers["authorization"], "Bearer s3cret");
        assert_eq!(found.headers["x-tenant"], "a");
        assert!(!format!("{found:?}{found}").contains("s3cret"));
    }

    #[test]
    fn a_refusal_names_the_field_and_what_is_possible() {
        for (endpoint, variables, parts) in [
            (Some("unix:///run/otel"), vec![], ["endpoint: Invalid value: \"unix:///run/otel\"", "localhost:4317"]),
            (Some(""), vec![], ["endpoint: Invalid value: \"\"", "http:// or https://"]),
            (Some("http://"), vec![], ["endpoint: Invalid value", "http:// or https://"]),
            (
                None,
                vec![("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")],
                ["OTEL_EXPORTER_OTLP_PROTOCOL: Invalid value: \"http/json\"", "\"grpc\" and \"http/protobuf\""],
            ),
            (
                None,
                vec![("OTEL_EXPORTER_OTLP_HEADERS", "s3cret")],
                ["OTEL_EXPORTER_OTLP_HEADERS: Invalid value: \"…\"", "name=value"],
            ),
        ] {
            let error = destination(endpoint, &variables).expect_err("refused").to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
