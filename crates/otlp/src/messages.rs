//! The messages of the protocol, with the numbers of their fields
//! (`opentelemetry/proto/{collector/trace,common,resource,trace}/v1/*.proto` in opentelemetry-proto 1.10).
//!
//! The messages are written by hand, because the crate `opentelemetry-proto` brings the SDK with it. Fields that Berth
//! never sets are left out; a reader skips unknown fields.

use prost::{Message, Oneof};

use crate::span::{self, Attributes, Resource as ResourceAttributes, SpanKind, Value};

#[derive(Clone, PartialEq, Message)]
pub struct ExportTraceServiceRequest {
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ExportTraceServiceResponse {
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<ExportTracePartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ExportTracePartialSuccess {
    #[prost(int64, tag = "1")]
    pub rejected_spans: i64,
    #[prost(string, tag = "2")]
    pub error_message: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
pub struct InstrumentationScope {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub version: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub name: String,
    /// `SPAN_KIND_INTERNAL` is 1, `SPAN_KIND_CLIENT` is 3.
    #[prost(int32, tag = "6")]
    pub kind: i32,
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
    /// The W3C trace flags. Bit 0 says that the trace is sampled.
    #[prost(fixed32, tag = "16")]
    pub flags: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Event {
    #[prost(fixed64, tag = "1")]
    pub time_unix_nano: u64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(message, repeated, tag = "3")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Status {
    #[prost(string, tag = "2")]
    pub message: String,
    /// `STATUS_CODE_ERROR` is 2.
    #[prost(int32, tag = "3")]
    pub code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    #[prost(oneof = "AnyValueKind", tags = "1, 3, 5")]
    pub value: Option<AnyValueKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum AnyValueKind {
    #[prost(string, tag = "1")]
    String(String),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(message, tag = "5")]
    Array(ArrayValue),
}

#[derive(Clone, PartialEq, Message)]
pub struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<AnyValue>,
}

/// The status code of a span that failed.
pub const STATUS_ERROR: i32 = 2;

/// The flag of a trace that is sampled.
const SAMPLED: u32 = 1;

/// The request that sends these spans.
pub(crate) fn request(source: &ResourceAttributes, spans: Vec<span::Span>) -> ExportTraceServiceRequest {
    let (name, version) = source.scope;
    let scope = InstrumentationScope { name: name.to_owned(), version: version.to_owned() };
    let spans = spans.into_iter().map(Span::from).collect();
    let resource = Resource { attributes: key_values(source.attributes.clone()) };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
    ExportTraceServiceRequest { resource_spans: vec![ResourceSpans { resource: Some(resource), scope_spans }] }
}

impl From<span::Span> for Span {
    fn from(span: span::Span) -> Self {
        let event = |event: span::SpanEvent| Event {
            time_unix_nano: event.at,
            name: event.name.to_owned(),
            attributes: key_values(event.attributes),
        };
        Self {
            trace_id: span.trace.0.to_be_bytes().to_vec(),
            span_id: span.id.0.to_be_bytes().to_vec(),
            parent_span_id: span.parent.map(|parent| parent.0.to_be_bytes().to_vec()).unwrap_or_default(),
            name: span.name.into_owned(),
            kind: match span.kind {
                SpanKind::Internal => 1,
                SpanKind::Client => 3,
            },
            start_time_unix_nano: span.start,
            end_time_unix_nano: span.end,
            attributes: key_values(span.attributes),
            events: span.events.into_iter().map(event).collect(),
            status: span.error.map(|message| Status { message, code: STATUS_ERROR }),
            flags: SAMPLED,
        }
    }
}

fn key_values(attributes: Attributes) -> Vec<KeyValue> {
    let key_value = |(key, value): (&'static str, Value)| KeyValue { key: key.to_owned(), value: Some(value.into()) };
    attributes.into_iter().map(key_value).collect()
}

impl From<Value> for AnyValue {
    fn from(value: Value) -> Self {
        let kind = match value {
            Value::Static(text) => AnyValueKind::String(text.to_owned()),
            Value::Shared(text) => AnyValueKind::String(text.to_string()),
            Value::Text(text) => AnyValueKind::String(text),
            Value::Number(number) => AnyValueKind::Int(number),
            Value::Texts(texts) => AnyValueKind::Array(ArrayValue {
                values: texts.into_iter().map(|text| Value::Text(text).into()).collect(),
            }),
        };
        Self { value: Some(kind) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::{SpanId, TraceId};

    /// The bytes follow from the numbers in the `.proto` files of the protocol.
    #[test]
    fn a_span_is_written_with_the_numbers_of_the_protocol() {
        let span = span::Span {
            trace: TraceId(0x0102),
            id: SpanId(3),
            parent: Some(SpanId(4)),
            name: "a".into(),
            kind: SpanKind::Client,
            start: 5,
            end: 6,
            attributes: vec![("k", Value::Number(7)), ("l", vec!["m".to_owned()].into())],
            events: vec![span::SpanEvent { name: "e", at: 8, attributes: Vec::new() }],
            error: Some("x".to_owned()),
        };
        let trace_id = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2];
        let fixed = |number: u8| [number, 0, 0, 0, 0, 0, 0, 0];
        let id = |number: u8| [0, 0, 0, 0, 0, 0, 0, number];
        let bytes: Vec<u8> = [
            // trace_id, span_id and parent_span_id are bytes in fields 1, 2 and 4.
            &[1 << 3 | 2, 16][..],
            &trace_id,
            &[2 << 3 | 2, 8],
            &id(3),
            &[4 << 3 | 2, 8],
            &id(4),
            // name is a string in field 5, kind a varint in field 6.
            &[5 << 3 | 2, 1, b'a', 6 << 3, 3],
            // The times are 64 bits each in fields 7 and 8.
            &[7 << 3 | 1],
            &fixed(5),
            &[8 << 3 | 1],
            &fixed(6),
            // attributes are messages in field 9: a key in field 1, and in field 2 a value. A number is in field 3 of the
            // value, an array in field 5.
            &[9 << 3 | 2, 7, 1 << 3 | 2, 1, b'k', 2 << 3 | 2, 2, 3 << 3, 7],
            &[9 << 3 | 2, 12, 1 << 3 | 2, 1, b'l', 2 << 3 | 2, 7, 5 << 3 | 2, 5, 1 << 3 | 2, 3, 1 << 3 | 2, 1, b'm'],
            // events are messages in field 11.
            &[11 << 3 | 2, 12, 1 << 3 | 1],
            &fixed(8),
            &[2 << 3 | 2, 1, b'e'],
            // status is a message in field 15: a message in field 2, and the code 2 in field 3.
            &[15 << 3 | 2, 5, 2 << 3 | 2, 1, b'x', 3 << 3, 2],
            // The 32 bits of `flags` are field 16. The key of field 16 takes two bytes.
            &[0x85, 0x01, 1, 0, 0, 0],
        ]
        .concat();
        let written = Span::from(span);
        assert_eq!(written.encode_to_vec(), bytes);
        assert_eq!(Span::decode(bytes.as_slice()), Ok(written));
    }
}
