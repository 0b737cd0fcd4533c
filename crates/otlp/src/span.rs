//! Spans as values. The names and meanings of the fields are OpenTelemetry's
//! (<https://opentelemetry.io/docs/specs/otel/trace/api/#span>).

use std::{borrow::Cow, fmt, sync::Arc};

/// The id of a trace. It must not be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TraceId(pub u128);

impl fmt::Display for TraceId {
    /// Writes 32 hexadecimal digits, as every tool shows a trace id.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", self.0)
    }
}

/// The id of a span within its trace. It must not be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpanId(pub u64);

/// The relation of a span to other processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpanKind {
    /// Work within the process.
    #[default]
    Internal,
    /// A request to another process.
    Client,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Static(&'static str),
    Shared(Arc<str>),
    Text(String),
    Number(i64),
    Texts(Vec<String>),
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Static(text)
    }
}

impl From<&Arc<str>> for Value {
    fn from(text: &Arc<str>) -> Self {
        Self::Shared(Arc::clone(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<Vec<String>> for Value {
    fn from(texts: Vec<String>) -> Self {
        Self::Texts(texts)
    }
}

/// Attributes with their names, each name once.
pub(crate) type Attributes = Vec<(&'static str, Value)>;

/// A span that is over. Times are nanoseconds since 1970.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub trace: TraceId,
    pub id: SpanId,
    /// The span of which this span is a part; `None` for the first span of a trace.
    pub parent: Option<SpanId>,
    pub name: Cow<'static, str>,
    pub kind: SpanKind,
    pub start: u64,
    pub end: u64,
    pub attributes: Attributes,
    pub events: Vec<SpanEvent>,
    /// The description of the error, if the span failed.
    pub error: Option<String>,
}

/// Something that happened during a span.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanEvent {
    pub name: &'static str,
    pub at: u64,
    pub attributes: Attributes,
}

/// The source of all spans of this process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resource {
    /// The attributes of the process, such as `service.name`.
    pub attributes: Attributes,
    /// The name and version of the library that makes the spans.
    pub scope: (&'static str, &'static str),
}
