//! Converts ledger records of the wall to timeline records. Pure, except for storing bytes too
//! large for a record.

use hothouse_model::{
    Word,
    id::fnv1a,
    ledger::{AttemptKind, LedgerRecord, RequestBodies, RoomProcess},
    record::{
        Draft, Kind, Process, Record,
        bodies::{BlobRef, ConnectionBody, Message, RequestBody, Transport},
        trace_of,
    },
};
use hothouse_terminate::unpacked;
use serde_json::Value;

/// The maximum length of a body that is stored in the record itself.
const SHORT: usize = 8 << 10;

/// The maximum number of listed query parameters.
const NAMES: usize = 64;

/// Stores bytes beside the timeline.
pub(super) type Keep<'a> = &'a dyn Fn(&[u8]) -> Option<BlobRef>;

/// Drafts the record of an egress attempt.
pub(super) fn of(record: &LedgerRecord, keep: Keep<'_>) -> Draft {
    let mut draft = match (record.kind, &record.request) {
        (AttemptKind::Request, Some(seen)) => request(record, seen, keep),
        _ => connection(record),
    };
    let process = record.process.as_ref();
    draft.process =
        process.map(|process| Process { room_pid: process.pid, command: process.name.clone() });
    let of_process = process.and_then(|process| process.service.clone());
    draft.service =
        of_process.or_else(|| record.request.as_ref().and_then(|seen| text(seen, "service")));
    // All records of one attempt have the same id.
    draft.id = Some(draft.kind.id(fnv1a(&[record.id.as_bytes()]).to_be_bytes()));
    draft
}

fn request(record: &LedgerRecord, seen: &Value, keep: Keep<'_>) -> Draft {
    let detail = &seen["detail"];
    let bodies = record.bodies.as_deref();
    let kept = |side: fn(&RequestBodies) -> &[u8], of: &Value| match bodies {
        Some(all) if all.packed => unpacked(side(all), &headers(of)),
        Some(all) => side(all).to_vec(),
        None => Vec::new(),
    };
    let path = text(seen, "path").unwrap_or_default();
    // A stand-in is named beside the request or in its detail.
    let either = |name: &str| match &seen[name] {
        Value::Null => detail[name].clone(),
        found => found.clone(),
    };
    let word = |name: &str| either(name).as_str().map(str::to_owned);
    let status = seen["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    let body = RequestBody {
        host: host(record),
        port: record.port.unwrap_or_default(),
        tls: detail["tls"].as_bool().unwrap_or(false),
        version: text(detail, "http").unwrap_or_else(|| "1.1".into()),
        method: text(seen, "method").unwrap_or_default(),
        query: names_of(&path),
        path,
        status,
        integration: word("integration"),
        class: word("class").map(Word::read),
        matched: either("matched").as_bool(),
        fixture: word("fixture"),
        duration_ms: record.duration_ms,
        secrets: texts(&detail["secrets"]),
        refused: text(detail, "refused").or_else(|| denied(record)),
        error: record.error.clone(),
        request: {
            let side = &detail["request"];
            message(side, record.sent, &kept(|all| &all.request, side), keep)
        },
        response: {
            let side = &detail["response"];
            message(side, record.received, &kept(|all| &all.response, side), keep)
        },
    };
    let answer = body.status.map_or_else(|| "no answer".into(), |status| status.to_string());
    let summary = format!("{} {}{} {answer}", body.method, body.host, body.path);
    let headers = body.request.headers.iter();
    let trace = trace_of(headers.map(|(name, value)| (name.as_str(), value.as_str())));
    Draft { trace, ..Draft::of(record.time, summary, &body) }
}

/// Returns the parameter names in the query of a path.
fn names_of(path: &str) -> Vec<String> {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let names = pairs.map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name).to_owned());
    names.take(NAMES).collect()
}

fn connection(record: &LedgerRecord) -> Draft {
    let transport = match (record.kind, record.protocol.as_deref()) {
        (AttemptKind::Datagram, Some("UDP")) => Transport::Udp,
        (AttemptKind::Datagram, Some("ICMP")) => Transport::Icmp,
        (AttemptKind::Datagram | AttemptKind::Lookup, _) => Transport::Other,
        _ => Transport::Tcp,
    };
    let protocol = match record.kind {
        AttemptKind::Lookup => Some("DNS".to_owned()),
        _ => record.protocol.clone(),
    };
    let body = ConnectionBody {
        host: record.host.clone(),
        address: record.address,
        port: record.port,
        transport,
        // Plain HTTP is checked and recorded request by request.
        inspected: record.inspected || record.protocol.as_deref() == Some("HTTP"),
        protocol,
        allowed: record.allowed,
        rule: record.rule.clone(),
        code: record.code.clone(),
        reason: record.reason.clone(),
        open: record.open,
        sent: record.sent,
        received: record.received,
        duration_ms: record.duration_ms,
        error: record.error.clone(),
    };
    let port = record.port.map(|port| format!(":{port}")).unwrap_or_default();
    let verdict = match (record.allowed, record.open) {
        (false, _) => "denied",
        (true, true) => "open",
        (true, false) => "ended",
    };
    Draft::of(record.time, format!("{}{port} {verdict}", host(record)), &body)
}

