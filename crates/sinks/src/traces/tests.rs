use serde_json::json;

use super::*;
use crate::{
    FlagSet,
    testing::{Sent, each, tree},
};

const HOST: &str = "api.honeycomb.io";

/// Encodes a protobuf field.
fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 0x4000 && number < 16);
    let length =
        [u8::try_from(bytes.len() & 0x7f).unwrap() | 0x80, u8::try_from(bytes.len() >> 7).unwrap()];
    [&[u8::try_from(number << 3 | 2).unwrap()], length.as_slice(), bytes].concat()
}

fn attribute(key: &str, value: &[u8]) -> Vec<u8> {
    [field(1, key.as_bytes()), field(2, value)].concat()
}

fn fixed(number: u8, value: u64) -> Vec<u8> {
    [&[number << 3 | 1], value.to_le_bytes().as_slice()].concat()
}

fn span() -> Vec<u8> {
    let deep = field(5, &field(1, &field(1, b"x")));
    [
        field(1, &[0xab; 16]),
        field(2, &[0xcd; 8]),
        field(4, &[0xef; 8]),
        field(5, b"GET /cart"),
        vec![6 << 3, 2],
        fixed(7, 1_800_000_000_000_000_000),
        fixed(8, 1_800_000_000_012_345_678),
        field(9, &attribute("http.status", &[3 << 3, 200, 1])),
        field(9, &attribute("list", &deep)),
        field(11, &[fixed(1, 5), field(2, b"exception")].concat()),
        field(15, &[field(2, b"boom"), vec![3 << 3, 2]].concat()),
    ]
    .concat()
}

fn export(spans: usize) -> Vec<u8> {
    let resource = field(1, &field(1, &attribute("service.name", &field(1, b"api"))));
    let scope: Vec<u8> = (0..spans).flat_map(|_| field(2, &span())).collect();
    let mut group = resource;
    group.extend([&[2 << 3 | 2], varint(scope.len()).as_slice(), &scope].concat());
    [&[1 << 3 | 2], varint(group.len()).as_slice(), &group].concat()
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap());
    bytes
}

fn json_export() -> Value {
    let span = json!({
        "traceId": "AB".repeat(16), "spanId": "cd".repeat(8), "parentSpanId": "ef".repeat(8), "name": "GET /cart", "kind": 2,
        "startTimeUnixNano": "1800000000000000000", "endTimeUnixNano": 1_800_000_000_012_345_678_u64,
        "attributes": [{ "key": "http.status", "value": { "intValue": "200" } }, { "key": "list", "value": { "arrayValue": { "values": [{ "stringValue": "x" }] } } }],
        "events": [{ "name": "exception", "timeUnixNano": "5" }], "status": { "code": 2, "message": "boom" },
    });
    let resource =
        json!({ "attributes": [{ "key": "service.name", "value": { "stringValue": "api" } }] });
    json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [{ "spans": [span] }] }] })
}

fn sent(path: &str, kind: &str, body: impl Into<Vec<u8>>) -> Taken {
    Sent::post(path, body).header("content-type", kind).to(HOST, &FlagSet::new())
}

#[test]
fn both_encodings_make_the_same_record() {
    let binary = sent("/v1/traces", PROTOBUF, export(1));
    let text = sent("/otlp/v1/traces", "application/json", json_export().to_string());
    assert_eq!((binary.answer.status, text.answer.status), (200, 200));
    assert_eq!(binary.records, text.records);
    let record = &binary.records[0];
    assert_eq!(record.trace.as_deref(), Some("ab".repeat(16).as_str()));
    assert_eq!(record.summary, "GET /cart: 12.345 ms (api)");
    assert_eq!(record.body["parent_id"], "ef".repeat(8));
    assert_eq!(
        (&record.body["span_kind"], &record.body["status"]),
        (&json!("server"), &json!("error"))
    );
    assert_eq!(record.body["start"], "2027-01-15T08:00:00Z");
    assert_eq!(record.body["attributes"], json!({ "http.status": 200, "list": ["x"] }));
    assert_eq!(record.body["resource"], json!({ "service.name": "api" }));
    assert_eq!(record.body["events"][0]["name"], "exception");
    assert_eq!(tree(&text)["partialSuccess"], json!({}));
    assert!(binary.answer.body.bytes().is_empty());
}

#[test]
fn what_is_too_much_is_reported_as_rejected() {
    let taken = sent("/v1/traces", PROTOBUF, export(SPANS + 2));
    assert_eq!((taken.answer.status, taken.records.len()), (200, SPANS));
    let bytes = taken.answer.body.bytes();
    assert_eq!(&bytes[2..4], &[1 << 3, 2], "{bytes:?}");
}

#[test]
fn metrics_and_logs_are_counted() {
    let logs = json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": [{}, {}] }] }] });
    let taken = sent("/v1/logs", "application/json", logs.to_string());
    assert_eq!(each(&taken, "/count"), [&json!(2)]);
    let taken = sent("/v1/metrics", PROTOBUF, export(3));
    assert_eq!(each(&taken, "/count"), [&json!(3)]);
}

#[test]
fn hostile_bytes_are_refused() {
    let nested = (0..200).fold(field(1, b"x"), |inner, _| {
        let list = [&[1 << 3 | 2], varint(inner.len()).as_slice(), &inner].concat();
        [&[5 << 3 | 2], varint(list.len()).as_slice(), &list].concat()
    });
    let pair = [field(1, b"k"), [&[2 << 3 | 2], varint(nested.len()).as_slice(), &nested].concat()]
        .concat();
    let in_span = [&[9 << 3 | 2], varint(pair.len()).as_slice(), &pair].concat();
    let deep = field(1, &field(2, &field(2, &in_span)));
    for bytes in [
        b"\xff".to_vec(),
        b"\x0a\xff\xff\xff\xff\x7f".to_vec(),
        vec![0xff; 100],
        field(1, &[0x0b]),
        deep,
    ] {
        let taken = sent("/v1/traces", PROTOBUF, bytes.clone());
        assert_eq!((taken.answer.status, taken.records.len()), (400, 0), "{bytes:?}");
    }
    for text in [
        "",
        "[]",
        "{\"resourceSpans\":1}",
        "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"traceId\":\"zz\"}]}]}]}",
    ] {
        assert_eq!(sent("/v1/traces", "application/json", text).answer.status, 400, "{text}");
    }
}

#[test]
fn grpc_has_frames_and_trailers() {
    let frame = |flag: u8, message: &[u8]| {
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        [&[flag], length.as_slice(), message].concat()
    };
    let path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    let send = |path: &str, body: Vec<u8>| {
        let sent = Sent::post(path, body).header("content-type", "application/grpc+proto");
        sent.header("grpc-encoding", "gzip").to(HOST, &FlagSet::default())
    };
    let status = |taken: &Taken| taken.answer.trailers[0].1.clone();
    let taken = send(path, frame(0, &export(2)));
    assert_eq!((taken.records.len(), status(&taken).as_str()), (2, "0"));
    assert_eq!(taken.answer.body.bytes(), frame(0, b""));
    use std::io::Write as _;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&export(1)).unwrap();
    assert_eq!(send(path, frame(1, &packed.finish().unwrap())).records.len(), 1);
    for broken in [Vec::new(), frame(0, b"\xff\xff"), frame(1, b"x"), frame(7, b""), vec![0; 4]] {
        assert_eq!(status(&send(path, broken)), "3");
    }
    assert_eq!(status(&send("/other.Service/Export", frame(0, b""))), "12");
    let metrics = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
    assert_eq!(status(&send(metrics, frame(0, b""))), "0");
}
