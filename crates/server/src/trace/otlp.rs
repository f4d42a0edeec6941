//! Spans in OpenTelemetry's protocol (opentelemetry-proto 1.x, `trace/v1/trace.proto` with its
//! parts of `common` and `resource`), with the attributes of the semantic conventions for HTTP
//! (stable since 1.23). Only the used fields; numbers are those of the documents.

use std::sync::Arc;

use prost::Message;

use super::{RequestAttributes, Span};

/// The role of a span (`SpanKind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A request of a client.
    Server = 2,
    /// A request to the origin.
    Client = 3,
}

#[derive(Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Record>,
}

#[derive(Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Message)]
struct Record {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    status: Option<Status>,
}

#[derive(Message)]
struct Status {
    #[prost(int32, tag = "3")]
    code: i32,
}

/// `STATUS_CODE_ERROR`
const ERROR: i32 = 2;

#[derive(Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Message)]
struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 3")]
    value: Option<Value>,
}

#[derive(prost::Oneof)]
enum Value {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Number(i64),
}

/// The body of a request to the collector.
pub(super) fn encode(service: &str, spans: Vec<Span>) -> Vec<u8> {
    let resource = Resource { attributes: vec![text("service.name", service)] };
    let scope = Scope { name: "larder".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let spans = spans.into_iter().map(record).collect();
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
    Request { resource_spans: vec![ResourceSpans { resource: Some(resource), scope_spans }] }
        .encode_to_vec()
}

fn record(span: Span) -> Record {
    let mut attributes = attributes_of(&span.request, span.kind);
    if span.status != 0 {
        attributes.push(number("http.response.status_code", u64::from(span.status)));
    }
    if let Some(result) = span.result {
        attributes.push(text("larder.result", result));
        attributes.push(number("http.response.body.size", span.body_bytes));
    }
    // A server's 4xx is the client's fault; a client's is its own (semantic conventions, "Status").
    let failed = match span.kind {
        Kind::Server => span.status >= 500,
        Kind::Client => span.status >= 400 || span.status == 0,
    };
    Record {
        trace_id: span.trace.to_be_bytes().to_vec(),
        span_id: span.id.to_be_bytes().to_vec(),
        parent_span_id: span.parent.map(|id| id.to_be_bytes().to_vec()).unwrap_or_default(),
        name: span.request.method.clone(),
        kind: span.kind as i32,
        start_time_unix_nano: span.start_us.saturating_mul(1000),
        end_time_unix_nano: span.end_us.max(span.start_us).saturating_mul(1000),
        attributes,
        status: failed.then_some(Status { code: ERROR }),
    }
}

fn attributes_of(request: &Arc<RequestAttributes>, kind: Kind) -> Vec<KeyValue> {
    let mut out =
        vec![text("http.request.method", &request.method), text("server.address", &request.host)];
    match kind {
        Kind::Server => {
            out.push(text("url.scheme", request.scheme));
            out.push(text("url.path", &request.path));
            out.extend(request.query.as_deref().map(|query| text("url.query", query)));
            out.push(text("client.address", &request.client.to_string()));
            out.extend(request.agent.as_deref().map(|agent| text("user_agent.original", agent)));
        }
        Kind::Client => {
            let query =
                request.query.as_deref().map(|query| format!("?{query}")).unwrap_or_default();
            let url = format!("{}://{}{}{query}", request.scheme, request.host, request.path);
            out.push(text("url.full", &url));
        }
    }
    out
}

fn text(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(Value::Text(value.to_owned())) }),
    }
}

fn number(key: &str, value: u64) -> KeyValue {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(Value::Number(value)) }) }
}