/// Converts a record back to a ledger record; `None` for other kinds.
pub(super) fn back(record: &Record) -> Option<LedgerRecord> {
    let process = record.process.as_ref().map(|process| RoomProcess {
        pid: process.room_pid,
        name: process.command.clone(),
        service: record.service.clone(),
    });
    let (seq, id, time, run) = (record.seq, record.id.clone(), record.time, record.run.clone());
    let empty = serde_json::json!({
        "seq": seq, "id": id, "time": time, "run": run, "kind": "request", "allowed": true, "rule": "",
    });
    let empty: LedgerRecord = serde_json::from_value(empty).ok()?;
    match record.kind {
        Kind::Request => {
            let body: RequestBody = record.body().ok()?;
            let request = serde_json::json!({
                "method": body.method, "path": body.path, "status": body.status,
                "integration": body.integration, "class": body.class, "matched": body.matched,
            });
            Some(LedgerRecord {
                allowed: body.refused.is_none(),
                reason: body.refused,
                host: Some(body.host),
                port: Some(body.port),
                sent: body.request.bytes,
                received: body.response.bytes,
                duration_ms: body.duration_ms,
                error: body.error,
                request: Some(request),
                process,
                ..empty
            })
        }
        Kind::Connection => {
            let body: ConnectionBody = record.body().ok()?;
            let kind = match (body.transport, body.protocol.as_deref()) {
                (Transport::Tcp, _) => AttemptKind::Connection,
                (_, Some("DNS")) => AttemptKind::Lookup,
                _ => AttemptKind::Datagram,
            };
            Some(LedgerRecord {
                kind,
                allowed: body.allowed,
                rule: body.rule,
                code: body.code,
                reason: body.reason,
                host: body.host,
                address: body.address,
                port: body.port,
                protocol: body.protocol,
                sent: body.sent,
                received: body.received,
                duration_ms: body.duration_ms,
                open: body.open,
                inspected: body.inspected,
                error: body.error,
                process,
                ..empty
            })
        }
        _ => None,
    }
}

fn host(record: &LedgerRecord) -> String {
    let address = || record.address.map(|address| address.to_string());
    record.host.clone().or_else(address).unwrap_or_else(|| "?".into())
}

fn denied(record: &LedgerRecord) -> Option<String> {
    record.reason.clone().filter(|_| !record.allowed)
}

fn headers(side: &Value) -> Vec<(String, String)> {
    let pair = |pair: &Value| Some((pair[0].as_str()?.to_owned(), pair[1].as_str()?.to_owned()));
    side["headers"].as_array().into_iter().flatten().filter_map(pair).collect()
}

/// Converts one message. Short text is stored in the record, everything else beside it.
fn message(side: &Value, bytes: u64, body: &[u8], keep: Keep<'_>) -> Message {
    let short = std::str::from_utf8(body).ok().filter(|text| text.len() <= SHORT);
    let blob = if short.is_none() { keep(body) } else { None };
    Message {
        headers: headers(side),
        bytes: side["body"]["bytes"].as_u64().unwrap_or(bytes),
        text: short.filter(|text| !text.is_empty()).map(str::to_owned),
        blob,
    }
}

fn text(value: &Value, name: &str) -> Option<String> {
    value[name].as_str().map(str::to_owned)
}

