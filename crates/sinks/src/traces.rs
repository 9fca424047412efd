//! Traces: OTLP over HTTP, as protobuf and as JSON, and over gRPC. One record per span.
//!
//! The few fields of a record are parsed by [`wire`], a bounded protobuf reader: the generated
//! types of OTLP would add forty crates.
//!
//! - [`grpc`]: the same messages with gRPC framing
//! - [`otlp`]: requests in both encodings, as spans
//! - [`wire`]: the protobuf encoding

mod grpc;
pub mod otlp;
mod wire;

use hothouse_model::{
    glob,
    record::bodies::{LogBody, SpanStatus, TraceBody},
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::{Call, Context, HostSink, Recorded, Taken, bound, http};
use otlp::{Export, Span};

const VENDOR: &str = "otlp";

/// The maximum number of spans per request; beyond that, the exporter is told how many were
/// rejected.
const SPANS: usize = 5000;

/// The maximum number of events per span.
const EVENTS: usize = 50;

const PROTOBUF: &str = "application/x-protobuf";

/// Hosts that accept OTLP.
const HOSTS: [&str; 10] = [
    "api.honeycomb.io",
    "api.eu1.honeycomb.io",
    "otlp.nr-data.net",
    "otlp.eu01.nr-data.net",
    "otlp-gateway-*.grafana.net",
    "*.otlp.signalfx.com",
    "ingest.lightstep.com",
    "api.axiom.co",
    "otlp.uptrace.dev",
    "ingest.*.signoz.cloud",
];

/// Finds the sink of a host.
pub fn find(host: &str) -> Option<HostSink> {
    let known = HOSTS.iter().any(|known| glob::fits(known.as_bytes(), host.as_bytes()));
    known.then_some(OTLP)
}

/// The sink for a collector on any host.
pub const OTLP: HostSink = HostSink { vendor: VENDOR, take };

/// Handles a request to a collector.
pub fn take(call: &Call<'_>, _: &mut Context<'_>) -> Taken {
    if let Some(taken) = http::preflight(call, VENDOR) {
        return taken;
    }
    if grpc::is_grpc(call) {
        return grpc::take(call, &http::path(call));
    }
    let taken = match http::path(call).as_slice() {
        [.., "v1", "traces"] => exported(call),
        [.., "v1", kind @ ("metrics" | "logs")] => counted(call, kind),
        _ => Taken::json(404, &json!({ "message": "not found" }), VENDOR, Vec::new()).unknown(),
    };
    http::shared(taken, call)
}

fn is_protobuf(call: &Call<'_>) -> bool {
    call.request.header("content-type").is_some_and(|kind| kind.contains("protobuf"))
}

fn exported(call: &Call<'_>) -> Taken {
    let read = match is_protobuf(call) {
        true => otlp::from_protobuf(call.request.body, SPANS),
        false => call.tree().and_then(|tree| otlp::from_json(tree, SPANS)),
    };
    match read {
        Some(Export { spans, rejected }) => {
            let records = spans.into_iter().map(record).collect();
            Taken { records, ..accepted(call, rejected) }
        }
        None => refused(call),
    }
}

/// Answers that everything, or all but some spans, was accepted.
fn accepted(call: &Call<'_>, rejected: u64) -> Taken {
    let why = format!("more than {SPANS} spans in one request");
    match (is_protobuf(call), rejected) {
        (true, 0) => http::text(200, PROTOBUF, Vec::new(), VENDOR),
        (true, count) => http::text(200, PROTOBUF, wire::partial_success(count, &why), VENDOR),
        (false, 0) => Taken::json(200, &json!({ "partialSuccess": {} }), VENDOR, Vec::new()),
        (false, count) => {
            let partial = json!({ "rejectedSpans": count.to_string(), "errorMessage": why });
            Taken::json(200, &json!({ "partialSuccess": partial }), VENDOR, Vec::new())
        }
    }
}

fn refused(call: &Call<'_>) -> Taken {
    let why = "the body is not an export of OTLP";
    match is_protobuf(call) {
        true => http::text(400, PROTOBUF, wire::status(why), VENDOR),
        false => Taken::json(400, &json!({ "code": 3, "message": why }), VENDOR, Vec::new()),
    }
}

/// Handles metrics or logs: they are counted, not stored.
fn counted(call: &Call<'_>, kind: &str) -> Taken {
    let count = match is_protobuf(call) {
        true => otlp::count_protobuf(call.request.body),
        false => call.tree().map(|tree| otlp::count_json(tree, kind)),
    };
    let Some(count) = count else { return refused(call) };
    Taken { records: vec![counted_note(count, kind)], ..accepted(call, 0) }
}

/// Records how many metrics or logs were received.
fn counted_note(count: u64, kind: &str) -> Recorded {
    let text = format!("{count} {kind} of OpenTelemetry were taken, and not kept");
    let body = LogBody {
        source: VENDOR.to_owned(),
        level: "info".to_owned(),
        text: text.clone(),
        count: Some(count),
        ..LogBody::default()
    };
    Recorded::of(text, &body)
}

fn record(span: Span) -> Recorded {
    let length = span.end.saturating_sub(span.start);
    #[expect(
        clippy::cast_precision_loss,
        reason = "a duration of years is not exact to the nanosecond"
    )]
    let duration_ms = (length / 1000) as f64 / 1000.0;
    let name = bound::short(&span.name);
    let service = span.resource.get("service.name").and_then(Value::as_str).unwrap_or("unknown");
    let summary = format!("{name}: {duration_ms} ms ({})", bound::short(service));
    let body = TraceBody {
        trace_id: span.trace_id.clone(),
        span_id: span.span_id,
        parent_id: Some(span.parent_id).filter(|id| !id.is_empty()),
        name,
        span_kind: kind(span.kind).to_owned(),
        status: status(span.status).into(),
        status_message: Some(bound::short(&span.message)).filter(|text| !text.is_empty()),
        start: moment(span.start),
        duration_ms,
        attributes: fitting(span.attributes),
        resource: fitting(span.resource),
        events: bound::first_fitting(span.events, EVENTS),
    };
    Recorded { trace: Some(span.trace_id), ..Recorded::of(summary, &body) }
}

/// Limits one free part of a record, which has space for three of them.
fn fitting(map: Map<String, Value>) -> Value {
    bound::fitting(Value::Object(map))
}

fn moment(nanoseconds: u64) -> Option<Timestamp> {
    let since = SignedDuration::from_nanos(i64::try_from(nanoseconds).ok()?);
    (nanoseconds > 0).then(|| Timestamp::UNIX_EPOCH.checked_add(since).ok()).flatten()
}

fn kind(number: u64) -> &'static str {
    ["unspecified", "internal", "server", "client", "producer", "consumer"]
        .get(usize::try_from(number).unwrap_or_default())
        .unwrap_or(&"unspecified")
}

fn status(number: u64) -> SpanStatus {
    match number {
        1 => SpanStatus::Ok,
        2 => SpanStatus::Error,
        _ => SpanStatus::Unset,
    }
}

#[cfg(test)]
mod tests;
