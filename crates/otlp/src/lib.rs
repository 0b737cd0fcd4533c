//! Sends spans to a collector of OpenTelemetry, over gRPC or HTTP (the OpenTelemetry protocol, OTLP 1.10).
//!
//! [`Span`] is a plain value with all ids and times. [`Destination`] says where the collector is and how to speak to
//! it. [`exporter`] returns a [`SpanSender`], which never waits, and the task that sends spans in batches. Spans for
//! which there is no room are dropped and counted.
//!
//! The SDK of OpenTelemetry is deliberately absent. The SDK measures time itself, keeps the current span in the thread
//! and asks for the sampling of each span. Here, the caller already has all of this data.

mod client;
mod destination;
mod exporter;
pub mod messages;
mod span;

pub use client::ExportError;
pub use destination::{Destination, DestinationError, Protocol};
pub use exporter::{ExportObserver, SpanSender, exporter};
pub use span::{Resource, Span, SpanEvent, SpanId, SpanKind, TraceId, Value};