fn texts(value: &Value) -> Vec<String> {
    let all = value.as_array().into_iter().flatten();
    all.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Drafts without a place to store bytes.
    fn of(record: &LedgerRecord) -> Draft {
        super::of(record, &|_| None)
    }

    fn record(kind: &str, more: Value) -> LedgerRecord {
        let mut all = json!({
            "seq": 1, "id": "eg_1", "time": "2026-01-01T00:00:00Z", "run": "run_1", "kind": kind,
            "allowed": true, "rule": "r", "host": "api.example.com", "port": 443,
        });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn a_request_has_what_was_seen_of_it_and_nothing_where_that_is_unknown() {
        let seen = json!({ "request": { "method": "POST", "path": "/v1/x", "status": 200 } });
        let draft = of(&record("request", seen));
        assert_eq!(draft.kind, Kind::Request);
        assert_eq!(draft.summary, "POST api.example.com/v1/x 200");
        for unknown in ["integration", "class", "matched", "fixture", "refused"] {
            assert_eq!(draft.body[unknown], Value::Null, "{unknown}");
        }
        for place in ["beside", "detail"] {
            let facts = json!({ "integration": "stripe", "class": "mock", "matched": false, "fixture": null });
            let mut seen = json!({ "method": "GET", "path": "/", "status": 501, "service": "api" });
            match place {
                "beside" => {
                    seen.as_object_mut().unwrap().extend(facts.as_object().unwrap().clone())
                }
                _ => seen["detail"] = facts,
            }
            let draft = of(&record("request", json!({ "request": seen })));
            assert_eq!(draft.body["integration"], "stripe", "{place}");
            assert_eq!(draft.body["matched"], false, "{place}");
            assert_eq!(draft.service.as_deref(), Some("api"));
        }
    }

    #[test]
    fn headers_and_bodies_are_kept_and_a_refusal_says_why() {
        let side = json!({ "headers": [["a", "b"], ["broken"]], "body": { "bytes": 9 } });
        let detail = json!({ "http": "2", "tls": true, "secrets": ["KEY"], "request": side, "response": {} });
        let seen = json!({ "method": "GET", "path": "/", "status": 403, "detail": detail });
        let mut noted =
            record("request", json!({ "request": seen, "allowed": false, "reason": "no" }));
        let bodies =
            RequestBodies { request: b"x".to_vec(), response: b"\xff".to_vec(), packed: false };
        noted.bodies = Some(std::sync::Arc::new(bodies));
        let draft = of(&noted);
        let body: RequestBody = serde_json::from_value(draft.body).unwrap();
        assert_eq!(body.request.headers, [("a".to_owned(), "b".to_owned())]);
        assert_eq!((body.request.bytes, body.request.text.as_deref()), (9, Some("x")));
        assert_eq!((body.tls, body.version.as_str()), (true, "2"));
        assert_eq!((body.secrets, body.refused.as_deref()), (vec!["KEY".to_owned()], Some("no")));
    }

    #[test]
    fn long_bodies_and_bytes_that_are_not_text_are_kept_beside_the_record() {
        let seen = json!({ "method": "POST", "path": "/x?a=1&b&c=[redacted]", "status": 200 });
        let mut noted = record("request", json!({ "request": seen }));
        let (request, response) = (vec![b'x'; SHORT + 1], vec![0xff, 0xfe]);
        let bodies = RequestBodies { request, response, packed: false };
        noted.bodies = Some(std::sync::Arc::new(bodies));
        let keep = |bytes: &[u8]| {
            let bytes = bytes.len() as u64;
            Some(BlobRef { sha256: "0".into(), bytes, kept: bytes, file: "blobs/0".into() })
        };
        let body: RequestBody = serde_json::from_value(super::of(&noted, &keep).body).unwrap();
        assert_eq!(body.query, ["a", "b", "c"]);
        assert_eq!(body.request.text, None);
        let kept = |message: &Message| message.blob.as_ref().map(|blob| blob.bytes);
        assert_eq!((kept(&body.request), kept(&body.response)), (Some(SHORT as u64 + 1), Some(2)));
    }

    #[test]
    fn the_trace_of_a_request_is_that_of_its_headers() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let headers = json!([["traceparent", format!("00-{trace}-00f067aa0ba902b7-01")]]);
        let seen = json!({ "method": "GET", "path": "/", "detail": { "request": { "headers": headers } } });
        assert_eq!(
            of(&record("request", json!({ "request": seen }))).trace.as_deref(),
            Some(trace)
        );
    }

    #[test]
    fn a_connection_has_one_id_from_its_beginning_to_its_end() {
        let mut opened = record("connection", json!({ "open": true, "protocol": "TLS" }));
        opened.process =
            Some(RoomProcess { pid: 7, name: "curl".into(), service: Some("web".into()) });
        let (begun, ended) = (of(&opened), of(&LedgerRecord { open: false, ..opened.clone() }));
        assert_eq!((begun.kind, &begun.id), (Kind::Connection, &ended.id));
        assert_eq!(begun.body["inspected"], false);
        assert_eq!(of(&LedgerRecord { inspected: true, ..opened }).body["inspected"], true);
        assert_eq!(ended.process.unwrap().command, "curl");
        assert_eq!(ended.service.as_deref(), Some("web"));
        assert_eq!(ended.summary, "api.example.com:443 ended");
        let plain = of(&record("connection", json!({ "protocol": "HTTP" })));
        assert_eq!(plain.body["inspected"], true);
        let sent = of(&record("datagram", json!({ "protocol": "UDP" })));
        assert_eq!(sent.body["transport"], "udp");
        let looked_up = of(&record("lookup", json!({ "allowed": false, "port": null })));
        assert_eq!(looked_up.summary, "api.example.com denied");
        assert_eq!(
            (&looked_up.body["protocol"], &looked_up.body["transport"]),
            (&json!("DNS"), &json!("other"))
        );
    }
}
