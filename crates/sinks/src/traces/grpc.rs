//! OTLP over gRPC: a message with a header of five bytes each way, and the status in trailers.
//!
//! <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>

use hothouse_mock::{Answer, Body, Match};

use super::{SPANS, VENDOR, counted_note, otlp, record, wire};
use crate::{Call, Taken, bound};

const GRPC: &str = "application/grpc";

/// gRPC status codes.
const OK: u8 = 0;
const INVALID_ARGUMENT: u8 = 3;
const UNIMPLEMENTED: u8 = 12;

/// The header of a message: whether it is compressed, and its length.
const HEAD: usize = 5;

/// Returns whether a call uses gRPC.
pub(super) fn is_grpc(call: &Call<'_>) -> bool {
    call.request.header("content-type").is_some_and(|kind| kind.starts_with(GRPC))
}

/// Handles an export.
pub(super) fn take(call: &Call<'_>, path: &[&str]) -> Taken {
    let kind = match path {
        [service, "Export"] => match *service {
            "opentelemetry.proto.collector.trace.v1.TraceService" => "traces",
            "opentelemetry.proto.collector.metrics.v1.MetricsService" => "metrics",
            "opentelemetry.proto.collector.logs.v1.LogsService" => "logs",
            _ => return failed(UNIMPLEMENTED, "no such service").unknown(),
        },
        _ => return failed(UNIMPLEMENTED, "no such method").unknown(),
    };
    let Some(message) = message(call) else {
        return failed(
            INVALID_ARGUMENT,
            "the message is not one of gRPC, or not compressed by gzip",
        );
    };
    match kind {
        "traces" => match otlp::from_protobuf(&message, SPANS) {
            Some(export) => {
                let why = format!("more than {SPANS} spans in one request");
                let told = match export.rejected {
                    0 => Vec::new(),
                    count => wire::partial_success(count, &why),
                };
                let records = export.spans.into_iter().map(record).collect();
                Taken { records, ..answered(&told) }
            }
            None => failed(INVALID_ARGUMENT, "the message is not an export of OTLP"),
        },
        kind => match otlp::count_protobuf(&message) {
            Some(count) => Taken { records: vec![counted_note(count, kind)], ..answered(&[]) },
            None => failed(INVALID_ARGUMENT, "the message is not an export of OTLP"),
        },
    }
}

/// Reads the single message of a call.
fn message(call: &Call<'_>) -> Option<Vec<u8>> {
    let (head, rest) = call.request.body.split_at_checked(HEAD)?;
    let length = u32::from_be_bytes(head[1..].try_into().ok()?);
    let message =
        rest.get(..usize::try_from(length).ok()?).filter(|all| all.len() == rest.len())?;
    match head[0] {
        0 => Some(message.to_vec()),
        1 if call.request.header("grpc-encoding") == Some("gzip") => bound::gunzip(message).ok(),
        _ => None,
    }
}

fn answered(message: &[u8]) -> Taken {
    let mut body = vec![0];
    body.extend(u32::try_from(message.len()).unwrap_or(0).to_be_bytes());
    body.extend_from_slice(message);
    Taken { answer: answer(Body::Whole(body), OK, ""), records: Vec::new() }
}

fn failed(status: u8, why: &str) -> Taken {
    Taken { answer: answer(Body::Whole(Vec::new()), status, why), records: Vec::new() }
}

fn answer(body: Body, status: u8, why: &str) -> Answer {
    let mut trailers = vec![("grpc-status".to_owned(), status.to_string())];
    if !why.is_empty() {
        trailers.push(("grpc-message".to_owned(), why.to_owned()));
    }
    Answer {
        headers: vec![("content-type".to_owned(), GRPC.to_owned())],
        body,
        trailers,
        ..Answer::empty(200, Match::Vendor(VENDOR.to_owned()))
    }
}
